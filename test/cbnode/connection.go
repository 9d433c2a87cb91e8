package cbnode

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/couchbase/gocbcore/v10/memd"
)

// maxPacketBytes is the longest request that the server reads before it gives up on a connection.
const maxPacketBytes = 30 << 20

// connection is one client's connection. Its read loop owns all fields but the two that write.
type connection struct {
	node   *Node
	run    *incarnation
	number uint64
	socket net.Conn

	requests      *memd.Conn
	scram         *scramConversation
	authenticated bool
	selected      bool

	// writing guards responses, which several requests may be ready to write at once. The codec that
	// writes has no features turned on: answers carry no collections.
	writing   sync.Mutex
	responses *memd.Conn
}

// stream reads ahead and writes straight.
type stream struct {
	*bufio.Reader
	io.Writer
}

func newConnection(n *Node, run *incarnation, socket net.Conn) (*connection, *bufio.Reader) {
	reader := bufio.NewReader(socket)
	codec := memd.NewConn(stream{reader, socket})
	return &connection{
		node: n, run: run, number: n.connections.Add(1), socket: socket,
		requests: codec, responses: memd.NewConn(stream{nil, socket}),
	}, reader
}

// serve reads requests until the connection ends.
func (c *connection) serve(reader *bufio.Reader) {
	for {
		p, err := c.read(reader)
		if err != nil {
			return
		}
		// A frozen node has read the request, and will run it when it thaws, wanted or not.
		if !c.node.passGate(c.run.ctx) {
			return
		}
		c.dispatch(p)
	}
}

// read reads a request. The codec believes the lengths in what it gets and panics where frames lie.
func (c *connection) read(reader *bufio.Reader) (p *memd.Packet, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("malformed frames: %v", v)
		}
	}()
	if err := checkHeader(reader); err != nil {
		return nil, err
	}
	p, _, err = c.requests.ReadPacket()
	return p, err
}

// checkHeader looks at the lengths in the next header, before the codec does.
func checkHeader(reader *bufio.Reader) error {
	const headerBytes = 24
	header, err := reader.Peek(headerBytes)
	if err != nil {
		return err
	}
	parts := int(binary.BigEndian.Uint16(header[2:])) + int(header[4])
	if memd.CmdMagic(header[0]) != memd.CmdMagicReq {
		// A request with frames has one byte for their length and one for the key's.
		parts = int(header[2]) + int(header[3]) + int(header[4])
	}
	if body := binary.BigEndian.Uint32(header[8:]); body > maxPacketBytes || int(body) < parts {
		return errors.New("malformed header")
	}
	return nil
}

// dispatch decides the fate of a request and sees to it, at once or after the delay that the hook wants.
func (c *connection) dispatch(p *memd.Packet) {
	n := c.node
	n.count(p.Command)
	action := n.decide(Request{
		Number: n.requests.Add(1), Connection: c.number,
		Command: p.Command, Key: string(p.Key), Collection: p.CollectionID, CAS: p.Cas, Value: p.Value,
		Durable: p.DurabilityLevelFrame != nil,
	})
	if isBootstrap(p.Command) {
		// These change the connection, so they stay in order even when they are slow.
		c.fulfil(p, action, func() reply { r, _ := c.bootstrap(p); return r })
		return
	}
	admitted, withTokens := c.admits(), c.requests.IsFeatureEnabled(memd.FeatureSeqNo)
	run := func() reply {
		if admitted != memd.StatusSuccess {
			return status(admitted)
		}
		return n.execute(p, withTokens)
	}
	if action.Before > 0 || action.After > 0 {
		c.run.goroutines.Go(func() { c.fulfil(p, action, run) })
		return
	}
	c.fulfil(p, action, run)
}

func isBootstrap(command memd.CmdCode) bool {
	switch command {
	case memd.CmdHello, memd.CmdGetErrorMap, memd.CmdSASLListMechs, memd.CmdSASLAuth, memd.CmdSASLStep,
		memd.CmdSelectBucket, memd.CmdGetClusterConfig, memd.CmdNoop:
		return true
	}
	return false
}

// fulfil applies and answers a request as far as the action lets it.
func (c *connection) fulfil(p *memd.Packet, action Action, run func() reply) {
	if !c.run.pause(action.Before) || !c.node.passGate(c.run.ctx) {
		return
	}
	var answer reply
	switch action.Fault {
	case DropRequest:
		return
	case CloseBefore:
		c.socket.Close()
		return
	case Refuse:
		answer.status = action.Status
		if answer.status == memd.StatusSuccess {
			answer.status = memd.StatusTmpFail
		}
	default:
		answer = run()
	}
	switch action.Fault {
	case DropAnswer:
		return
	case CloseAfter:
		c.socket.Close()
		return
	}
	if !c.run.pause(action.After) || !c.node.passGate(c.run.ctx) {
		return
	}
	c.write(p, answer)
}

// write answers p. Where that fails the connection is gone, and the read loop finds out for itself.
func (c *connection) write(p *memd.Packet, r reply) {
	c.writing.Lock()
	defer c.writing.Unlock()
	err := c.responses.WritePacket(&memd.Packet{
		Magic: memd.CmdMagicRes, Command: p.Command, Opaque: p.Opaque,
		Status: r.status, Cas: r.cas, Extras: r.extras, Value: r.value,
	})
	if err != nil {
		c.socket.Close()
	}
}

// collectionID answers COLLECTIONS_GET_CID, whose value is "scope.collection".
func (n *Node) collectionID(p *memd.Packet) reply {
	path := string(p.Value)
	if path == "" {
		path = string(p.Key) // where older clients put it
	}
	scopeName, name, ok := strings.Cut(path, ".")
	if !ok {
		return status(memd.StatusInvalidArgs)
	}
	id, uid, code := n.manifest.id(scopeName, name)
	if code != memd.StatusSuccess {
		return status(code)
	}
	return reply{extras: binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uid), id)}
}

package cluster

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"klatch/internal/task"
	"klatch/proto"
)

// maxStreams bounds the messages that are on their way to one peer by TCP.
const maxStreams = 8

// courier sends messages by TCP, each in a goroutine of its own, since a dead peer takes until the time-out.
type courier struct {
	transmit func(to *memberlist.Node, message []byte) error
	tasks    task.Group

	mu       sync.Mutex // guards underWay
	underWay map[proto.Origin]int

	errors atomic.Uint64 // messages that were dropped or refused
}

func newCourier() *courier { return &courier{underWay: map[proto.Origin]int{}} }

// send never blocks. A message that finds too many under way to its peer is dropped: whoever sends by TCP sends
// again if nothing comes of it. failed, if not nil, is called when it is dropped or the network has refused it.
func (c *courier) send(to *peer, message []byte, failed func()) {
	c.mu.Lock()
	room := c.underWay[to.origin] < maxStreams
	if room {
		c.underWay[to.origin]++
	}
	c.mu.Unlock()
	sent := room && c.tasks.Go(func() {
		err := c.transmit(to.node, message)
		c.done(to.origin)
		if err != nil {
			c.errors.Add(1)
			if failed != nil {
				failed()
			}
		}
	})
	switch {
	case sent:
		return
	case room: // closed
		c.done(to.origin)
	default:
		c.errors.Add(1)
	}
	if failed != nil {
		failed()
	}
}

func (c *courier) done(peer proto.Origin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.underWay[peer]--; c.underWay[peer] == 0 {
		delete(c.underWay, peer)
	}
}

// boundedTransport gives every stream that this node opens a deadline. memberlist sets none for user messages, so
// that one to a frozen peer would hang for as long as TCP does.
type boundedTransport struct{ memberlist.Transport }

var _ memberlist.NodeAwareTransport = boundedTransport{}

// WriteToAddress implements memberlist.NodeAwareTransport.
func (t boundedTransport) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	if aware, ok := t.Transport.(memberlist.NodeAwareTransport); ok {
		return aware.WriteToAddress(b, to)
	}
	return t.WriteTo(b, to.Addr)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t boundedTransport) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (conn net.Conn, err error) {
	if aware, ok := t.Transport.(memberlist.NodeAwareTransport); ok {
		conn, err = aware.DialAddressTimeout(to, timeout)
	} else {
		conn, err = t.DialTimeout(to.Addr, timeout)
	}
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

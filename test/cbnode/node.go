package cbnode

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"
)

// loopback is the only address that a node ever listens on.
const loopback = "127.0.0.1"

// Options say what node to start. The zero value is a node on free ports with the bucket "default" and the
// user Administrator, whose password is "password".
type Options struct {
	// KVPort and MgmtPort are the ports of the documents and of the REST API. Zero means a free one, which
	// the node then keeps; see ChoosePort.
	KVPort, MgmtPort int

	// Bucket is the name of the only bucket. The default is "default".
	Bucket string
	// User and Password are the only account. The default is Administrator and password.
	User, Password string

	// Now is the clock by which documents expire and locks end. The default is time.Now. It may be ahead
	// of the machine's clock: expiry dates, which clients compute by the machine's, are carried over.
	Now func() time.Time

	// Hook decides the fate of requests from the first one on. SetHook replaces it.
	Hook Hook
}

// Node is a running or stopped node. All methods may be called at any time by any goroutine.
type Node struct {
	options     Options
	documents   *documents
	manifest    *manifest
	bucketUUID  string
	vbucketUUID uint64

	connections atomic.Uint64
	requests    atomic.Uint64
	perCommand  [256]atomic.Uint64
	hook        atomic.Pointer[Hook]

	// freezing guards gate, which is there while the node is frozen and closed when it thaws.
	freezing sync.Mutex
	gate     chan struct{}

	// lifecycle guards running and closed. It is held while the node starts and stops.
	lifecycle sync.Mutex
	running   *incarnation
	closed    bool
}

// Start starts a node.
func Start(options Options) (*Node, error) {
	options.Bucket = cmp.Or(options.Bucket, "default")
	options.User = cmp.Or(options.User, "Administrator")
	options.Password = cmp.Or(options.Password, "password")
	if options.Now == nil {
		options.Now = time.Now
	}
	var id [24]byte
	rand.Read(id[:])
	n := &Node{
		options: options, documents: newDocuments(options.Now), manifest: newManifest(),
		bucketUUID: hex.EncodeToString(id[:16]), vbucketUUID: binary.BigEndian.Uint64(id[16:]),
	}
	n.SetHook(options.Hook)
	var err error
	for _, port := range []*int{&n.options.KVPort, &n.options.MgmtPort} {
		if *port != 0 {
			continue
		}
		if *port, err = ChoosePort(); err != nil {
			return nil, err
		}
	}
	if err := n.Restart(); err != nil {
		return nil, err
	}
	return n, nil
}

// Restart starts a stopped node again, on its ports and with its documents.
func (n *Node) Restart() error {
	n.lifecycle.Lock()
	defer n.lifecycle.Unlock()
	switch {
	case n.closed:
		return errors.New("cbnode: restart: the node is closed")
	case n.running != nil:
		return errors.New("cbnode: restart: the node is running; call Stop first")
	}
	run, err := start(n)
	if err != nil {
		return fmt.Errorf("cbnode: start: %w", err)
	}
	n.running = run
	return nil
}

// Stop closes the ports and all connections and returns when the last request has ended. Requests that
// wait, for their delay or for a thaw, are lost. The documents stay for Restart. Where the node is stopped
// already, Stop does nothing.
func (n *Node) Stop() {
	n.lifecycle.Lock()
	defer n.lifecycle.Unlock()
	if n.running != nil {
		n.running.stop()
		n.running = nil
	}
}

// Close stops the node for good.
func (n *Node) Close() {
	n.Stop()
	n.lifecycle.Lock()
	defer n.lifecycle.Unlock()
	n.closed = true
}

// Disconnect closes all connections of the document port. Clients may connect again at once.
func (n *Node) Disconnect() {
	n.lifecycle.Lock()
	defer n.lifecycle.Unlock()
	if n.running != nil {
		n.running.disconnect()
	}
}

// Freeze makes the node hang like a stopped process: connections stay and can be made, requests are read
// and wait. Thaw lets it go on with what waits. A frozen node can be stopped, and is still frozen when it
// comes back.
func (n *Node) Freeze() {
	n.freezing.Lock()
	defer n.freezing.Unlock()
	if n.gate == nil {
		n.gate = make(chan struct{})
	}
}

// Thaw ends Freeze.
func (n *Node) Thaw() {
	n.freezing.Lock()
	defer n.freezing.Unlock()
	if n.gate != nil {
		close(n.gate)
		n.gate = nil
	}
}

// passGate waits while the node is frozen. It reports false if ctx ended first.
func (n *Node) passGate(ctx context.Context) bool {
	for {
		n.freezing.Lock()
		gate := n.gate
		n.freezing.Unlock()
		if gate == nil {
			return ctx.Err() == nil
		}
		select {
		case <-gate:
		case <-ctx.Done():
			return false
		}
	}
}

// SetHook replaces the hook for all requests that arrive from now on. Nil means none.
func (n *Node) SetHook(hook Hook) { n.hook.Store(&hook) }

// decide asks the hook.
func (n *Node) decide(r Request) Action {
	if hook := *n.hook.Load(); hook != nil {
		return hook(r)
	}
	return Action{}
}

// count notes the arrival of a request.
func (n *Node) count(command memd.CmdCode) { n.perCommand[command].Add(1) }

// Requests returns how many requests with this command have arrived since Start, whatever became of them.
func (n *Node) Requests(command memd.CmdCode) uint64 { return n.perCommand[command].Load() }

// Documents returns the number of documents in all collections, expired ones not counted.
func (n *Node) Documents() int { return n.documents.count() }

// KVPort returns the port of the documents.
func (n *Node) KVPort() int { return n.options.KVPort }

// MgmtPort returns the port of the REST API.
func (n *Node) MgmtPort() int { return n.options.MgmtPort }

// ConnectionString returns what gocb.Connect takes.
func (n *Node) ConnectionString() string {
	return fmt.Sprintf("couchbase://%s:%d", loopback, n.options.KVPort)
}

// URL returns the connection string with the bucket, which klatch takes as its store.
func (n *Node) URL() string { return n.ConnectionString() + "/" + n.options.Bucket }

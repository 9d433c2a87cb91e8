package node

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"klatch/cluster/netsim"
	"klatch/proto"
	"klatch/session"
	"klatch/store"
	"klatch/store/memory"
	"klatch/store/near"
)

// rig is a cluster of whole nodes, their listeners aside, on a network and a store in memory, in a bubble of
// testing/synctest.
type rig struct {
	t       *testing.T
	network *netsim.Network
	store   *memory.Store
	nodes   []*chaosNode
	boots   atomic.Uint64
	ending  sync.WaitGroup // engines that are being closed
}

// chaosNode is one node, through all its boots.
type chaosNode struct {
	rig    *rig
	name   string
	addr   netip.AddrPort
	faults storeFaults
	clock  time.Duration // how far its clock is off
	keys   keyFile

	mu     sync.Mutex // guards engine
	engine *chaosEngine
}

// chaosEngine is one boot of a node.
type chaosEngine struct {
	engine
	store *faultyStore
	boot  uint64
}

// newRig starts n nodes and waits until they have heard each other.
func newRig(t *testing.T, n int, opts netsim.Options) *rig {
	t.Helper()
	r := makeRig(t, n, opts)
	r.start()
	return r
}

// makeRig makes the nodes and does not start them.
func makeRig(t *testing.T, n int, opts netsim.Options) *rig {
	t.Helper()
	r := &rig{t: t, network: netsim.New(opts), store: memory.New(memory.Options{})}
	for i := range n {
		r.nodes = append(r.nodes, &chaosNode{rig: r, name: fmt.Sprintf("n%d", i+1), addr: netsim.Addr(i + 1), faults: storeFaults{seed: opts.Seed}})
	}
	t.Cleanup(r.close)
	return r
}

// start starts all nodes and waits until they have heard each other.
func (r *rig) start() {
	r.t.Helper()
	for _, node := range r.nodes {
		node.start()
	}
	r.awaitWhole(30 * time.Second)
}

// start boots the node.
func (c *chaosNode) start() {
	c.rig.t.Helper()
	keys, err := c.keys.Load()
	if err != nil {
		c.rig.t.Fatal(err)
	}
	transport, err := c.rig.network.Transport(c.addr)
	if err != nil {
		c.rig.t.Fatal(err)
	}
	config := valid()
	config.Name, config.Gossip, config.Session.Idle = c.name, c.addr.String(), time.Hour
	config.GossipKeyFile = string(c.keys)
	for _, other := range c.rig.nodes {
		config.Join = append(config.Join, other.addr.String())
	}
	e := &chaosEngine{store: &faultyStore{store: c.rig.store, node: c}, boot: c.rig.boots.Add(1)}
	err = e.start(context.Background(), engineOptions{
		config:    &config,
		boot:      e.boot,
		keys:      keys,
		meta:      proto.NodeMeta{Release: "chaos", State: proto.Ready},
		store:     e.store,
		records:   e.store,
		transport: transport,
		now:       func() time.Time { return time.Now().Add(c.clock) },
		logger:    zap.NewNop(),
	})
	if err != nil {
		c.rig.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.engine = e
}

// running returns the node's engine, or nil while it is down.
func (c *chaosNode) running() *chaosEngine {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.engine
}

func (c *chaosNode) take() *chaosEngine {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.engine
	c.engine = nil
	return e
}

// crash ends the node as SIGKILL does: what it has asked of the store may still happen, and nothing else.
func (c *chaosNode) crash() {
	e := c.take()
	e.store.dead.Store(true)
	c.rig.network.Crash(c.addr)
	c.rig.ending.Go(func() { _ = e.close() }) // whatever it says, it is dead
}

// leave ends the node as an operator does.
func (c *chaosNode) leave() {
	e := c.take()
	_ = e.leave(zap.NewNop()) // while the network is at fault it may not be able to say so
	_ = e.close()
}

// close ends everything, and waits for what memberlist leaves behind.
func (r *rig) close() {
	for _, n := range r.nodes {
		if n.running() != nil {
			n.crash()
		}
	}
	r.ending.Wait()
	r.network.Close()
	time.Sleep(time.Minute)
}

// await waits in virtual time.
func (r *rig) await(within time.Duration, what string, ok func() bool) time.Duration {
	r.t.Helper()
	begin := time.Now()
	for ; !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > within {
			r.t.Fatalf("found by patience: after %v still not: %s", within, what)
		}
	}
	return time.Since(begin)
}

// awaitWhole waits until every node has all others for members, has heard them, and serves copies.
func (r *rig) awaitWhole(within time.Duration) time.Duration {
	r.t.Helper()
	// What is read in the very instant of a fence is behind it.
	defer time.Sleep(time.Microsecond)
	return r.await(within, "all are members and serve copies", func() bool {
		for _, n := range r.nodes {
			if e := n.running(); e == nil || n.alive() != len(r.nodes) || !n.trusts() {
				return false
			}
		}
		return true
	})
}

func (c *chaosNode) trusts() bool { return c.running().cluster.Trusted(time.Now().Add(c.clock)) }

func (c *chaosNode) alive() (n int) {
	for _, m := range c.running().cluster.Members() {
		if m.Alive {
			n++
		}
	}
	return n
}

func (c *chaosNode) near() near.Stats { return c.running().sessions.Stats() }

// create, read and write are for tests in which none of them may fail.

func (c *chaosNode) create(value string) (id string) {
	c.rig.t.Helper()
	s, err := c.running().sessions.Create(context.Background(), session.Draft{Attributes: map[string]session.Value{"value": session.Bytes([]byte(value))}})
	if err != nil {
		c.rig.t.Fatal(err)
	}
	return s.ID()
}

func (c *chaosNode) read(id string, level near.Level) string {
	c.rig.t.Helper()
	return c.load(id, session.LoadOptions{Level: level, Passive: true})
}

func (c *chaosNode) readAfter(id string, token proto.Version) string {
	c.rig.t.Helper()
	return c.load(id, session.LoadOptions{After: token, Passive: true})
}

func (c *chaosNode) load(id string, opts session.LoadOptions) string {
	c.rig.t.Helper()
	s, err := c.running().sessions.Load(context.Background(), id, opts)
	if err != nil {
		c.rig.t.Fatalf("reading on %s: %v", c.name, err)
	}
	value, _ := s.Get("value")
	return string(value.Data)
}

func (c *chaosNode) write(id, value string) (token proto.Version) {
	c.rig.t.Helper()
	s, err := c.running().sessions.Update(context.Background(), id, session.LoadOptions{}, session.CommitOptions{}, func(s *session.Session) error {
		s.Set("value", session.Bytes([]byte(value)))
		return nil
	})
	if err != nil {
		c.rig.t.Fatalf("writing on %s: %v", c.name, err)
	}
	return s.Version()
}

// addrs returns the addresses of nodes.
func addrs(nodes ...*chaosNode) (all []netip.AddrPort) {
	for _, n := range nodes {
		all = append(all, n.addr)
	}
	return all
}

var _ store.Store = (*faultyStore)(nil)

package netsim

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Options configure a [Network].
type Options struct {
	// Seed decides the fate of every packet. Print it when a test fails.
	Seed uint64
	// Conditions hold for every link that has none of its own. Default: nothing is lost or delayed.
	Conditions Conditions
	// Backlog bounds the packets that have arrived at a node and are not yet taken, as the buffer of a
	// socket does. What does not fit is dropped. Default 4096.
	Backlog int
}

const (
	defaultBacklog = 4096
	// streamBacklog bounds the streams that a node has not yet accepted; one that does not fit is reset.
	streamBacklog = 256
	// maxUnderWay bounds the packets on their way to one node.
	maxUnderWay = 1 << 16
)

// Network is a set of nodes and the links between them. It is safe for concurrent use.
type Network struct {
	seed    uint64
	backlog int

	filter  atomic.Pointer[Filter]
	wake    chan struct{} // holds one token when something is due sooner than was known
	stop    chan struct{} // closed by Close
	running sync.WaitGroup

	// mu guards all below, and all nodes, links and streams. Nothing waits while holding it.
	mu          sync.Mutex
	closed      bool
	conditions  Conditions
	nodes       map[netip.AddrPort]*node
	links       map[pair]*link
	partitioned bool
	due         agenda
	made        uint64 // appointments so far
	total       Counts
}

// node is what the network knows of one address. It outlives the transports of that address.
type node struct {
	addr      netip.AddrPort
	udp       net.Addr
	tcp       net.Addr
	transport *Transport // nil: nothing listens
	frozen    bool
	group     int // within a partition; 0 for those that were not named
	underWay  int // packets on their way here
	ends      map[*end]struct{}
	lastPort  uint16 // of the streams that were dialled from here
	counts    Counts
}

// Addr returns the address of the n-th node, from 1 up to about sixteen million.
func Addr(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 7946)
}

// New returns a network without nodes. Close ends it.
func New(opts Options) *Network {
	n := &Network{
		seed:       opts.Seed,
		backlog:    opts.Backlog,
		conditions: opts.Conditions,
		wake:       make(chan struct{}, 1),
		stop:       make(chan struct{}),
		nodes:      map[netip.AddrPort]*node{},
		links:      map[pair]*link{},
	}
	if n.backlog <= 0 {
		n.backlog = defaultBacklog
	}
	n.running.Go(n.run)
	return n
}

// Close resets all streams, drops what is under way and waits for the network's end. Close the nodes first.
func (n *Network) Close() {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return
	}
	n.closed = true
	close(n.stop)
	for _, node := range n.nodes {
		for e := range node.ends {
			e.fail(net.ErrClosed)
		}
	}
	n.due = nil
	n.mu.Unlock()
	n.running.Wait()
}

// Transport returns the network as the node at addr sees it. An address is free again once its transport
// was shut down, or the node crashed: this is how a node restarts.
func (n *Network) Transport(addr netip.AddrPort) (*Transport, error) {
	if !addr.IsValid() || addr.Port() == 0 {
		return nil, fmt.Errorf("%w: %s; use one such as Addr(1)", ErrInvalid, addr)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	at := n.node(addr)
	if at.transport != nil {
		return nil, fmt.Errorf("%w: %s; shut its transport down first", ErrInUse, addr)
	}
	t := &Transport{
		network: n,
		node:    at,
		packets: make(chan *memberlist.Packet, n.backlog),
		streams: make(chan net.Conn, streamBacklog),
	}
	at.transport = t
	return t, nil
}

func (n *Network) node(addr netip.AddrPort) *node {
	at, ok := n.nodes[addr]
	if !ok {
		at = &node{
			addr: addr,
			udp:  net.UDPAddrFromAddrPort(addr),
			tcp:  net.TCPAddrFromAddrPort(addr),
			ends: map[*end]struct{}{},
		}
		n.nodes[addr] = at
	}
	return at
}

// send takes a packet that a transport sends.
func (n *Network) send(t *Transport, to netip.AddrPort, p []byte, filtered bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return ErrClosed
	case t.shut:
		return net.ErrClosed
	case t.crashed:
		return nil
	}
	l := n.link(t.node, n.node(to))
	fate := l.draw(n.conditionsOf(l))
	t.node.counts.sent(len(p))
	n.total.sent(len(p))
	if filtered || fate.lost || !n.passable(l) {
		n.lose(l)
		return nil
	}
	now := time.Now()
	for _, delay := range fate.delays[:fate.times] {
		if l.to.underWay >= maxUnderWay {
			n.lose(l)
			continue
		}
		l.to.underWay++
		copied := bytes.Clone(p)
		n.at(now.Add(delay), l.tie, func(now time.Time) { n.arrive(l, copied, now) })
	}
	if fate.times > 1 {
		t.node.counts.PacketsDuplicated++
		n.total.PacketsDuplicated++
	}
	return nil
}

// arrive hands a packet to the node that it was sent to.
func (n *Network) arrive(l *link, p []byte, now time.Time) {
	l.to.underWay--
	t := l.to.transport
	if t == nil || !n.passable(l) {
		n.lose(l)
		return
	}
	select {
	case t.packets <- &memberlist.Packet{Buf: p, From: l.from.udp, Timestamp: now}:
		l.to.counts.received(len(p))
		n.total.received(len(p))
	default:
		l.to.counts.PacketsDropped++
		n.total.PacketsDropped++
	}
}

func (n *Network) lose(l *link) {
	l.from.counts.PacketsLost++
	n.total.PacketsLost++
}

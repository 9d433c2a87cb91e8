package netsim

import (
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"time"
)

// Conditions are what a direction of a link does to what passes. Probabilities are between 0, never, and 1,
// always.
type Conditions struct {
	// Loss is the probability that a packet vanishes. A piece of a stream vanishes as often, and is sent
	// again a fifth of a second later, or a second later while the stream is being opened.
	Loss float64
	// Duplicate is the probability that a packet arrives twice, each with a delay of its own.
	Duplicate float64
	// Delay is the least time that anything takes.
	Delay time.Duration
	// Jitter is up to how much longer it takes, all values being equally likely. Packets that are sent
	// within a jitter of each other may arrive in any order; pieces of a stream stay in order.
	Jitter time.Duration
	// BlockPackets loses all packets, while streams pass: a firewall that lets TCP through and not UDP.
	BlockPackets bool
}

// pair names a direction of a link.
type pair struct{ from, to netip.AddrPort }

// link is one direction between two nodes.
type link struct {
	from, to *node
	own      *Conditions // nil: those of the network
	cut      bool
	tie      uint64 // puts what is due at one moment in order

	// Packets and streams draw from different generators, so that how many streams there are does not
	// change the fate of packets.
	packets, streams rand.PCG
}

func (n *Network) link(from, to *node) *link {
	key := pair{from.addr, to.addr}
	l, ok := n.links[key]
	if !ok {
		h := fnv.New64a()
		h.Write([]byte(from.addr.String() + ">" + to.addr.String()))
		name := h.Sum64()
		l = &link{from: from, to: to}
		l.packets.Seed(n.seed, name)
		l.streams.Seed(n.seed, ^name)
		l.tie = l.packets.Uint64()
		n.links[key] = l
	}
	return l
}

func (n *Network) conditionsOf(l *link) Conditions {
	if l.own != nil {
		return *l.own
	}
	return n.conditions
}

// passable reports whether anything gets from one end of the link to the other.
func (n *Network) passable(l *link) bool {
	return !l.cut && !l.from.frozen && !l.to.frozen && (!n.partitioned || l.from.group == l.to.group)
}

// fate is what becomes of one packet.
type fate struct {
	lost   bool
	times  int // how often it arrives, if it is not lost
	delays [2]time.Duration
}

// draw decides a packet's fate. It always takes four draws, so that a change of the conditions does not
// change what later packets draw.
func (l *link) draw(c Conditions) fate {
	f := fate{times: 1, lost: unit(&l.packets) < c.Loss || c.BlockPackets}
	if unit(&l.packets) < c.Duplicate {
		f.times = 2
	}
	for i := range f.delays {
		f.delays[i] = c.delay(&l.packets)
	}
	return f
}

// drawSegment decides the fate of a piece of a stream.
func (l *link) drawSegment(c Conditions) (lost bool, delay time.Duration) {
	return unit(&l.streams) < c.Loss, c.delay(&l.streams)
}

func (c Conditions) delay(source *rand.PCG) time.Duration {
	return max(c.Delay, 0) + time.Duration(unit(source)*float64(max(c.Jitter, 0)))
}

// unit draws a number of [0, 1).
func unit(source *rand.PCG) float64 { return float64(source.Uint64()>>11) / (1 << 53) }

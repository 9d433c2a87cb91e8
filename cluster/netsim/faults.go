package netsim

import (
	"net/netip"
	"syscall"
)

// Filter says whether a packet is lost, beside what the conditions lose. It is called by the goroutines that
// send, several at once, and must not keep or change the packet.
type Filter func(from, to netip.AddrPort, packet []byte) (lose bool)

// Lose loses every packet of which the filter says so, from now on. Nil ends this.
func (n *Network) Lose(filter Filter) {
	if filter == nil {
		n.filter.Store(nil)
		return
	}
	n.filter.Store(&filter)
}

// SetConditions changes the conditions of all links that have none of their own. What is under way keeps its
// delay.
func (n *Network) SetConditions(c Conditions) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conditions = c
}

// SetLink gives the direction between two nodes conditions of its own.
func (n *Network) SetLink(from, to netip.AddrPort, c Conditions) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link(n.node(from), n.node(to)).own = &c
}

// ResetLink gives the direction between two nodes the conditions of the network again.
func (n *Network) ResetLink(from, to netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link(n.node(from), n.node(to)).own = nil
}

// Cut lets nothing through from one node to the other, until Mend or Heal. The other direction stays as it is.
func (n *Network) Cut(from, to netip.AddrPort) { n.setCut(from, to, true) }

// CutBoth lets nothing through between two nodes, until Mend in both directions or Heal.
func (n *Network) CutBoth(a, b netip.AddrPort) {
	n.setCut(a, b, true)
	n.setCut(b, a, true)
}

// Mend ends a cut of one direction.
func (n *Network) Mend(from, to netip.AddrPort) { n.setCut(from, to, false) }

func (n *Network) setCut(from, to netip.AddrPort, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link(n.node(from), n.node(to)).cut = cut
}

// Partition lets nothing through between nodes of different groups, until Heal or the next partition, which
// replaces it. All nodes that are in no group are together in one more. Cuts stay.
func (n *Network) Partition(groups ...[]netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mergeGroups()
	n.partitioned = true
	for i, group := range groups {
		for _, addr := range group {
			n.node(addr).group = i + 1
		}
	}
}

// Heal ends the partition and all cuts. Conditions, filter, frozen and crashed nodes stay as they are.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mergeGroups()
	for _, l := range n.links {
		l.cut = false
	}
}

func (n *Network) mergeGroups() {
	n.partitioned = false
	for _, at := range n.nodes {
		at.group = 0
	}
}

// Freeze lets nothing through from or to a node until Thaw, as if its process were stopped or its cable
// pulled. The goroutines of the node go on, but nobody hears them, and whatever is sent to it is lost.
// Streams stay open: they go on after a short freeze and run into their deadlines in a long one.
func (n *Network) Freeze(addr netip.AddrPort) { n.setFrozen(addr, true) }

// Thaw ends a freeze.
func (n *Network) Thaw(addr netip.AddrPort) { n.setFrozen(addr, false) }

func (n *Network) setFrozen(addr netip.AddrPort, frozen bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.node(addr).frozen = frozen
}

// Crash kills a node as SIGKILL does: its streams are reset, its packets vanish, and dials to it are refused.
// Nothing that its goroutines do afterwards leaves the node; close it to end them. A new transport of the
// address is the node's restart. To make the whole machine vanish, freeze it first: then nobody is told.
func (n *Network) Crash(addr netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := n.node(addr)
	if at.transport == nil {
		return
	}
	at.transport.crashed = true
	at.transport = nil
	for e := range at.ends {
		e.abort(syscall.ECONNRESET)
	}
}

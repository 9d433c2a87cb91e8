package netsim

import "net/netip"

// Counts are what a node, or the whole network, has sent and received. Bytes are payload: on a wire each
// packet has 28 more for its IPv4 and UDP headers.
type Counts struct {
	// PacketsSent and PacketBytesSent count each packet once, also if it was lost or repeated.
	PacketsSent, PacketBytesSent uint64
	// PacketsReceived and PacketBytesReceived count what the node was given, repetitions among it.
	PacketsReceived, PacketBytesReceived uint64
	// PacketsLost are packets that this node sent, or repetitions of them, that the network lost.
	PacketsLost uint64
	// PacketsDuplicated are packets that this node sent and the network repeated.
	PacketsDuplicated uint64
	// PacketsDropped had arrived and did not fit into the backlog of this node.
	PacketsDropped uint64

	// StreamsDialled are the streams that this node began, successfully or not.
	StreamsDialled uint64
	// StreamBytesSent counts each byte once, however often the network had to send it.
	StreamBytesSent uint64
	// StreamBytesReceived are bytes that reached this node, read or not.
	StreamBytesReceived uint64
}

func (c *Counts) sent(bytes int) {
	c.PacketsSent++
	c.PacketBytesSent += uint64(bytes)
}

func (c *Counts) received(bytes int) {
	c.PacketsReceived++
	c.PacketBytesReceived += uint64(bytes)
}

// Counts returns what the node at addr has sent and received, over all its restarts.
func (n *Network) Counts(addr netip.AddrPort) Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.nodes[addr]; ok {
		return at.counts
	}
	return Counts{}
}

// Total returns what all nodes together have sent and received.
func (n *Network) Total() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.total
}

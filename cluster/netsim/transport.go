package netsim

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// maxPacketBytes is the payload of the largest UDP datagram over IPv4.
const maxPacketBytes = 65507

// Transport is the network as one node sees it. It is safe for concurrent use.
type Transport struct {
	network *Network
	node    *node
	packets chan *memberlist.Packet
	streams chan net.Conn

	shut, crashed bool // guarded by the network's lock
}

var _ memberlist.NodeAwareTransport = (*Transport)(nil)

// Addr returns the address of the node.
func (t *Transport) Addr() netip.AddrPort { return t.node.addr }

// FinalAdvertiseAddr implements memberlist.Transport. Where no address is configured, it is the node's own.
func (t *Transport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	if ip == "" {
		return t.node.addr.Addr().AsSlice(), int(t.node.addr.Port()), nil
	}
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return addr.AsSlice(), port, nil
}

// WriteTo implements memberlist.Transport.
func (t *Transport) WriteTo(p []byte, to string) (time.Time, error) {
	return t.WriteToAddress(p, memberlist.Address{Addr: to})
}

// WriteToAddress implements memberlist.NodeAwareTransport. It fails only where UDP would: because of the
// address, the size, or a transport that was shut down.
func (t *Transport) WriteToAddress(p []byte, to memberlist.Address) (time.Time, error) {
	addr, err := netip.ParseAddrPort(to.Addr)
	if err != nil {
		return time.Time{}, t.fault("write", "udp", nil, fmt.Errorf("%w: %w", ErrInvalid, err))
	}
	if len(p) > maxPacketBytes {
		return time.Time{}, t.fault("write", "udp", net.UDPAddrFromAddrPort(addr), os.NewSyscallError("sendto", syscall.EMSGSIZE))
	}
	filter := t.network.filter.Load()
	filtered := filter != nil && (*filter)(t.node.addr, addr, p)
	if err := t.network.send(t, addr, p, filtered); err != nil {
		return time.Time{}, t.fault("write", "udp", net.UDPAddrFromAddrPort(addr), err)
	}
	return time.Now(), nil
}

// PacketCh implements memberlist.Transport.
func (t *Transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *Transport) StreamCh() <-chan net.Conn { return t.streams }

// DialTimeout implements memberlist.Transport.
func (t *Transport) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: to}, timeout)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport. A timeout of zero means that of the network,
// a minute.
func (t *Transport) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	addr, err := netip.ParseAddrPort(to.Addr)
	if err != nil {
		return nil, t.fault("dial", "tcp", nil, fmt.Errorf("%w: %w", ErrInvalid, err))
	}
	conn, err := t.network.dial(t, addr, timeout)
	if err != nil {
		return nil, t.fault("dial", "tcp", net.TCPAddrFromAddrPort(addr), err)
	}
	return conn, nil
}

// Shutdown implements memberlist.Transport. Nothing listens at the address any more; streams that were not
// accepted are reset, the others stay. It may be called again.
func (t *Transport) Shutdown() error {
	n := t.network
	n.mu.Lock()
	defer n.mu.Unlock()
	t.shut = true
	if t.node.transport == t {
		t.node.transport = nil
	}
	for {
		select {
		case conn := <-t.streams:
			conn.(*end).abort(syscall.ECONNRESET)
		default:
			return nil
		}
	}
}

// fault dresses an error as package net does.
func (t *Transport) fault(op, network string, to net.Addr, err error) error {
	return &net.OpError{Op: op, Net: network, Source: t.node.tcp, Addr: to, Err: err}
}

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"klatch/internal/clock"
)

const (
	// maxPacket is the size of the largest UDP packet.
	maxPacket = 64 << 10
	// socketBuffer is what the kernel is asked to keep of packets that have not been read.
	socketBuffer = 2 << 20
	// listenPause is how long a listener that fails waits before it goes on.
	listenPause = 50 * time.Millisecond
)

// netTransport carries the bus over UDP and TCP on one address. memberlist's own takes 64 KiB of memory for each packet,
// however small, which made the garbage collector the largest cost of news; this one takes what the packet has.
type netTransport struct {
	tcp *net.TCPListener
	udp *net.UDPConn
	log *log.Logger

	packets chan *memberlist.Packet
	streams chan net.Conn
	ctx     context.Context // ends with Shutdown
	end     context.CancelFunc
	running sync.WaitGroup
}

var _ memberlist.Transport = (*netTransport)(nil)

// listen opens the sockets. It is not left to memberlist, which would keep them open when it fails.
func listen(bind netip.AddrPort, logger *log.Logger) (*netTransport, error) {
	// A free TCP port need not be free for UDP.
	attempts := 1
	if bind.Port() == 0 {
		attempts = 10
	}
	var errs error
	for range attempts {
		t, err := listenOnce(bind, logger)
		if err == nil {
			return t, nil
		}
		errs = errors.Join(errs, err)
	}
	return nil, errs
}

func listenOnce(bind netip.AddrPort, logger *log.Logger) (*netTransport, error) {
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(bind))
	if err != nil {
		return nil, err
	}
	same := netip.AddrPortFrom(bind.Addr(), uint16(tcp.Addr().(*net.TCPAddr).Port))
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(same))
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	_ = udp.SetReadBuffer(socketBuffer) // a smaller one loses more under load, which is repaired
	t := &netTransport{tcp: tcp, udp: udp, log: logger, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn)}
	t.ctx, t.end = context.WithCancel(context.Background())
	t.running.Go(t.readPackets)
	t.running.Go(t.acceptStreams)
	return t, nil
}

// port returns the port that both sockets have.
func (t *netTransport) port() int { return t.tcp.Addr().(*net.TCPAddr).Port }

func (t *netTransport) readPackets() {
	buffer := make([]byte, maxPacket)
	for t.ctx.Err() == nil {
		n, from, err := t.udp.ReadFromUDPAddrPort(buffer)
		at := time.Now()
		switch {
		case err != nil:
			t.failed("reading a UDP packet", err)
		case n > 0:
			select {
			case t.packets <- &memberlist.Packet{Buf: bytes.Clone(buffer[:n]), From: net.UDPAddrFromAddrPort(from), Timestamp: at}:
			case <-t.ctx.Done():
			}
		}
	}
}

func (t *netTransport) acceptStreams() {
	for t.ctx.Err() == nil {
		conn, err := t.tcp.AcceptTCP()
		if err != nil {
			t.failed("accepting a TCP connection", err)
			continue
		}
		select {
		case t.streams <- conn:
		case <-t.ctx.Done():
			conn.Close()
		}
	}
}

// failed logs what has failed, unless that is the end, and pauses.
func (t *netTransport) failed(what string, err error) {
	if t.ctx.Err() == nil {
		t.log.Printf("[ERR] memberlist: %s: %v", what, err)
		_ = clock.Sleep(t.ctx, listenPause)
	}
}

// FinalAdvertiseAddr implements memberlist.Transport.
func (t *netTransport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return nil, 0, fmt.Errorf("address to advertise: %w", err)
	}
	return addr.Unmap().AsSlice(), port, nil
}

// WriteTo implements memberlist.Transport.
func (t *netTransport) WriteTo(packet []byte, to string) (time.Time, error) {
	addr, err := netip.ParseAddrPort(to)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.udp.WriteToUDPAddrPort(packet, addr)
	return time.Now(), err
}

// PacketCh implements memberlist.Transport.
func (t *netTransport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// DialTimeout implements memberlist.Transport.
func (t *netTransport) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", to, timeout)
}

// StreamCh implements memberlist.Transport.
func (t *netTransport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown implements memberlist.Transport.
func (t *netTransport) Shutdown() error {
	t.end()
	err := errors.Join(t.tcp.Close(), t.udp.Close())
	t.running.Wait()
	return err
}

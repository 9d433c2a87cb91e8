package netsim_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"klatch/cluster/netsim"
)

// simulate runs a test on a network in a bubble.
func simulate(t *testing.T, opts netsim.Options, test func(t *testing.T, network *netsim.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := netsim.New(opts)
		defer network.Close()
		test(t, network)
	})
}

func transport(t *testing.T, network *netsim.Network, addr netip.AddrPort) *netsim.Transport {
	t.Helper()
	transport, err := network.Transport(addr)
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

func send(t *testing.T, from *netsim.Transport, to netip.AddrPort, text string) {
	t.Helper()
	if _, err := from.WriteTo([]byte(text), to.String()); err != nil {
		t.Fatal(err)
	}
}

// sendMany sends numbered packets, a millisecond apart.
func sendMany(t *testing.T, from *netsim.Transport, to netip.AddrPort, count int) {
	t.Helper()
	for i := range count {
		send(t, from, to, fmt.Sprintf("packet %04d", i))
		time.Sleep(time.Millisecond)
	}
}

// received returns what has arrived after another virtual second.
func received(at *netsim.Transport) []string {
	time.Sleep(time.Second)
	var packets []string
	for {
		select {
		case p := <-at.PacketCh():
			packets = append(packets, string(p.Buf))
		default:
			return packets
		}
	}
}

func dial(from *netsim.Transport, to netip.AddrPort) (net.Conn, error) {
	return from.DialTimeout(to.String(), 2*time.Second)
}

// connect opens a stream and returns both ends.
func connect(t *testing.T, from, to *netsim.Transport) (dialled, accepted net.Conn) {
	t.Helper()
	dialled, err := dial(from, to.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return dialled, <-to.StreamCh()
}

var one, two, three = netsim.Addr(1), netsim.Addr(2), netsim.Addr(3)

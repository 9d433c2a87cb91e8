package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
)

func TestDeadSeedIsJoinedWhenItAppears(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()

	a := startNode(t, "a", func(o *Options) { o.Seeds = []string{address} })
	eventually(t, "a says that its seed is dead", func() bool { return a.logs.FilterMessageSnippet("seed not joined").Len() == 1 })
	b := startNode(t, "b", func(o *Options) { o.Bind = address })
	introduced(t, a, b)
	eventually(t, "a says that its seed was joined", func() bool { return a.logs.FilterMessageSnippet("seed joined").Len() == 1 })
}

func TestJoinLive(t *testing.T) {
	t.Parallel()
	a, b := startNode(t, "a", nil), startNode(t, "b", nil)
	if n, err := a.Join(t.Context(), b.address()); n != 1 || err != nil {
		t.Fatalf("joined %d, %v", n, err)
	}
	introduced(t, a, b)
	if _, err := a.Join(t.Context(), "127.0.0.1:1"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", err)
	}
}

// fakeDNS answers each lookup with what it holds at that time.
type fakeDNS struct {
	mu    sync.Mutex // guards hosts
	hosts map[string][]netip.Addr
}

func (d *fakeDNS) set(host string, addrs ...netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hosts[host] = addrs
}

func (d *fakeDNS) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if addrs, ok := d.hosts[host]; ok {
		return addrs, nil
	}
	return nil, fmt.Errorf("no such host %s", host)
}

func TestDNSSeedIsResolvedAnew(t *testing.T) {
	t.Parallel()
	dns := &fakeDNS{hosts: map[string][]netip.Addr{}}
	b := startNode(t, "b", nil)
	at := netip.MustParseAddrPort(b.address())
	a := startNode(t, "a", func(o *Options) {
		o.Resolver = dns
		o.Seeds = []string{fmt.Sprintf("klatch.internal:%d", at.Port())}
	})
	eventually(t, "a says that its seed is unknown", func() bool { return a.logs.FilterMessageSnippet("seed not joined").Len() == 1 })

	// One of two addresses is dead; the other one is enough.
	dns.set("klatch.internal", netip.MustParseAddr("127.0.0.2"), at.Addr())
	introduced(t, a, b)
}

func TestVanishedMemberIsFoundAgainWithoutSeeds(t *testing.T) {
	t.Parallel()
	a := startNode(t, "a", nil)
	b := startNode(t, "b", seeds(a))
	introduced(t, a, b)
	address := b.address()
	b.Close()
	eventually(t, "b is dead", func() bool { _, alive := a.sees("b"); return !alive })

	// b returns where it was and knows nobody: a must find it.
	b = startNode(t, "b", func(o *Options) { o.Bind = address })
	introduced(t, a, b)
}

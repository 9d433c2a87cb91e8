package netsim_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"klatch/cluster"
	"klatch/cluster/netsim"
	"klatch/proto"
)

// listener is a cluster.Handler that remembers.
type listener struct {
	mu     sync.Mutex // guards all below
	news   map[string]int
	fences int
}

func (l *listener) Apply(from string, item proto.Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.news[from+" "+item.(proto.Invalidate).Key.ID]++
}

func (l *listener) Fence(string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fences++
}

func (l *listener) heard(from, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.news[from+" "+id] > 0
}

type member struct {
	*cluster.Cluster
	*listener
	name string
	addr netip.AddrPort
}

func start(t testing.TB, network *netsim.Network, i int) *member {
	t.Helper()
	transport, err := network.Transport(netsim.Addr(i))
	if err != nil {
		t.Fatal(err)
	}
	m := &member{listener: &listener{news: map[string]int{}}, name: fmt.Sprintf("n%d", i), addr: netsim.Addr(i)}
	m.Cluster, err = cluster.Start(t.Context(), cluster.Options{
		Name:      m.name,
		Boot:      uint64(i),
		Handler:   m.listener,
		Transport: transport,
		Seeds:     []string{netsim.Addr(1).String()},
		Meta:      proto.NodeMeta{Release: "test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// stop closes the members and waits for what memberlist leaves behind: a probe under way ends by its time-out
// only.
func stop(members ...*member) {
	for _, m := range members {
		m.Close()
	}
	time.Sleep(time.Minute)
}

func (m *member) alive() int {
	n := 0
	for _, member := range m.Members() {
		if member.Alive {
			n++
		}
	}
	return n
}

// await waits in virtual time.
func await(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > within {
			t.Fatalf("after %v still not: %s", within, what)
		}
	}
}

func TestThreeNodesFormAClusterPartAndHeal(t *testing.T) {
	const seed = 1
	t.Logf("seed %d", seed)
	opts := netsim.Options{Seed: seed, Conditions: netsim.Conditions{Delay: time.Millisecond, Jitter: time.Millisecond}}
	simulate(t, opts, func(t *testing.T, network *netsim.Network) {
		members := []*member{start(t, network, 1), start(t, network, 2), start(t, network, 3)}
		defer stop(members...)
		allSee := func(n int) func() bool {
			return func() bool {
				for _, m := range members {
					if m.alive() != n {
						return false
					}
				}
				return true
			}
		}
		await(t, 30*time.Second, "all are members", allSee(3))

		for _, from := range members {
			from.Publish(proto.Invalidate{Key: proto.NewKey("t", proto.KindSession, "news"), Version: 1})
		}
		await(t, time.Second, "the news is everywhere", func() bool {
			for _, at := range members {
				for _, from := range members {
					if at != from && !at.heard(from.name, "news") {
						return false
					}
				}
			}
			return true
		})

		network.Partition([]netip.AddrPort{one}, []netip.AddrPort{two}, []netip.AddrPort{three})
		await(t, time.Minute, "all are alone", allSee(1))
		network.Heal()
		await(t, time.Minute, "all are members again", allSee(3))

		if c := network.Total(); c.PacketsSent == 0 || c.StreamsDialled == 0 || c.PacketsLost == 0 {
			t.Errorf("the counts are %+v", c)
		}
	})
}

func TestALostBatchComesAgainByDatagramAndByStreamWhereThatIsInVain(t *testing.T) {
	const seed = 1
	for _, blocked := range []bool{false, true} {
		opts := netsim.Options{Seed: seed, Conditions: netsim.Conditions{Delay: time.Millisecond}}
		simulate(t, opts, func(t *testing.T, network *netsim.Network) {
			a, b := start(t, network, 1), start(t, network, 2)
			defer stop(a, b)
			await(t, 30*time.Second, "both trust each other", func() bool {
				return a.alive() == 2 && b.alive() == 2 && a.Trusted(time.Now()) && b.Trusted(time.Now())
			})
			time.Sleep(5 * time.Second)

			lost := 0
			network.Lose(func(from, _ netip.AddrPort, packet []byte) bool {
				hit := from == a.addr && bytes.Contains(packet, []byte("s/lost")) && (blocked || lost == 0)
				if hit {
					lost++
				}
				return hit
			})
			streams := network.Total().StreamsDialled
			a.Publish(proto.Invalidate{Key: proto.NewKey("t", proto.KindSession, "lost"), Version: 1})
			await(t, 100*time.Millisecond, "b has heard what was lost", func() bool { return b.heard("n1", "lost") })
			if used := network.Total().StreamsDialled > streams; used != blocked {
				t.Errorf("every datagram with it lost: %v, streams used: %v", blocked, used)
			}
			if stats := b.Stats(); stats.Repairs != 1 || stats.Fences[cluster.FenceGap] != 0 {
				t.Errorf("%d repairs, fences %v", stats.Repairs, stats.Fences)
			}
		})
	}
}

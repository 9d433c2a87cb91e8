package netsim_test

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"klatch/cluster/netsim"
)

func TestPacketsTakeTheirDelay(t *testing.T) {
	opts := netsim.Options{Conditions: netsim.Conditions{Delay: 10 * time.Millisecond, Jitter: 5 * time.Millisecond}}
	simulate(t, opts, func(t *testing.T, network *netsim.Network) {
		a, b := transport(t, network, one), transport(t, network, two)
		for range 100 {
			sent := time.Now()
			send(t, a, two, "hello")
			p := <-b.PacketCh()
			if took := time.Since(sent); took < 10*time.Millisecond || took >= 15*time.Millisecond {
				t.Fatalf("a packet took %v", took)
			}
			if string(p.Buf) != "hello" || p.From.String() != one.String() || !p.Timestamp.Equal(time.Now()) {
				t.Fatalf("got %q from %v at %v", p.Buf, p.From, p.Timestamp)
			}
		}
	})
}

func TestConditions(t *testing.T) {
	const count = 4000
	tests := []struct {
		name       string
		conditions netsim.Conditions
		min, max   int // packets that arrive
	}{
		{"nothing", netsim.Conditions{}, count, count},
		{"a fifth lost", netsim.Conditions{Loss: 0.2}, 3100, 3300},
		{"all lost", netsim.Conditions{Loss: 1}, 0, 0},
		{"a tenth duplicated", netsim.Conditions{Duplicate: 0.1}, 4320, 4480},
		{"all duplicated", netsim.Conditions{Duplicate: 1}, 2 * count, 2 * count},
		{"packets blocked", netsim.Conditions{BlockPackets: true}, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opts := netsim.Options{Seed: 1, Conditions: test.conditions, Backlog: 2 * count}
			simulate(t, opts, func(t *testing.T, network *netsim.Network) {
				a, b := transport(t, network, one), transport(t, network, two)
				sendMany(t, a, two, count)
				got := len(received(b))
				if got < test.min || got > test.max {
					t.Errorf("%d of %d packets arrived, want %d to %d", got, count, test.min, test.max)
				}
				c, total := network.Counts(one), network.Total()
				if c.PacketsSent != count || c.PacketsSent+c.PacketsDuplicated-c.PacketsLost != uint64(got) {
					t.Errorf("%d arrived and the sender's counts are %+v", got, c)
				}
				if total.PacketsReceived != uint64(got) || network.Counts(two).PacketsReceived != uint64(got) {
					t.Errorf("%d arrived and the counts are %+v", got, total)
				}
			})
		})
	}
}

func TestJitterReordersPackets(t *testing.T) {
	opts := netsim.Options{Seed: 1, Conditions: netsim.Conditions{Jitter: 5 * time.Millisecond}}
	simulate(t, opts, func(t *testing.T, network *netsim.Network) {
		a, b := transport(t, network, one), transport(t, network, two)
		sendMany(t, a, two, 100)
		ordered := received(b)
		if len(ordered) != 100 {
			t.Fatalf("%d packets arrived", len(ordered))
		}
		if slices.IsSorted(ordered) {
			t.Error("no packet has overtaken another one")
		}
	})
}

func TestFateDependsOnTheSeedAndNotOnOtherLinks(t *testing.T) {
	run := func(seed uint64, others bool) (arrived []string) {
		opts := netsim.Options{Seed: seed, Conditions: netsim.Conditions{Loss: 0.3, Duplicate: 0.2, Jitter: 4 * time.Millisecond}}
		simulate(t, opts, func(t *testing.T, network *netsim.Network) {
			a, b := transport(t, network, one), transport(t, network, two)
			for range 200 {
				send(t, a, two, time.Now().String())
				if others {
					send(t, b, one, "noise")
					send(t, a, three, "noise")
				}
				time.Sleep(time.Millisecond)
			}
			arrived = received(b)
		})
		return arrived
	}
	if !slices.Equal(run(1, false), run(1, true)) {
		t.Error("what other links carry has changed what arrives")
	}
	if slices.Equal(run(1, false), run(2, false)) {
		t.Error("two seeds give the same")
	}
}

func TestWhatGetsThrough(t *testing.T) {
	tests := []struct {
		name                          string
		fault                         func(network *netsim.Network)
		oneToTwo, twoToOne, oneToOwn3 bool
	}{
		{"no fault", func(*netsim.Network) {}, true, true, true},
		{"cut", func(n *netsim.Network) { n.Cut(one, two) }, false, true, true},
		{"cut both", func(n *netsim.Network) { n.CutBoth(one, two) }, false, false, true},
		{"mended", func(n *netsim.Network) { n.CutBoth(one, two); n.Mend(two, one) }, false, true, true},
		{"partition", func(n *netsim.Network) { n.Partition([]netip.AddrPort{one, three}, []netip.AddrPort{two}) }, false, false, true},
		{"the unnamed are a group", func(n *netsim.Network) { n.Partition([]netip.AddrPort{two}) }, false, false, true},
		{"another partition", func(n *netsim.Network) {
			n.Partition([]netip.AddrPort{two})
			n.Partition([]netip.AddrPort{three})
		}, true, true, false},
		{"healed", func(n *netsim.Network) {
			n.CutBoth(one, two)
			n.Partition([]netip.AddrPort{one}, []netip.AddrPort{two})
			n.Heal()
		}, true, true, true},
		{"frozen", func(n *netsim.Network) { n.Freeze(two) }, false, false, true},
		{"thawed", func(n *netsim.Network) { n.Freeze(two); n.Thaw(two) }, true, true, true},
		{"crashed", func(n *netsim.Network) { n.Crash(two) }, false, false, true},
		{"a link of its own", func(n *netsim.Network) { n.SetLink(one, two, netsim.Conditions{Loss: 1}) }, false, true, true},
		{"a link reset", func(n *netsim.Network) {
			n.SetLink(one, two, netsim.Conditions{Loss: 1})
			n.ResetLink(one, two)
		}, true, true, true},
		{"filtered", func(n *netsim.Network) {
			n.Lose(func(from, to netip.AddrPort, p []byte) bool { return to == two && strings.HasPrefix(string(p), "one") })
		}, false, true, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opts := netsim.Options{Conditions: netsim.Conditions{Delay: time.Millisecond}}
			simulate(t, opts, func(t *testing.T, network *netsim.Network) {
				a, b, c := transport(t, network, one), transport(t, network, two), transport(t, network, three)
				test.fault(network)
				send(t, a, two, "one to two")
				send(t, b, one, "two to one")
				send(t, a, three, "one to three")
				got := [3]bool{len(received(b)) == 1, len(received(a)) == 1, len(received(c)) == 1}
				if want := [3]bool{test.oneToTwo, test.twoToOne, test.oneToOwn3}; got != want {
					t.Errorf("one to two, two to one, one to three: got %v, want %v", got, want)
				}
			})
		})
	}
}

func TestWhatIsUnderWayDoesNotCrossACut(t *testing.T) {
	opts := netsim.Options{Conditions: netsim.Conditions{Delay: 10 * time.Millisecond}}
	simulate(t, opts, func(t *testing.T, network *netsim.Network) {
		a, b := transport(t, network, one), transport(t, network, two)
		send(t, a, two, "late")
		time.Sleep(time.Millisecond)
		network.Cut(one, two)
		if got := received(b); len(got) > 0 {
			t.Errorf("%q arrived", got)
		}
	})
}

func TestBacklogIsBounded(t *testing.T) {
	simulate(t, netsim.Options{Backlog: 5}, func(t *testing.T, network *netsim.Network) {
		a, b := transport(t, network, one), transport(t, network, two)
		sendMany(t, a, two, 8)
		if got := received(b); len(got) != 5 {
			t.Errorf("%d packets arrived", len(got))
		}
		if c := network.Counts(two); c.PacketsDropped != 3 {
			t.Errorf("the counts are %+v", c)
		}
	})
}

func TestSenderMayReuseItsBuffer(t *testing.T) {
	opts := netsim.Options{Conditions: netsim.Conditions{Delay: time.Millisecond, Duplicate: 1}}
	simulate(t, opts, func(t *testing.T, network *netsim.Network) {
		a, b := transport(t, network, one), transport(t, network, two)
		p := []byte("mine")
		if _, err := a.WriteTo(p, two.String()); err != nil {
			t.Fatal(err)
		}
		copy(p, "yours")
		first, second := <-b.PacketCh(), <-b.PacketCh()
		first.Buf[0] = 'f'
		if string(second.Buf) != "mine" {
			t.Errorf("got %q", second.Buf)
		}
	})
}

func TestAddresses(t *testing.T) {
	simulate(t, netsim.Options{}, func(t *testing.T, network *netsim.Network) {
		if _, err := network.Transport(netip.AddrPort{}); !errors.Is(err, netsim.ErrInvalid) {
			t.Errorf("no address: %v", err)
		}
		first := transport(t, network, one)
		if _, err := network.Transport(one); !errors.Is(err, netsim.ErrInUse) {
			t.Errorf("address in use: %v", err)
		}
		if _, err := first.WriteTo(nil, "localhost:7946"); !errors.Is(err, netsim.ErrInvalid) {
			t.Errorf("to a name: %v", err)
		}
		if err := first.Shutdown(); err != nil {
			t.Fatal(err)
		}
		if _, err := first.WriteTo(nil, two.String()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after shutdown: %v", err)
		}
		second := transport(t, network, one)
		network.Crash(one)
		transport(t, network, one)
		if err := second.Shutdown(); err != nil {
			t.Fatal(err)
		}
		if _, err := network.Transport(one); !errors.Is(err, netsim.ErrInUse) {
			t.Errorf("the crashed one has taken its successor's address along: %v", err)
		}
		network.Close()
		if _, err := network.Transport(two); !errors.Is(err, netsim.ErrClosed) {
			t.Errorf("network closed: %v", err)
		}
	})
}

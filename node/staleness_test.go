package node

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"klatch/cluster"
	"klatch/cluster/netsim"
	"klatch/proto"
	"klatch/store/near"
)

// The seed of the faults below that are drawn. Those tests hold for any.
const anySeed = 7

// inRig runs a test on n nodes in virtual time.
func inRig(t *testing.T, n int, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(newRig(t, n, netsim.Options{Seed: anySeed, Conditions: netsim.Conditions{Delay: 200 * time.Microsecond}}))
	})
}

// copies makes every node keep a copy of a new session, and returns its id.
func (r *rig) copies(value string) (id string) {
	r.t.Helper()
	id = r.nodes[0].create(value)
	time.Sleep(time.Millisecond) // until the news of that has arrived: no test is about it
	for _, n := range r.nodes {
		n.read(id, near.Local)
	}
	return id
}

// loseNews loses the next packet from one node to another that names the session.
func (r *rig) loseNews(from, to *chaosNode, id string) {
	var lost atomic.Bool
	r.network.Lose(func(a, b netip.AddrPort, packet []byte) bool {
		return a == from.addr && b == to.addr && bytes.Contains(packet, []byte(id)) && !lost.Swap(true)
	})
}

// fences returns how often the cluster of a node has raised the fence.
func (c *chaosNode) fences() (n uint64) {
	for _, times := range c.bus().Fences {
		n += times
	}
	return n
}

func (c *chaosNode) bus() cluster.Stats { return c.running().cluster.Stats() }

func TestOneLostFrameIsRepairedAndCostsNoOtherCopy(t *testing.T) {
	inRig(t, 3, func(r *rig) {
		writer, reader := r.nodes[0], r.nodes[1]
		id, next := r.copies("old"), r.copies("old")
		var others []string
		for range 50 {
			others = append(others, r.copies("same"))
		}
		before, fences := reader.near(), reader.fences()

		r.loseNews(writer, reader, id)
		writer.write(id, "new")
		writer.write(next, "new") // its number shows the gap
		r.await(100*time.Millisecond, "the reader serves what was written", func() bool { return reader.read(id, near.Local) == "new" })

		for _, other := range others {
			reader.read(other, near.Local)
		}
		if after := reader.near(); after.Misses != before.Misses+1 {
			t.Errorf("%d reads asked the store, want the one of the lost key", after.Misses-before.Misses)
		}
		if stats := reader.bus(); stats.Repairs != 1 || reader.fences() != fences {
			t.Errorf("%d repairs and %d fences, want one repair and no fence", stats.Repairs, reader.fences()-fences)
		}
	})
}

func TestALostLastFrameIsFoundWithinTheMarkBound(t *testing.T) {
	// Marks leave 25, 100 and 400 ms after the last batch, then every second. Each of them may be lost as well.
	for _, tt := range []struct{ deaf, bound time.Duration }{
		{10 * time.Millisecond, 50 * time.Millisecond},
		{50 * time.Millisecond, 130 * time.Millisecond},
		{200 * time.Millisecond, 430 * time.Millisecond},
		{500 * time.Millisecond, 1450 * time.Millisecond},
	} {
		t.Run(fmt.Sprint("nothing comes through for ", tt.deaf), func(t *testing.T) {
			inRig(t, 3, func(r *rig) {
				writer, reader := r.nodes[0], r.nodes[1]
				id := r.copies("old")
				time.Sleep(5 * time.Second) // until there are no marks but those of each second

				r.network.Cut(writer.addr, reader.addr)
				writer.write(id, "new")
				begin := time.Now()
				time.Sleep(tt.deaf)
				if got := reader.read(id, near.Local); got != "old" {
					t.Fatalf("the reader serves %q, so nothing was lost", got)
				}
				r.network.Heal()
				r.await(tt.bound-time.Since(begin), "the reader serves what was written", func() bool { return reader.read(id, near.Local) == "new" })
			})
		})
	}
}

func TestUnderLossDuplicatesAndReorderingAllCopiesEndEqual(t *testing.T) {
	inRig(t, 5, func(r *rig) {
		var ids []string
		for range 20 {
			ids = append(ids, r.copies("0"))
		}
		r.network.SetConditions(netsim.Conditions{Loss: 0.2, Duplicate: 0.1, Delay: time.Millisecond, Jitter: 30 * time.Millisecond})
		var clients sync.WaitGroup
		writes := 0
		for i, writer := range r.nodes[:4] {
			clients.Go(func() {
				for n := range 60 * 50 {
					id := ids[(n*7+i*3)%len(ids)]
					writer.write(id, fmt.Sprint(i, " ", n))
					r.nodes[(n+i)%len(r.nodes)].read(id, near.Local)
					time.Sleep(20 * time.Millisecond)
				}
			})
			writes += 60 * 50
		}
		clients.Wait()
		time.Sleep(2 * time.Second) // the mark bound, with some marks lost

		for _, id := range ids {
			truth := r.nodes[0].read(id, near.Latest)
			for _, n := range r.nodes {
				if got := n.read(id, near.Local); got != truth {
					t.Errorf("%s serves %q of %.8s, the store has %q", n.name, got, id, truth)
				}
			}
		}
		var repairs, duplicates, fences uint64
		for _, n := range r.nodes {
			stats := n.bus()
			repairs, duplicates, fences = repairs+stats.Repairs, duplicates+stats.Duplicates, fences+stats.Fences[cluster.FenceGap]
		}
		if repairs == 0 || duplicates == 0 {
			t.Errorf("%d repairs, %d duplicates: the network did nothing", repairs, duplicates)
		}
		t.Logf("%d writes; %d repairs, %d duplicates, %d fences because of a gap", writes, repairs, duplicates, fences)
	})
}

func TestARingOverrunInAFreezeRaisesTheFence(t *testing.T) {
	inRig(t, 3, func(r *rig) {
		writer, reader := r.nodes[0], r.nodes[1]
		id, quiet := r.copies("0"), r.copies("quiet")
		fences := reader.bus().Fences[cluster.FenceGap]
		r.network.Freeze(reader.addr)
		writer.write(id, "1")
		const more = 4096 + 100 // than the ring holds
		for range more {
			// News that somebody waits for leaves at once, each in a batch of its own.
			writer.running().cluster.Publish(proto.Invalidate{Key: proto.NewKey("default", proto.KindSession, "another"), Dead: true})
			time.Sleep(500 * time.Microsecond)
		}
		r.network.Thaw(reader.addr)

		r.await(1500*time.Millisecond, "the reader serves the last write", func() bool { return reader.read(id, near.Local) == "1" })
		if got := reader.bus().Fences[cluster.FenceGap]; got != fences+1 {
			t.Errorf("the fence was raised %d times because of a gap, want once", got-fences)
		}
		// A copy behind the fence is checked once, not dropped for ever.
		misses := reader.near().Misses
		reader.read(quiet, near.Local)
		reader.read(quiet, near.Local)
		if got := reader.near().Misses - misses; got != 1 {
			t.Errorf("two reads of a quiet key asked the store %d times, want once", got)
		}
	})
}

func TestNewsDuringALoadIsNotForgotten(t *testing.T) {
	inRig(t, 2, func(r *rig) {
		writer, reader := r.nodes[0], r.nodes[1]
		id := writer.create("old")
		release := reader.faults.holdReads(id)
		var load sync.WaitGroup
		load.Go(func() { reader.read(id, near.Local) })
		synctest.Wait()

		writer.write(id, "new")
		time.Sleep(50 * time.Millisecond)
		release()
		load.Wait()
		if got := reader.read(id, near.Local); got != "new" {
			t.Errorf("after the load that the news overtook, the copy is %q", got)
		}
	})
}

func TestManyReadersOfAColdKeyCostOneStoreReadPerNode(t *testing.T) {
	inRig(t, 4, func(r *rig) {
		id := r.nodes[0].create("cold")
		cold := r.nodes[1:]
		var readers sync.WaitGroup
		for _, n := range cold {
			n.faults.set(5*time.Millisecond, 0, false)
			for range 200 {
				readers.Go(func() { n.read(id, near.Session) })
			}
		}
		readers.Wait()
		for _, n := range cold {
			if got := n.faults.readsOf(id); got != 1 {
				t.Errorf("200 readers cost %s %d store reads, want 1", n.name, got)
			}
		}
	})
}

// series is a session to which one node writes 1, 2, 3 and so on, and whose copies the others read.
type series struct {
	rig    *rig
	id     string
	writer *chaosNode

	mu     sync.Mutex  // guards below
	stored []time.Time // when each number, from 0, was certainly in the store
	oldest time.Duration
}

func (r *rig) newSeries(writer *chaosNode) *series {
	return &series{rig: r, id: r.copies("0"), writer: writer, stored: []time.Time{time.Now()}}
}

// run writes and reads until the time is over, and holds every read against the bound.
func (s *series) run(until time.Time, clients *sync.WaitGroup) {
	clients.Go(func() {
		for n := 1; time.Now().Before(until); n++ {
			s.writer.write(s.id, strconv.Itoa(n))
			s.mu.Lock()
			s.stored = append(s.stored, time.Now())
			s.mu.Unlock()
			time.Sleep(100 * time.Millisecond)
		}
	})
	for _, n := range s.rig.nodes {
		clients.Go(func() {
			for time.Now().Before(until) {
				s.look(n)
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
}

func (s *series) look(n *chaosNode) {
	asked := time.Now()
	number, err := strconv.Atoi(n.read(s.id, near.Local))
	if err != nil {
		s.rig.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if number+1 >= len(s.stored) {
		return // nothing newer is in the store
	}
	age := asked.Sub(s.stored[number+1])
	s.oldest = max(s.oldest, age)
	if age > lag {
		s.rig.t.Errorf("%s answered %d although %d had been in the store for %v", n.name, number, number+1, age)
	}
}

func TestAPartitionOf90SecondsShowsNothingOldAndHeals(t *testing.T) {
	inRig(t, 5, func(r *rig) {
		two, three := r.nodes[:2], r.nodes[2:]
		a, b := r.newSeries(two[0]), r.newSeries(three[0])
		until := time.Now().Add(95 * time.Second)
		var clients sync.WaitGroup
		a.run(until, &clients)
		b.run(until, &clients)

		r.network.Partition(addrs(two...), addrs(three...))
		time.Sleep(90 * time.Second)
		r.network.Heal()
		whole := r.awaitWhole(30 * time.Second)
		clients.Wait()
		t.Logf("oldest answers %v and %v; whole %v after healing", a.oldest, b.oldest, whole)
	})
}

func TestAOneWayCutShowsNothingOld(t *testing.T) {
	inRig(t, 3, func(r *rig) {
		a, b := r.newSeries(r.nodes[0]), r.newSeries(r.nodes[1])
		until := time.Now().Add(35 * time.Second)
		var clients sync.WaitGroup
		a.run(until, &clients)
		b.run(until, &clients)

		r.network.Cut(r.nodes[0].addr, r.nodes[1].addr)
		time.Sleep(20 * time.Second)
		r.network.Heal()
		whole := r.awaitWhole(15 * time.Second)
		clients.Wait()
		t.Logf("oldest answers %v and %v; whole %v after healing", a.oldest, b.oldest, whole)
	})
}

func TestBlockedDatagramsShowNothingOld(t *testing.T) {
	inRig(t, 3, func(r *rig) {
		a := r.newSeries(r.nodes[0])
		until := time.Now().Add(30 * time.Second)
		var clients sync.WaitGroup
		a.run(until, &clients)
		r.network.SetConditions(netsim.Conditions{Delay: 200 * time.Microsecond, BlockPackets: true})
		clients.Wait()
		t.Logf("oldest answer %v", a.oldest)
	})
}

func TestAWrongClockLosesNothingAndShowsNothingOld(t *testing.T) {
	for _, wrong := range []time.Duration{5 * time.Second, -5 * time.Second} {
		t.Run(wrong.String(), func(t *testing.T) {
			inRig(t, 3, func(r *rig) {
				odd := r.nodes[2]
				odd.leave()
				odd.clock = wrong
				odd.start()
				r.await(10*time.Second, "all are members", func() bool { return odd.alive() == 3 && r.nodes[0].alive() == 3 })

				right, off := r.newSeries(r.nodes[0]), r.newSeries(odd)
				until := time.Now().Add(20 * time.Second)
				var clients sync.WaitGroup
				right.run(until, &clients)
				off.run(until, &clients)
				both := r.copies("0")
				for n := range 20 {
					for _, writer := range []*chaosNode{r.nodes[0], odd} {
						value := fmt.Sprint(writer.name, " ", n)
						token := writer.write(both, value)
						for _, reader := range r.nodes {
							if got := reader.readAfter(both, token); got != value {
								t.Errorf("%s answered %q to the token of %q", reader.name, got, value)
							}
						}
					}
					time.Sleep(time.Second)
				}
				clients.Wait()
				t.Logf("oldest answers %v and %v", right.oldest, off.oldest)
			})
		})
	}
}

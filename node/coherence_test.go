package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"klatch/coherence"
	"klatch/proto"
	"klatch/store"
	"klatch/store/near"
)

// check makes a check on all nodes through one, and returns what was seen after each time, of all nodes together.
func (c *chaosNode) check(plan coherence.Plan) map[time.Duration]coherence.Look {
	c.rig.t.Helper()
	id, lasts, err := c.running().checker.Begin(context.Background(), plan)
	if err != nil {
		c.rig.t.Fatal(err)
	}
	time.Sleep(lasts + time.Second)
	sum := map[time.Duration]coherence.Look{}
	for _, n := range c.running().checker.Results(context.Background(), id) {
		if !n.Done || n.Error != "" {
			c.rig.t.Fatalf("%+v", n)
		}
		for _, l := range n.Looks {
			s := sum[l.After]
			sum[l.After] = coherence.Look{After: l.After, Served: s.Served + l.Served, Stale: s.Stale + l.Stale}
		}
	}
	return sum
}

// writeUnheard puts a later version of a session into the store and tells nobody, as a node does that dies between its
// commit and its news.
func (r *rig) writeUnheard(id string) {
	r.t.Helper()
	key := proto.NewKey("default", proto.KindSession, id)
	record, err := r.store.Get(context.Background(), key)
	if err != nil {
		r.t.Fatal(err)
	}
	session, err := proto.DecodeSession(record.Value)
	if err != nil {
		r.t.Fatal(err)
	}
	session.Stamp(session.Version+1, 99)
	session.Changed = session.Version
	if _, err := r.store.Put(context.Background(), key, session.Encode(), store.PutOptions{CAS: record.CAS, TTL: time.Hour}); err != nil {
		r.t.Fatal(err)
	}
}

func TestACheckFindsNothingUnderTraffic(t *testing.T) {
	inRig(t, 3, func(r *rig) {
		ids := make([]string, 20)
		for i := range ids {
			ids[i] = r.copies("0")
		}
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				id := ids[i%len(ids)]
				r.nodes[i%3].write(id, fmt.Sprint(i))
				for _, n := range r.nodes {
					n.read(id, near.Local)
				}
			}
		}()
		for after, look := range r.nodes[1].check(coherence.Plan{}) {
			if look.Stale > 0 || look.Served < len(ids) {
				t.Errorf("after %s: %+v, want none stale, and at least the copies of the last writers", after, look)
			}
		}
	})
}

func TestACheckFindsTheCopiesWhoseNewsWasNeverSent(t *testing.T) {
	inRig(t, 3, func(r *rig) {
		lost, kept, deleted := r.copies("0"), r.copies("0"), r.copies("0")
		_ = kept
		r.writeUnheard(lost)
		if err := r.store.Delete(context.Background(), proto.NewKey("default", proto.KindSession, deleted), store.Any); err != nil {
			t.Fatal(err)
		}
		looks := r.nodes[0].check(coherence.Plan{After: []time.Duration{time.Second, 10 * time.Second, 90 * time.Second}})
		for after, want := range map[time.Duration]coherence.Look{
			time.Second:      {Served: 9, Stale: 6},
			10 * time.Second: {Served: 9, Stale: 6},
			90 * time.Second: {}, // by then each copy is beyond its maximum age
		} {
			if want.After = after; looks[after] != want {
				t.Errorf("%+v, want %+v", looks[after], want)
			}
		}
	})
}

func TestACheckDoesNotCountCopiesThatAreNotServed(t *testing.T) {
	inRig(t, 3, func(r *rig) {
		id := r.copies("0")
		r.network.Partition(addrs(r.nodes[2]), addrs(r.nodes[:2]...))
		r.await(10*time.Second, "n3 has no trust", func() bool { return !r.nodes[2].trusts() })
		r.writeUnheard(id)
		alone := r.nodes[2].running().checker
		id, lasts, err := alone.Begin(context.Background(), coherence.Plan{After: []time.Duration{4 * time.Second}})
		if lasts != 4*time.Second || id == "" {
			t.Fatalf("%q, %s, %v", id, lasts, err)
		}
		time.Sleep(5 * time.Second)
		for _, n := range alone.Results(context.Background(), id) {
			if n.Node == "n3" && (n.Sampled != 1 || len(n.Looks) != 1 || n.Looks[0].Served != 0) {
				t.Errorf("%+v", n)
			}
		}
	})
}

func TestACheckSaysWhyItCannotBeMade(t *testing.T) {
	inRig(t, 1, func(r *rig) {
		r.copies("0")
		checker := r.nodes[0].running().checker
		for _, plan := range []coherence.Plan{{Samples: -1}, {Samples: 1 << 30}, {After: []time.Duration{-1}}, {After: []time.Duration{time.Hour}}, {After: make([]time.Duration, 9)}} {
			if _, _, err := checker.Begin(context.Background(), plan); !errors.Is(err, coherence.ErrInvalid) {
				t.Errorf("%+v: %v", plan, err)
			}
		}
		var failed error
		for range 5 {
			_, _, err := checker.Begin(context.Background(), coherence.Plan{})
			failed = errors.Join(failed, err)
		}
		if failed == nil {
			t.Error("five checks run at once")
		}
		for _, n := range checker.Results(context.Background(), "none") {
			if !n.Done || n.Error == "" {
				t.Errorf("an unknown check: %+v", n)
			}
		}
	})
}

func TestChecksThatNeverEndCountWhatTheySee(t *testing.T) {
	inRig(t, 2, func(r *rig) {
		n := r.nodes[0].running()
		always := coherence.New(coherence.Options{Copies: n.sessions, Peers: n.cluster, Rate: 10})
		defer always.Close()
		id := r.copies("0")
		r.writeUnheard(id)
		time.Sleep(15 * time.Second)
		if got := always.Stats()[time.Second]; got.Served != 1 || got.Stale != 1 {
			t.Errorf("%+v", got)
		}
	})
}

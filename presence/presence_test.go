package presence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"klatch/proto"
	"klatch/store"
	"klatch/store/memory"
)

// observer is a node's view of the others.
type observer struct {
	*Presence
	mu    sync.Mutex // guards all below
	hears map[string]uint64
	alive []proto.Origin
	looks int
}

func (o *observer) heard(name string) (uint64, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	boot, ok := o.hears[name]
	return boot, ok
}

func (o *observer) report(_ time.Time, alive []proto.Origin) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.alive, o.looks = alive, o.looks+1
}

func (o *observer) sees(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.alive, func(origin proto.Origin) bool { return origin.Node == name })
}

func start(t *testing.T, backing store.Store, name string, boot uint64) *observer {
	t.Helper()
	o := &observer{hears: map[string]uint64{}}
	p, err := Start(Options{
		Store: backing, Tenant: "default", Self: proto.Origin{Node: name, Boot: boot}, Address: "10.0.0.1:7946",
		Heard: o.heard, Report: o.report,
	})
	if err != nil {
		t.Fatal(err)
	}
	o.Presence = p
	t.Cleanup(p.Close)
	<-p.Looked()
	return o
}

// wait lets virtual time pass until a little after the looks of that moment.
func wait(d time.Duration) {
	time.Sleep(d + time.Millisecond)
	synctest.Wait()
}

func TestNodesThatNeverMetSeeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backing := memory.New(memory.Options{})
		a := start(t, backing, "a", 1)
		b := start(t, backing, "b", 2)
		wait(lookEvery)
		if !a.sees("b") || !b.sees("a") || !a.sees("a") {
			t.Errorf("a sees %v, b sees %v", a.alive, b.alive)
		}
		wait(10 * lapseAfter)
		if !a.sees("b") || !b.sees("a") {
			t.Error("a record that is renewed has lapsed")
		}
	})
}

func TestRecordOfADeadNodeLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backing := memory.New(memory.Options{})
		a := start(t, backing, "a", 1)
		b := start(t, backing, "b", 2)
		b.Close()
		wait(lapseAfter - renewEvery)
		if !a.sees("b") {
			t.Error("b counts as gone before its record has lapsed")
		}
		wait(renewEvery + lookEvery)
		if a.sees("b") {
			t.Error("b counts as alive after its record has lapsed")
		}
		wait(forgetAfter + lookEvery)
		if names, _, err := a.index(t.Context()); err != nil || !slices.Equal(names, []string{"a"}) {
			t.Errorf("listed are %v (%v), want a alone", names, err)
		}
	})
}

// hoarder is a store that never collects what its TTL allows it to.
type hoarder struct{ store.Store }

func (h hoarder) Put(ctx context.Context, key proto.Key, value []byte, opts store.PutOptions) (store.CAS, error) {
	opts.TTL = store.Forever
	return h.Store.Put(ctx, key, value, opts)
}

func TestRecordThatIsNotRenewedLapsesAlsoIfTheStoreKeepsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backing := hoarder{memory.New(memory.Options{})}
		a := start(t, backing, "a", 1)
		b := start(t, backing, "b", 2)
		b.Close()
		wait(lapseAfter + 2*lookEvery)
		if a.sees("b") {
			t.Error("b counts as alive")
		}
	})
}

func TestNodeThatLeavesIsGoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backing := memory.New(memory.Options{})
		a := start(t, backing, "a", 1)
		b := start(t, backing, "b", 2)
		if err := b.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		wait(2 * renewEvery) // it is not to come back by a renewal
		if a.sees("b") {
			t.Error("b counts as alive")
		}
		if names, _, _ := a.index(t.Context()); !slices.Equal(names, []string{"a"}) {
			t.Errorf("listed are %v, want a alone", names)
		}
	})
}

func TestHeardNodesAreNotLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backing := &counting{Store: memory.New(memory.Options{})}
		a := start(t, backing, "a", 1)
		a.hears["b"], a.hears["c"] = 2, 3
		b := start(t, backing, "b", 2)
		c := start(t, backing, "c", 3)
		wait(lookEvery)
		b.Close()
		c.Close()
		before := backing.count()
		wait(9 * lookEvery)
		if reads := backing.count() - before; reads != 9 {
			t.Errorf("%d reads in 9 looks, want one each", reads)
		}
		if !a.sees("b") || !a.sees("c") {
			t.Error("nodes that are heard do not count as alive")
		}
	})
}

// counting counts the reads of a store, and fails while down.
type counting struct {
	store.Store
	mu    sync.Mutex // guards all below
	reads int
	down  bool
}

func (c *counting) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

func (c *counting) Get(ctx context.Context, key proto.Key) (store.Record, error) {
	c.mu.Lock()
	c.reads++
	down := c.down
	c.mu.Unlock()
	if down {
		return store.Record{}, store.ErrUnavailable
	}
	return c.Store.Get(ctx, key)
}

func TestWhileTheStoreIsDownNobodyIsReportedGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backing := &counting{Store: memory.New(memory.Options{})}
		a := start(t, backing, "a", 1)
		b := start(t, backing, "b", 2)
		wait(lookEvery)
		backing.mu.Lock()
		backing.down = true
		backing.mu.Unlock()
		looks := a.looks
		b.Close()
		wait(2 * lapseAfter)
		if a.looks != looks || !a.sees("b") {
			t.Errorf("%d reports without a store", a.looks-looks)
		}
		if err := a.Leave(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("leaving without a store: %v", err)
		}
		backing.mu.Lock()
		backing.down = false
		backing.mu.Unlock()
		wait(2 * lookEvery)
		if a.sees("b") {
			t.Error("b counts as alive though the store is back and its record has lapsed")
		}
	})
}

func TestManyNodesListThemselvesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backing := memory.New(memory.Options{})
		var started sync.WaitGroup
		for i := range 30 {
			started.Go(func() { start(t, backing, fmt.Sprintf("n%d", i), uint64(i+1)) })
		}
		started.Wait()
		first := start(t, backing, "first", 100)
		wait(lookEvery)
		if len(first.alive) != 31 {
			t.Errorf("%d nodes are seen, want 31", len(first.alive))
		}
	})
}

package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"klatch/cluster/netsim"
)

// edge is a cache as small as can be, one for each boot of a node, before an origin that everybody shares: what the
// stamps are for.
type edge struct {
	origin *origin

	mu      sync.Mutex // guards all below
	objects map[*chaosEngine]map[string]object
}

type object struct {
	epoch   uint64
	content int
}

type origin struct {
	mu      sync.Mutex // guards all below
	content map[string]int
	purges  []purge
}

// purge is one that was answered.
type purge struct {
	scope       string
	content     int // of the origin before it began: everything older is dead
	answered    time.Time
	unconfirmed []string
}

func (o *origin) get(scope string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.content[scope]
}

func (o *origin) change(scope string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.content[scope]++
	return o.content[scope]
}

func (e *edge) kept(at *chaosEngine, scope string) (object, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	o, ok := e.objects[at][scope]
	return o, ok
}

func (e *edge) keep(at *chaosEngine, scope string, o object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.objects[at] == nil {
		e.objects[at] = map[string]object{}
	}
	e.objects[at][scope] = o
}

// get answers as a caching proxy does. The way to the origin takes a while, and what comes back is as old as that.
func (e *edge) get(ctx context.Context, at *chaosEngine, scope string, way time.Duration) (content int, err error) {
	epoch, err := at.stamps.Current(ctx, "shop")
	if err != nil {
		return 0, err
	}
	if o, ok := e.kept(at, scope); ok && at.stamps.Alive("shop", o.epoch, scope) {
		return o.content, nil
	}
	o := object{epoch, e.origin.get(scope)}
	time.Sleep(way)
	e.keep(at, scope, o)
	return o.content, nil
}

// check demands that an answer is not older than what the purges allow that were over before it was asked for.
func (o *origin) check(t *testing.T, node, scope string, content int, asked time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.purges {
		due := p.answered
		if slices.Contains(p.unconfirmed, node) {
			due = due.Add(lag)
		}
		if p.scope == scope && content < p.content && asked.After(due) {
			t.Errorf("%s answers content %d of %s %v after %d was purged (unconfirmed: %v)",
				node, content, scope, asked.Sub(p.answered), p.content, p.unconfirmed)
		}
	}
}

// TestStampsUnderFaults purges on a cluster under faults that a seed decides: once a purge is answered, no node that
// has confirmed it serves what it killed, and no other does when the bound is over.
func TestStampsUnderFaults(t *testing.T) {
	gets, purges, unconfirmed := 0, 0, 0
	for seed := *chaosSeed; seed < *chaosSeed+uint64(max(*chaosRuns/2, 1)); seed++ {
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, o := purgeUnderFaults(t, seed)
				gets += n
				purges += len(o.purges)
				for _, p := range o.purges {
					unconfirmed += min(len(p.unconfirmed), 1)
				}
			})
		}) {
			t.Fatalf("seed %d broke the promise", seed)
		}
	}
	t.Logf("%d answers checked against %d purges, %d of which were not confirmed by all", gets, purges, unconfirmed)
}

func purgeUnderFaults(t *testing.T, seed uint64) (gets int, o *origin) {
	random := rand.New(rand.NewPCG(seed, 0))
	conditions := someConditions(random)
	r := newRig(t, 3+random.IntN(3), netsim.Options{Seed: seed, Conditions: netsim.Conditions{Delay: 200 * time.Microsecond}})
	r.network.SetConditions(conditions)
	var log strings.Builder
	fmt.Fprintf(&log, "seed %d: %d nodes, %+v\n", seed, len(r.nodes), conditions)

	o = &origin{content: map[string]int{}}
	e := &edge{origin: o, objects: map[*chaosEngine]map[string]object{}}
	until := time.Now().Add(chaosTime)
	counts := make([]int, 6)
	var clients sync.WaitGroup
	for i := range counts {
		random := rand.New(rand.NewPCG(seed, uint64(i+1)))
		clients.Go(func() {
			for time.Now().Before(until) {
				node := r.nodes[random.IntN(len(r.nodes))]
				scope := fmt.Sprint("tag:", random.IntN(4))
				if random.IntN(20) == 0 {
					o.purge(node, scope)
				} else if e.ask(t, node, scope, time.Duration(random.Int64N(int64(50*time.Millisecond)))) {
					counts[i]++
				}
				time.Sleep(time.Duration(random.Int64N(int64(40 * time.Millisecond))))
			}
		})
	}
	for time.Now().Before(until) {
		r.fault(random, &log)
		time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
	}
	clients.Wait()
	r.network.SetConditions(netsim.Conditions{})
	if t.Failed() {
		t.Log(log.String())
	}
	for _, n := range counts {
		gets += n
	}
	return gets, o
}

func (o *origin) purge(at *chaosNode, scope string) {
	engine := at.running()
	if engine == nil {
		return
	}
	content := o.change(scope)
	receipt, err := engine.stamps.Raise(context.Background(), "shop", scope)
	if err != nil || engine.store.dead.Load() {
		return // nobody was answered
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.purges = append(o.purges, purge{scope, content, time.Now(), receipt.Unconfirmed})
}

// ask reports whether there was an answer to check.
func (e *edge) ask(t *testing.T, at *chaosNode, scope string, way time.Duration) bool {
	engine := at.running()
	if engine == nil {
		return false
	}
	asked := time.Now()
	content, err := e.get(context.Background(), engine, scope, way)
	if err != nil || engine.store.dead.Load() {
		return false
	}
	e.origin.check(t, at.name, scope, content, asked)
	return true
}

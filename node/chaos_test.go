package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"klatch/cluster/netsim"
	"klatch/internal/history"
	"klatch/proto"
	"klatch/session"
	"klatch/store/near"
)

var (
	chaosRuns = flag.Int("chaos.runs", 12, "how many seeds TestChaos tries, and TestStampsUnderFaults half as many")
	chaosSeed = flag.Uint64("chaos.seed", 1, "the first seed that they try")
	chaosDump = flag.String("chaos.dump", "", "where TestChaos writes the history of a run that failed")
)

const (
	// lag is the design's bound on how old an answer may be, whatever happens.
	lag = 3 * time.Second
	// chaosTime is how long the clients of a run and its faults go on.
	chaosTime = 20 * time.Second
)

// TestChaos lets clients use a cluster under faults that a seed decides, and checks every promise on what they were
// answered. A failure names its seed; -chaos.seed N -chaos.runs 1 tries it again. The seed decides the faults, the
// fate of each packet and what the clients do; the order of goroutines that are due at one moment it does not.
func TestChaos(t *testing.T) {
	operations := 0
	for seed := *chaosSeed; seed < *chaosSeed+uint64(*chaosRuns); seed++ {
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { operations += chaos(t, seed) })
		}) {
			t.Fatalf("seed %d broke a promise, the first of %d", seed, seed-*chaosSeed+1)
		}
	}
	t.Logf("%d runs, %d operations checked", *chaosRuns, operations)
}

// chaos is one run. It returns how many operations were checked.
func chaos(t *testing.T, seed uint64) int {
	random := rand.New(rand.NewPCG(seed, 0))
	conditions := someConditions(random)
	r := newRig(t, 3+random.IntN(3), netsim.Options{Seed: seed, Conditions: netsim.Conditions{Delay: 200 * time.Microsecond}})
	r.network.SetConditions(conditions)
	var log strings.Builder
	fmt.Fprintf(&log, "seed %d: %d nodes, %+v\n", seed, len(r.nodes), conditions)

	recorder := history.NewRecorder(time.Now)
	keys := &keys{ids: map[string]string{}}
	begin := time.Now()
	until := begin.Add(chaosTime)
	var clients sync.WaitGroup
	for i := range 6 {
		c := &chaosClient{
			rig: r, name: fmt.Sprint("c", i), rand: rand.New(rand.NewPCG(seed, uint64(i+1))),
			recorder: recorder, keys: keys, tokens: map[string]proto.Version{},
		}
		c.create(r.nodes[0])
		clients.Go(func() { c.run(until) })
	}
	for time.Now().Before(until) {
		fmt.Fprintf(&log, "%8.3fs ", time.Since(begin).Seconds())
		r.fault(random, &log)
		time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
	}
	clients.Wait()
	r.network.SetConditions(netsim.Conditions{Delay: 200 * time.Microsecond})
	r.awaitWhole(time.Minute)
	time.Sleep(2 * time.Second)

	r.agree(keys)
	final, err := keys.final(r.nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	h := recorder.History()
	var broken history.Violations
	if err := history.Check(h, chaosCheckers(final)...); errors.As(err, &broken) {
		for _, v := range broken {
			t.Errorf("found by %s", v)
		}
		dump(t, h)
	}
	if t.Failed() {
		t.Log(log.String())
	}
	return len(h)
}

func chaosCheckers(final map[string]history.Final) []history.Checker {
	return []history.Checker{
		history.Linearizable{},
		history.ReadYourWrites{}, history.MonotonicReads{}, history.TokenHonoured{},
		history.NoResurrection{Grace: lag},
		history.BoundedStaleness{Bound: lag},
		history.NothingLost{Final: final},
	}
}

func someConditions(random *rand.Rand) netsim.Conditions {
	return netsim.Conditions{
		Loss:      []float64{0, 0.02, 0.1, 0.3}[random.IntN(4)],
		Duplicate: []float64{0, 0.1}[random.IntN(2)],
		Delay:     time.Duration(random.Int64N(int64(3 * time.Millisecond))),
		Jitter:    time.Duration(random.Int64N(int64(20 * time.Millisecond))),
	}
}

// fault brings one about and ends it.
func (r *rig) fault(random *rand.Rand, log *strings.Builder) {
	some := func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most))) }
	shuffled := append([]*chaosNode(nil), r.nodes...)
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	a, b := shuffled[0], shuffled[1]
	last := some(6 * time.Second)
	switch random.IntN(9) {
	case 0:
		fmt.Fprintf(log, "cut %s -> %s for %s\n", a.name, b.name, last)
		r.network.Cut(a.addr, b.addr)
		time.Sleep(last)
		r.network.Heal()
	case 1:
		half := 1 + random.IntN(len(shuffled)-1)
		fmt.Fprintf(log, "partition of %d from %d for %s\n", half, len(shuffled)-half, last)
		r.network.Partition(addrs(shuffled[:half]...), addrs(shuffled[half:]...))
		time.Sleep(last)
		r.network.Heal()
	case 2:
		fmt.Fprintf(log, "%s unheard for %s\n", a.name, last)
		r.network.Freeze(a.addr)
		time.Sleep(last)
		r.network.Thaw(a.addr)
	case 3:
		pause := some(3 * time.Second)
		fmt.Fprintf(log, "%s is killed, back after %s\n", a.name, pause)
		a.crash()
		time.Sleep(pause)
		a.start()
	case 4:
		fmt.Fprintf(log, "%s leaves and comes back\n", a.name)
		a.leave()
		a.start()
	case 5:
		slow := some(500 * time.Millisecond)
		fmt.Fprintf(log, "the store is up to %s away from %s and %s, for %s\n", slow, a.name, b.name, last)
		a.faults.set(slow, 0, false)
		b.faults.set(slow, 0, false)
		time.Sleep(last)
		a.faults.set(0, 0, false)
		b.faults.set(0, 0, false)
	case 6:
		fmt.Fprintf(log, "answers to writes of %s are lost for %s\n", a.name, last)
		a.faults.set(5*time.Millisecond, 0.3, false)
		time.Sleep(last)
		a.faults.set(0, 0, false)
	case 7:
		fmt.Fprintf(log, "%s does not reach the store for %s\n", a.name, last/2)
		a.faults.set(0, 0, true)
		time.Sleep(last / 2)
		a.faults.set(0, 0, false)
	case 8:
		worse := someConditions(random)
		fmt.Fprintf(log, "the network becomes %+v\n", worse)
		r.network.SetConditions(worse)
		time.Sleep(last)
	}
}

// agree demands that every copy that would be served equals the store.
func (r *rig) agree(keys *keys) {
	r.t.Helper()
	for key, id := range keys.ids {
		for _, n := range r.nodes {
			load := func(level near.Level) (proto.Version, error) {
				s, err := n.running().sessions.Load(context.Background(), id, session.LoadOptions{Level: level, Passive: true})
				if errors.Is(err, session.ErrNotFound) {
					return 0, nil
				}
				if err != nil {
					return 0, err
				}
				return s.Version(), nil
			}
			copy, err := load(near.Local)
			truth, err2 := load(near.Latest)
			if err := errors.Join(err, err2); err != nil {
				r.t.Fatal(err)
			}
			if copy != truth {
				r.t.Errorf("found by comparison: at the end %s serves version %s of %s, the store has %s", n.name, copy, key, truth)
			}
		}
	}
}

func dump(t *testing.T, h history.History) {
	if *chaosDump == "" {
		return
	}
	file, err := os.Create(*chaosDump)
	if err != nil {
		t.Error(err)
		return
	}
	defer file.Close()
	if err := h.Dump(file); err != nil {
		t.Error(err)
	}
}

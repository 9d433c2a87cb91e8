package test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"klatch/proto"
	"klatch/session"
	"klatch/store/near"
	"klatch/test/cbnode"
)

const (
	// increments is how many acknowledged ones each of the three managers makes, one in every pace. A writer
	// whose answer is lost finds out what became of its write if at most 16 others follow before it asks:
	// the pace lets fewer come within a time-out.
	increments = 334
	pace       = 15 * time.Millisecond
	// kvTimeout is short, so that faults are found quickly; late is well after it.
	kvTimeout = 100 * time.Millisecond
	late      = 250 * time.Millisecond
)

// faultURL has an outage noticed after two operations.
const faultURL = "kv-timeout=100ms&durability=none&breaker=2&probe-interval=50ms&start-wait=20s"

// TestEveryIncrementCounts has three session managers, each with a connection of its own, count in one
// session while the store misbehaves. In the end the counter is at least the number of increments that were
// acknowledged, and at most that and those whose outcome was said to be unknown.
func TestEveryIncrementCounts(t *testing.T) {
	for _, c := range []struct {
		name  string
		every uint64 // so many writes are one with the fault
		fault cbnode.Action
	}{
		{"NoFault", 1 << 62, cbnode.Action{}},
		{"AnswerDropped", 20, cbnode.Action{Fault: cbnode.DropAnswer}},
		{"RequestDropped", 20, cbnode.Action{Fault: cbnode.DropRequest}},
		{"AnswerAfterTheDeadline", 20, cbnode.Action{After: late}},
		{"AppliedAfterTheDeadline", 20, cbnode.Action{Before: late}},
		{"ClosedAfterApplying", 20, cbnode.Action{Fault: cbnode.CloseAfter}},
		{"ClosedBeforeApplying", 20, cbnode.Action{Fault: cbnode.CloseBefore}},
		{"TemporaryFailure", 5, cbnode.Action{Fault: cbnode.Refuse}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRace(t)
			var writes atomic.Uint64
			r.node.SetHook(cbnode.OnWrites(func(cbnode.Request) cbnode.Action {
				if writes.Add(1)%c.every == 0 {
					return c.fault
				}
				return cbnode.Action{}
			}))
			r.run(nil)
			r.node.SetHook(nil)
			r.check()
		})
	}
}

func TestEveryIncrementCountsWhileTheNode(t *testing.T) {
	for _, c := range []struct {
		name       string
		down, back func(t *testing.T, node *cbnode.Node)
	}{
		{
			"FreezesAndThaws",
			func(_ *testing.T, node *cbnode.Node) { node.Freeze() },
			func(_ *testing.T, node *cbnode.Node) { node.Thaw() },
		},
		{
			"GoesAndComesBack",
			func(_ *testing.T, node *cbnode.Node) { node.Stop() },
			func(t *testing.T, node *cbnode.Node) {
				if err := node.Restart(); err != nil {
					t.Error(err)
				}
			},
		},
		{
			"LosesAllConnections",
			func(_ *testing.T, node *cbnode.Node) { node.Disconnect() },
			func(*testing.T, *cbnode.Node) {},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRace(t)
			const outages = 3
			r.run(func(done <-chan struct{}) {
				for i := range int64(outages) {
					// Each outage begins in the middle of work, and lasts until it has been noticed.
					if !r.reached(done, (i+1)*increments/(outages+1)*racers) {
						return
					}
					before := r.failures()
					c.down(t, r.node)
					outage := time.NewTimer(3 * kvTimeout)
					<-outage.C
					c.back(t, r.node)
					t.Logf("outage %d: %d updates failed in it", i+1, r.failures()-before)
				}
			})
			r.check()
		})
	}
}

const racers = 3

// race is three managers that increment one counter.
type race struct {
	*testing.T
	node     *cbnode.Node
	managers []*session.Manager
	id       string

	acknowledged, unknown, refused atomic.Int64
}

// nowhere takes news that nobody hears, the worst case for the near caches.
type nowhere struct{}

func (nowhere) Publish(...proto.Item) {}

func (nowhere) Confirm(context.Context, ...proto.Item) []string { return nil }

func newRace(t *testing.T) *race {
	r := &race{T: t, node: startNode(t, cbnode.Options{})}
	for i := range racers {
		m, err := session.New(session.Options{
			Store: open(t, options(t, r.node, faultURL)), News: nowhere{}, Node: fmt.Sprint("n", i), Writer: uint64(i + 1),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		r.managers = append(r.managers, m)
	}
	s, err := r.managers[0].Create(t.Context(), session.Draft{Attributes: map[string]session.Value{"n": session.Bytes([]byte("0"))}})
	if err != nil {
		t.Fatal(err)
	}
	r.id = s.ID()
	return r
}

// run has every manager make its increments, beside what disturbs them.
func (r *race) run(disturb func(done <-chan struct{})) {
	r.Helper()
	began := time.Now()
	deadline, cancel := context.WithTimeout(r.Context(), 2*patience)
	defer cancel()
	done := make(chan struct{})
	var disturbing, counting sync.WaitGroup
	if disturb != nil {
		disturbing.Go(func() { disturb(done) })
	}
	for _, m := range r.managers {
		counting.Go(func() { r.count(deadline, m) })
	}
	counting.Wait()
	close(done)
	disturbing.Wait()
	r.Logf("%d acknowledged, %d unknown, %d refused, in %s", r.acknowledged.Load(), r.unknown.Load(), r.refused.Load(), time.Since(began).Round(time.Millisecond))
}

func (r *race) count(deadline context.Context, m *session.Manager) {
	next := time.NewTicker(pace)
	defer next.Stop()
	for mine := 0; mine < increments; {
		<-next.C
		ctx, cancel := context.WithTimeout(deadline, 5*kvTimeout)
		_, err := m.Update(ctx, r.id, session.LoadOptions{}, session.CommitOptions{}, increment)
		cancel()
		switch {
		case deadline.Err() != nil:
			r.Errorf("only %d increments within %s: %v", mine, 2*patience, err)
			return
		case err == nil:
			mine++
			r.acknowledged.Add(1)
		case errors.Is(err, session.ErrOutcomeUnknown):
			r.unknown.Add(1)
		case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrGone):
			r.Errorf("the session is said to be gone: %v", err)
			return
		default:
			r.refused.Add(1)
		}
	}
}

func increment(s *session.Session) error {
	v, _ := s.Get("n")
	n, err := strconv.Atoi(string(v.Data))
	s.Set("n", session.Bytes([]byte(strconv.Itoa(n+1))))
	return err
}

func (r *race) failures() int64 { return r.unknown.Load() + r.refused.Load() }

// reached waits until so many increments were acknowledged. It is false if counting ends before.
func (r *race) reached(done <-chan struct{}, n int64) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for r.acknowledged.Load() < n {
		select {
		case <-done:
			return false
		case <-tick.C:
		}
	}
	return true
}

// check compares the counter with what was answered, when nothing that is still under way can change it.
func (r *race) check() {
	r.Helper()
	settle := time.NewTimer(2 * late)
	<-settle.C
	var value int64
	eventually(r.T, "the counter is read", func() bool {
		s, err := r.managers[0].Load(r.Context(), r.id, session.LoadOptions{Level: near.Latest})
		if err != nil {
			return false
		}
		v, _ := s.Get("n")
		value, err = strconv.ParseInt(string(v.Data), 10, 64)
		if err != nil {
			r.Fatal(err)
		}
		return true
	})
	least := r.acknowledged.Load()
	most := least + r.unknown.Load()
	r.Logf("the counter is %d, between %d and %d wanted", value, least, most)
	if least != racers*increments || value < least || value > most {
		r.Errorf("the counter is %d; %d were acknowledged, and %d are unknown", value, least, most-least)
	}
}

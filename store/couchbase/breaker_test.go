package couchbase

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("down")

// rig is a breaker on virtual time, with a store that the test takes down.
type rig struct {
	*breaker
	down    atomic.Bool
	slow    time.Duration // of every probe
	began   time.Time
	probes  []time.Duration // when each began
	running atomic.Int32    // probes at this moment
}

func newRig(t *testing.T, threshold int, interval, slow time.Duration, down bool) *rig {
	r := &rig{began: time.Now(), slow: slow}
	r.down.Store(down) // before the first probe, which begins at once
	r.breaker = newBreaker(threshold, interval, func(ctx context.Context) error {
		if r.running.Add(1) > 1 {
			t.Error("two probes at once")
		}
		defer r.running.Add(-1)
		r.probes = append(r.probes, time.Since(r.began))
		time.Sleep(r.slow) // virtual
		if r.down.Load() {
			return errDown
		}
		return nil
	}, func(error) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *rig) wantsOpen(t *testing.T, open bool) {
	t.Helper()
	synctest.Wait()
	err := r.allow()
	if (err != nil) != open {
		t.Fatalf("open is %t, want %t: %v", err != nil, open, err)
	}
}

func TestBreakerIsOpenUntilTheFirstContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, 250*time.Millisecond, 0, true)
		if err := r.allow(); !errors.Is(err, errConnecting) && !errors.Is(err, errDown) {
			t.Errorf("%v", err)
		}
		r.wantsOpen(t, true)
		time.Sleep(600 * time.Millisecond)
		r.down.Store(false)
		time.Sleep(time.Second)
		r.wantsOpen(t, false)
	})
}

func TestBreakerOpensAfterFailuresInARowOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, 250*time.Millisecond, 0, false)
		r.wantsOpen(t, false)
		r.down.Store(true)
		for range 10 {
			r.failed(errDown)
			r.failed(errDown)
			r.answered()
		}
		r.wantsOpen(t, false)
		for range 3 {
			r.failed(errDown)
		}
		r.wantsOpen(t, true)
		if trips := r.trips.Load(); trips != 1 {
			t.Errorf("%d trips", trips)
		}
	})
}

func TestBreakerProbesAtItsIntervalOneAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		slow time.Duration
		want []time.Duration
	}{
		"fast probes": {0, []time.Duration{0, 250, 500, 750, 1000}},
		// The third ends after the store is back.
		"slow probes": {400 * time.Millisecond, []time.Duration{0, 400, 800}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1, 250*time.Millisecond, c.slow, true)
				time.Sleep(900 * time.Millisecond)
				r.down.Store(false)
				time.Sleep(2 * time.Second)
				r.wantsOpen(t, false)
				for i := range c.want {
					c.want[i] *= time.Millisecond
				}
				if !slices.Equal(r.probes, c.want) {
					t.Errorf("probes at %v, want %v", r.probes, c.want)
				}
			})
		})
	}
}

func TestBreakerClosesAndOpensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, 250*time.Millisecond, 0, false)
		for range 5 {
			r.wantsOpen(t, false)
			r.down.Store(true)
			for range 7 {
				r.failed(errDown)
			}
			r.wantsOpen(t, true)
			time.Sleep(10 * time.Second)
			r.wantsOpen(t, true)
			r.down.Store(false)
			time.Sleep(250 * time.Millisecond)
		}
		r.wantsOpen(t, false)
		if trips := r.trips.Load(); trips != 5 {
			t.Errorf("%d trips, want 5", trips)
		}
	})
}

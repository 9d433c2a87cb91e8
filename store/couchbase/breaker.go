package couchbase

import (
	"context"
	"sync/atomic"
	"time"
)

// breaker keeps operations away from a store that does not answer, so that callers learn it at once and
// not after a time-out each. It is open, with a cause, from the start and after so many failures in a row;
// then run probes, one probe at a time, until one succeeds.
//
// gocb has breakers of its own, but one for each connection: with several connections most operations get
// past them.
type breaker struct {
	threshold int32
	interval  time.Duration
	probe     func(context.Context) error
	observe   func(error) // told the result of every probe; run calls it

	outage   atomic.Pointer[outage] // nil while operations may pass
	failures atomic.Int32           // in a row
	tripped  chan struct{}          // holds one token for run
	trips    atomic.Uint64
	kept     atomic.Uint64 // operations kept away
}

type outage struct{ cause error }

func newBreaker(threshold int, interval time.Duration, probe func(context.Context) error, observe func(error)) *breaker {
	b := &breaker{
		threshold: int32(min(threshold, 1<<30)),
		interval:  interval,
		probe:     probe,
		observe:   observe,
		tripped:   make(chan struct{}, 1),
	}
	b.outage.Store(&outage{errConnecting})
	return b
}

// cause returns why the breaker is open, or nil.
func (b *breaker) cause() error {
	if o := b.outage.Load(); o != nil {
		return o.cause
	}
	return nil
}

// allow returns why an operation must not begin, or nil.
func (b *breaker) allow() error {
	cause := b.cause()
	if cause == nil {
		return nil
	}
	b.kept.Add(1)
	return cause
}

// answered records that the store has answered, whatever it said.
func (b *breaker) answered() {
	if b.failures.Load() != 0 { // a load is cheaper than a store that all cores share
		b.failures.Store(0)
	}
}

// failed records that it has not.
func (b *breaker) failed(cause error) {
	if b.failures.Add(1) < b.threshold || !b.outage.CompareAndSwap(nil, &outage{cause}) {
		return
	}
	b.trips.Add(1)
	select {
	case b.tripped <- struct{}{}:
	default: // run has not yet taken the token of an earlier trip
	}
}

// run probes whenever the breaker is open, until ctx ends.
func (b *breaker) run(ctx context.Context) {
	for ctx.Err() == nil {
		if b.outage.Load() == nil {
			select {
			case <-b.tripped:
			case <-ctx.Done():
			}
			continue
		}
		pause := time.NewTimer(b.interval)
		err := b.probe(ctx)
		if ctx.Err() != nil {
			pause.Stop()
			return
		}
		if err == nil {
			b.failures.Store(0)
			b.outage.Store(nil)
		} else {
			b.outage.Store(&outage{err})
		}
		b.observe(err)
		if err != nil {
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
		pause.Stop()
	}
}

// Package couchbase is the driver behind couchbase: and couchbases: URLs: the store in a bucket of a
// Couchbase cluster, by its key/value protocol.
//
// Records are raw binary documents. A CAS is Couchbase's. Every write carries its time to live, because one
// without would make the record immortal. The store need not be there when a Store is opened, and may go
// and come back: meanwhile operations fail at once, and the Store looks for it. What Couchbase answers, or
// does not answer, becomes an error of package store by the rules in errors.go: a write that failed in any
// way not known to be harmless is store.ErrAmbiguous.
package couchbase

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchbase/gocb/v2"
	"go.uber.org/zap"

	"klatch/store"
)

var _ store.Store = (*Store)(nil)

// Store is a connection to a cluster, or the search for it. It is safe for concurrent use.
type Store struct {
	opts    Options
	logger  *zap.Logger
	breaker *breaker
	link    link

	// collection is set once, before the breaker first lets an operation pass.
	collection atomic.Pointer[gocb.Collection]

	gets, puts, deletes outcomes
	probes              atomic.Uint64

	first     chan error // takes the result of the probe that settles how the start went
	settled   bool       // there was one; this and the next are of the prober's goroutine only
	lastState string     // what observe logged last

	gate     sync.RWMutex // guards closed, and adding to running against Close
	closed   bool
	running  sync.WaitGroup // operations inside gocb
	stop     context.CancelFunc
	prober   sync.WaitGroup
	shutDown func() error
}

// Open begins to connect. It waits for the first contact, for as long as Options.StartWait. What an operator
// must mend (ErrAuthentication, ErrBucket, ErrCollection) is returned as an error; a cluster that cannot be
// reached is not: the Store goes on looking for it, answers store.ErrUnavailable meanwhile, and says by Ready
// how it stands. The caller must Close the store.
func Open(ctx context.Context, opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{opts: opts, logger: opts.Logger.Named("couchbase"), first: make(chan error, 1)}
	if s.link, err = newLink(opts); err != nil {
		return nil, fmt.Errorf("open store %s: %w", opts, err)
	}
	logTo(opts.Logger)
	s.breaker = newBreaker(opts.BreakerThreshold, opts.ProbeInterval, s.probe, s.observe)
	s.shutDown = sync.OnceValue(s.end)
	probing, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.prober.Go(func() { s.breaker.run(probing) })

	wait := time.NewTimer(opts.StartWait)
	defer wait.Stop()
	select {
	case err = <-s.first:
	case <-wait.C:
		select {
		case s.first <- nil: // from now on observe logs everything
		case err = <-s.first:
		}
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
	}
	if err != nil {
		_ = s.Close() // it never served
		return nil, fmt.Errorf("open store %s: %w", opts, err)
	}
	return s, nil
}

// Ready returns nil while the store answers, and otherwise an error that says why it does not.
func (s *Store) Ready() error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return errClosed
	}
	if cause := s.breaker.cause(); cause != nil {
		return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, s.opts, cause)
	}
	return nil
}

// Close waits for what has begun, which its deadlines bound, and disconnects. Every later verb fails with
// store.ErrUnavailable.
func (s *Store) Close() error { return s.shutDown() }

func (s *Store) end() error {
	s.gate.Lock()
	s.closed = true
	s.gate.Unlock()
	s.stop()
	s.prober.Wait()
	s.running.Wait()
	if err := s.link.close(); err != nil {
		return fmt.Errorf("close store %s: %w", s.opts, err)
	}
	return nil
}

// observe tells Open of the first result that settles the start, and logs what Open does not return.
func (s *Store) observe(err error) {
	if !s.settled && (err == nil || permanent(err)) {
		s.settled = true
		select {
		case s.first <- err:
			if err != nil {
				return
			}
		default: // Open does not wait any more
		}
	}
	if err == nil {
		s.logger.Info("the store answers", zap.Stringer("store", s.opts))
		s.lastState = ""
		return
	}
	state := err.Error()
	switch {
	case state == s.lastState:
	case permanent(err):
		s.logger.Error("the store cannot be used", zap.Stringer("store", s.opts), zap.Error(err))
	default:
		s.logger.Warn("the store does not answer; trying again until it does", zap.Stringer("store", s.opts), zap.Error(err))
	}
	s.lastState = state
}

// Package observe stands between a node and its store: it counts operations by verb and outcome, and knows
// whether the store answers. Where no operation has told for a while, it asks the store itself.
package observe

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"klatch/internal/clock"
	"klatch/proto"
	"klatch/store"
)

// Options configure a [Store]. Store and Probe are required.
type Options struct {
	Store store.Store
	// Probe is read to find out whether the store answers, with a number that changes after its id, so that the
	// questions reach all parts of the store. It need not exist.
	Probe proto.Key
	// Interval is how often the store is asked while nothing else has told. Default 1 s.
	Interval time.Duration
	// Retry is how often it is asked while it does not answer. Default 250 ms.
	Retry time.Duration
	// Now is the clock. Default time.Now.
	Now    func() time.Time
	Logger *zap.Logger // default: nothing is logged
}

const (
	// probeTimeout bounds one question.
	probeTimeout = 2 * time.Second
	// probeKeys is how many keys the questions go round.
	probeKeys = 64
)

// Store is a store that is observed. It is safe for concurrent use.
type Store struct {
	opts     Options
	counters [verbs][outcomes]atomic.Uint64
	heard    atomic.Int64 // Unix nanoseconds of the last answer, of whatever operation
	down     atomic.Bool
	failed   chan struct{} // an operation has failed: look soon

	// Of the goroutine that asks.
	probed time.Time
	probes int

	mu     sync.Mutex    // guards up
	up     chan struct{} // closed at the first answer
	end    context.CancelFunc
	asking sync.WaitGroup
}

var _ store.Store = (*Store)(nil)

// New observes a store until Close. It does not close the store itself. Until the first answer it is taken for
// down.
func New(opts Options) *Store {
	if opts.Interval == 0 {
		opts.Interval = time.Second
	}
	if opts.Retry == 0 {
		opts.Retry = 250 * time.Millisecond
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	ctx, end := context.WithCancel(context.Background())
	s := &Store{opts: opts, failed: make(chan struct{}, 1), up: make(chan struct{}), end: end}
	s.down.Store(true)
	s.asking.Go(func() { s.ask(ctx) })
	return s
}

// Close ends the questions.
func (s *Store) Close() {
	s.end()
	s.asking.Wait()
}

// Down reports whether the store does not answer.
func (s *Store) Down() bool { return s.down.Load() }

// Up is closed once the store has answered for the first time.
func (s *Store) Up() <-chan struct{} { return s.up }

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key proto.Key) (store.Record, error) {
	record, err := s.opts.Store.Get(ctx, key)
	s.note(ctx, verbGet, err)
	return record, err
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key proto.Key, value []byte, opts store.PutOptions) (store.CAS, error) {
	cas, err := s.opts.Store.Put(ctx, key, value, opts)
	s.note(ctx, verbPut, err)
	return cas, err
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key proto.Key, cas store.CAS) error {
	err := s.opts.Store.Delete(ctx, key, cas)
	s.note(ctx, verbDelete, err)
	return err
}

// note counts an operation. One that failed because its caller left says nothing of the store; any other failure
// only raises the question: the answer to that decides.
func (s *Store) note(ctx context.Context, v verb, err error) {
	o := outcomeOf(err)
	s.counters[v][o].Add(1)
	switch {
	case o == outcomeRefused: // before it reached the store
	case o != outcomeUnavailable && o != outcomeAmbiguous:
		s.answered()
	case ctx.Err() == nil:
		select {
		case s.failed <- struct{}{}:
		default:
		}
	}
}

func (s *Store) answered() {
	s.heard.Store(s.opts.Now().UnixNano())
	if s.down.Load() && s.down.CompareAndSwap(true, false) {
		s.mu.Lock()
		defer s.mu.Unlock()
		select {
		case <-s.up:
			s.opts.Logger.Info("the store answers again")
		default:
			close(s.up)
		}
	}
}

// ask asks the store when nothing else has told for an interval, soon after a failure, and again and again while it
// does not answer; never twice within Retry, however much fails: a store that is ill needs no herd of questions.
func (s *Store) ask(ctx context.Context) {
	for {
		if s.down.Load() || s.opts.Now().UnixNano()-s.heard.Load() >= int64(s.opts.Interval) {
			s.probe(ctx)
		}
		wait := s.opts.Interval
		if s.down.Load() {
			wait = s.opts.Retry
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-s.failed:
			timer.Stop()
			s.heard.Store(0)
			if s.sinceProbe() < s.opts.Retry && clock.Sleep(ctx, s.opts.Retry-s.sinceProbe()) != nil {
				return
			}
		}
	}
}

func (s *Store) sinceProbe() time.Duration { return s.opts.Now().Sub(s.probed) }

func (s *Store) probe(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	s.probed = s.opts.Now()
	s.probes++
	key := s.opts.Probe
	key.ID += "-" + strconv.Itoa(s.probes%probeKeys)
	_, err := s.opts.Store.Get(limited, key)
	switch {
	case err == nil || errors.Is(err, store.ErrNotFound):
		s.answered()
	case ctx.Err() == nil && s.down.CompareAndSwap(false, true):
		s.opts.Logger.Warn("the store does not answer; warm reads go on, everything else is refused", zap.Error(err))
	}
}

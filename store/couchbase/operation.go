package couchbase

import (
	"context"
	"errors"
	"fmt"

	"github.com/couchbase/gocb/v2"

	"klatch/store"
)

var (
	// errNotBegun answers an operation that gocb was never given.
	errNotBegun = fmt.Errorf("%w: not begun", store.ErrUnavailable)

	// errLeft answers a caller whose context ended while the operation was under way.
	errLeft = errors.New("the context ended meanwhile")
)

// carryOut has gocb do one operation and waits for it until ctx ends.
//
// gocb is not told of ctx. A request that is cancelled, or times out, in the moment in which gocb takes it
// from its queue makes gocb (gocbcore 10.8.1) close the connection, and every other request under way on it
// fails with io.EOF. So an operation runs for as long as the options say, and a caller whose context ends
// earlier just leaves it. Close waits for it.
func carryOut[T any](ctx context.Context, s *Store, do func() (T, error)) (T, error) {
	var none T
	if err := s.enter(ctx); err != nil {
		return none, err
	}
	if ctx.Done() == nil {
		defer s.running.Done()
		result, err := do()
		s.report(err)
		return result, err
	}
	type outcome struct {
		result T
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		defer s.running.Done()
		result, err := do()
		s.report(err)
		ended <- outcome{result, err}
	}()
	select {
	case o := <-ended:
		return o.result, o.err
	case <-ctx.Done():
	}
	select {
	case o := <-ended: // both had happened
		return o.result, o.err
	default:
		return none, fmt.Errorf("%w: %w", errLeft, ctx.Err())
	}
}

// enter lets an operation begin, and counts it as running.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", errNotBegun, err)
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return fmt.Errorf("%w: closed", errNotBegun)
	}
	if err := s.breaker.allow(); err != nil {
		return fmt.Errorf("%w: %w", errNotBegun, err)
	}
	s.running.Add(1)
	return nil
}

// report tells the breaker whether the store answered. What gocb refused by itself tells nothing.
func (s *Store) report(err error) {
	switch {
	case err != nil && broken(err):
		s.breaker.failed(described(err))
	case errors.Is(err, gocb.ErrOverload), errors.Is(err, gocb.ErrShutdown):
	default:
		s.breaker.answered()
	}
}

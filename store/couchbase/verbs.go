package couchbase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/couchbase/gocb/v2"

	"klatch/proto"
	"klatch/store"
)

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key proto.Key) (store.Record, error) {
	rec, err := s.get(ctx, key)
	if s.gets.count(err) != nil {
		return store.Record{}, fmt.Errorf("get %s: %w", key, err)
	}
	return rec, nil
}

func (s *Store) get(ctx context.Context, key proto.Key) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	if err := s.enter(ctx); err != nil {
		return store.Record{}, err
	}
	defer s.exit()
	c := newCall(ctx, s.opts.KVTimeout)
	defer c.end()
	result, err := s.collection.Load().Get(key.Wire(), &gocb.GetOptions{Timeout: c.timeout, Context: c.ctx})
	s.report(c, err)
	if err != nil {
		return store.Record{}, ended(ctx, readFailed(err))
	}
	rec := store.Record{CAS: store.CAS(result.Cas())}
	if err := result.Content(&rec.Value); err != nil {
		return store.Record{}, fmt.Errorf("%w: the document is not one of klatch's: %w", store.ErrUnavailable, err)
	}
	return rec, nil
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key proto.Key, value []byte, opts store.PutOptions) (store.CAS, error) {
	cas, err := s.put(ctx, key, value, opts)
	if s.puts.count(err) != nil {
		return 0, fmt.Errorf("put %s: %w", key, err)
	}
	return cas, nil
}

func (s *Store) put(ctx context.Context, key proto.Key, value []byte, opts store.PutOptions) (store.CAS, error) {
	if err := store.CheckPut(key, value, opts); err != nil {
		return 0, err
	}
	id := key.Wire()
	value = slices.Clone(value)          // gocb may still send it when a cancelled call has returned
	life := expiry(opts.TTL, time.Now()) // the clock by which gocb makes a date of it
	return s.write(ctx, opts.Durable, func(c call, level gocb.DurabilityLevel) (*gocb.MutationResult, error) {
		collection := s.collection.Load()
		switch opts.CAS {
		case store.Any:
			return collection.Upsert(id, value, &gocb.UpsertOptions{
				Expiry: life, DurabilityLevel: level, Timeout: c.timeout, Context: c.ctx,
			})
		case store.Absent:
			return collection.Insert(id, value, &gocb.InsertOptions{
				Expiry: life, DurabilityLevel: level, Timeout: c.timeout, Context: c.ctx,
			})
		default:
			return collection.Replace(id, value, &gocb.ReplaceOptions{
				Expiry: life, Cas: gocb.Cas(opts.CAS), DurabilityLevel: level, Timeout: c.timeout, Context: c.ctx,
			})
		}
	})
}

// Delete implements store.Store. It is always durable, where the options allow: what was deleted must not
// come back by a fail-over.
func (s *Store) Delete(ctx context.Context, key proto.Key, cas store.CAS) error {
	if err := s.deletes.count(s.delete(ctx, key, cas)); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, key proto.Key, cas store.CAS) error {
	if err := store.CheckDelete(key, cas); err != nil {
		return err
	}
	id := key.Wire()
	_, err := s.write(ctx, true, func(c call, level gocb.DurabilityLevel) (*gocb.MutationResult, error) {
		return s.collection.Load().Remove(id, &gocb.RemoveOptions{
			Cas: gocb.Cas(cas), DurabilityLevel: level, Timeout: c.timeout, Context: c.ctx,
		})
	})
	return err
}

// write carries out one write and says what became of it.
func (s *Store) write(ctx context.Context, durable bool, do func(call, gocb.DurabilityLevel) (*gocb.MutationResult, error)) (store.CAS, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.exit()
	level := s.opts.Durability.forWrite(durable)
	result, err := s.attempt(ctx, level, do)
	if s.opts.Durability == Auto && level != gocb.DurabilityLevelNone && errors.Is(err, gocb.ErrFeatureNotAvailable) {
		result, err = s.attempt(ctx, gocb.DurabilityLevelNone, do) // gocb knows the cluster's abilities: nothing was sent
	}
	if err != nil {
		return 0, ended(ctx, writeFailed(err))
	}
	return store.CAS(result.Cas()), nil
}

func (s *Store) attempt(ctx context.Context, level gocb.DurabilityLevel, do func(call, gocb.DurabilityLevel) (*gocb.MutationResult, error)) (*gocb.MutationResult, error) {
	c := newCall(ctx, s.opts.KVTimeout)
	if level != gocb.DurabilityLevelNone {
		c = newDurableCall(ctx, s.opts.DurableTimeout)
	}
	defer c.end()
	result, err := do(c, level)
	s.report(c, err)
	return result, err
}

// report tells the breaker whether the store answered. A call that ran out of its caller's time, and not of
// ours, says nothing about the store.
func (s *Store) report(c call, err error) {
	switch {
	case err == nil, !broken(err) && !errors.Is(err, gocb.ErrRequestCanceled) && !errors.Is(err, gocb.ErrOverload):
		s.breaker.answered()
	case broken(err) && (c.whole || !errors.Is(err, gocb.ErrTimeout)):
		s.breaker.failed(described(err))
	}
}

// call is what gocb is told about the time of one operation.
type call struct {
	ctx     context.Context
	timeout time.Duration
	whole   bool // the time-out is the whole of ours, not what the caller has left
	end     func()
}

// newCall turns the deadline of ctx into a time-out, because gocb knows after a time-out whether it has sent
// anything, but not after a context has ended. The context given to gocb ends when ctx is cancelled only.
func newCall(ctx context.Context, limit time.Duration) call {
	deadline, ok := ctx.Deadline()
	if !ok {
		return call{ctx: ctx, timeout: limit, whole: true, end: func() {}}
	}
	cancellable, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})
	left := max(time.Until(deadline), time.Microsecond)
	return call{
		ctx: cancellable, timeout: min(left, limit), whole: left >= limit,
		end: func() { unhook(); cancel() },
	}
}

// newDurableCall is newCall for writes that wait for replicas, to which gocb gives at least durableFloor: a
// shorter deadline can be kept by ending the context only.
func newDurableCall(ctx context.Context, limit time.Duration) call {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < durableFloor {
		return call{ctx: ctx, timeout: durableFloor, end: func() {}}
	}
	return newCall(ctx, limit)
}

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
	id := documentID(key)
	result, err := carryOut(ctx, s, func() (*gocb.GetResult, error) {
		return s.collection.Load().Get(id, &gocb.GetOptions{Timeout: s.opts.KVTimeout})
	})
	switch {
	case errors.Is(err, errNotBegun):
		return store.Record{}, err
	case err != nil:
		return store.Record{}, readFailed(err)
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
	id := documentID(key)
	value = slices.Clone(value)          // an operation may go on when its caller has left
	life := expiry(opts.TTL, time.Now()) // the clock by which gocb makes a date of it
	return s.write(ctx, opts.Durable, func(level gocb.DurabilityLevel, timeout time.Duration) (*gocb.MutationResult, error) {
		collection := s.collection.Load()
		switch opts.CAS {
		case store.Any:
			return collection.Upsert(id, value, &gocb.UpsertOptions{Expiry: life, DurabilityLevel: level, Timeout: timeout})
		case store.Absent:
			return collection.Insert(id, value, &gocb.InsertOptions{Expiry: life, DurabilityLevel: level, Timeout: timeout})
		default:
			return collection.Replace(id, value, &gocb.ReplaceOptions{
				Expiry: life, Cas: gocb.Cas(opts.CAS), DurabilityLevel: level, Timeout: timeout,
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
	id := documentID(key)
	_, err := s.write(ctx, true, func(level gocb.DurabilityLevel, timeout time.Duration) (*gocb.MutationResult, error) {
		return s.collection.Load().Remove(id, &gocb.RemoveOptions{Cas: gocb.Cas(cas), DurabilityLevel: level, Timeout: timeout})
	})
	return err
}

// mutation is one write at a level of durability and with the time-out of that level.
type mutation func(gocb.DurabilityLevel, time.Duration) (*gocb.MutationResult, error)

// write carries out one write and says what became of it.
func (s *Store) write(ctx context.Context, durable bool, do mutation) (store.CAS, error) {
	result, err := carryOut(ctx, s, func() (*gocb.MutationResult, error) {
		level := s.opts.Durability.forWrite(durable)
		if level == gocb.DurabilityLevelNone {
			return do(level, s.opts.KVTimeout)
		}
		result, err := do(level, s.opts.DurableTimeout)
		if s.opts.Durability == Auto && errors.Is(err, gocb.ErrFeatureNotAvailable) {
			// gocb knows what the cluster can do: nothing was sent.
			return do(gocb.DurabilityLevelNone, s.opts.KVTimeout)
		}
		return result, err
	})
	switch {
	case errors.Is(err, errNotBegun):
		return 0, err
	case err != nil:
		return 0, writeFailed(err)
	}
	return store.CAS(result.Cas()), nil
}

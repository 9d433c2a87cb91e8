package sqlite

import (
	"context"
	"errors"
	"fmt"

	"klatch/proto"
	"klatch/store"
)

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key proto.Key) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	var rec store.Record
	err := s.read(ctx, func(r *reader) error {
		r.key = append(key.AppendPrefix(r.key[:0]), key.ID...)
		found := false
		var err error
		rec, found, err = r.record(s.opts.Now().UnixMilli())
		if err == nil && !found {
			return store.ErrNotFound
		}
		return err
	})
	s.counters.gets.Add(1)
	if err != nil {
		return store.Record{}, fmt.Errorf("get %s: %w", key, err)
	}
	return rec, nil
}

// Put implements store.Store. Every write is durable on this machine, so PutOptions.Durable asks nothing more.
func (s *Store) Put(ctx context.Context, key proto.Key, value []byte, opts store.PutOptions) (store.CAS, error) {
	if err := store.CheckPut(key, value, opts); err != nil {
		return 0, err
	}
	w := s.newWrite(verbPut, key, opts.CAS)
	w.ttl = opts.TTL
	w.value = append(w.value, value...)
	cas, err := s.submit(ctx, w)
	if err != nil {
		return 0, fmt.Errorf("put %s: %w", key, err)
	}
	return cas, nil
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key proto.Key, cas store.CAS) error {
	if err := store.CheckDelete(key, cas); err != nil {
		return err
	}
	if _, err := s.submit(ctx, s.newWrite(verbDelete, key, cas)); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// List implements store.Lister, in the order of the keys. Each page of it is read at once; a record that
// is written meanwhile may be visited as it was before or after.
func (s *Store) List(ctx context.Context, prefix proto.Key, visit func(proto.Key, store.Record) error) error {
	if prefix.Tenant == "" || prefix.Kind == 0 {
		return fmt.Errorf("%w: list %s: the prefix lacks a tenant or a kind", store.ErrInvalid, prefix)
	}
	idAt := len(prefix.AppendPrefix(nil))
	from := prefix.Wire()
	to := successor(from)
	for more := true; more; {
		var page []listed
		err := s.read(ctx, func(r *reader) (err error) {
			page, more, err = r.recordsFrom(from, to, s.opts.Now().UnixMilli())
			return err
		})
		if err != nil {
			return fmt.Errorf("list %s: %w", prefix, err)
		}
		for _, l := range page {
			// No connection is held here: visit may use the store.
			key := proto.Key{Tenant: prefix.Tenant, Kind: prefix.Kind, ID: l.wire[idAt:]}
			if err := visit(key, l.record); err != nil {
				return err
			}
			from = l.wire + "\x00" // the least string above it
		}
	}
	return nil
}

// successor returns the least string above all that begin with prefix. A key's prefix holds a slash, so
// there is one.
func successor(prefix string) string {
	last := len(prefix) - 1
	for prefix[last] == 0xff {
		last--
	}
	return prefix[:last] + string([]byte{prefix[last] + 1})
}

// read lends a connection to do, whose errors of SQLite become store.ErrUnavailable.
func (s *Store) read(ctx context.Context, do func(*reader) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	var r *reader
	select {
	case r = <-s.readers:
	case <-ctx.Done():
		return unavailable(ctx.Err())
	case <-s.closing:
		return errClosed
	}
	r.conn.SetInterrupt(ctx)
	err := do(r)
	r.conn.SetInterrupt(context.Background())
	s.readers <- r

	switch {
	case err == nil, errors.Is(err, store.ErrNotFound):
		return err
	case ctx.Err() != nil:
		return unavailable(ctx.Err())
	}
	return unavailable(err)
}

// usable is asked before a verb begins, because a select may choose any of its ready cases.
func (s *Store) usable(ctx context.Context) error {
	select {
	case <-s.closing:
		return errClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	return nil
}

func (s *Store) newWrite(verb verb, key proto.Key, cas store.CAS) *write {
	w := s.writes.Get().(*write)
	w.prepare(verb, cas)
	w.key = append(key.AppendPrefix(w.key), key.ID...)
	return w
}

// submit queues w and waits for its outcome. It takes w over.
func (s *Store) submit(ctx context.Context, w *write) (store.CAS, error) {
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	select {
	case s.queue <- w:
	case <-ctx.Done():
		return 0, unavailable(ctx.Err())
	case <-s.closing:
		return 0, errClosed
	}
	select {
	case <-w.done:
		return s.outcome(w)
	case <-ctx.Done():
		if w.withdraw() {
			s.counters.withdrawn.Add(1)
			return 0, fmt.Errorf("%w: %w", errWithdrawn, ctx.Err())
		}
	case <-s.stopped:
		// The writer answers all that it has claimed before it ends.
		select {
		case <-w.done:
			return s.outcome(w)
		default:
			return 0, errClosed
		}
	}
	select {
	case <-w.done:
		return s.outcome(w)
	default:
		// The writer still holds w, which is lost to the pool.
		return 0, fmt.Errorf("%w: %w", errInFlight, ctx.Err())
	}
}

// outcome reads what the writer has answered and keeps w's buffers for another write.
func (s *Store) outcome(w *write) (store.CAS, error) {
	cas, err := w.newCAS, w.err
	if cap(w.value) <= keptBytes {
		s.writes.Put(w)
	}
	return cas, err
}

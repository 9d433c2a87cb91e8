// Package memory is the driver behind memory: URLs: a store inside one process, for tests and for a node
// alone. Nothing survives Close.
package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"klatch/proto"
	"klatch/store"
)

var (
	_ store.Store  = (*Store)(nil)
	_ store.Lister = (*Store)(nil)
)

// Options configure a Store. The zero value is usable.
type Options struct {
	// Now is the clock that decides what has expired. The default is time.Now.
	Now func() time.Time
}

// Store keeps records in a map. It is safe for concurrent use.
type Store struct {
	now func() time.Time

	mu       sync.RWMutex // guards what follows
	records  map[proto.Key]*entry
	expiries expiries
	last     store.CAS // one counter for all keys, so that no key ever sees a token twice
	closed   bool
}

// entry is one record. Its value is never changed in place: a write puts a new slice.
type entry struct {
	key     proto.Key
	value   []byte
	cas     store.CAS
	expires time.Time // zero for a record that is kept forever
	index   int       // its place among the expiries, or notQueued
}

func (e *entry) live(now time.Time) bool { return e.expires.IsZero() || e.expires.After(now) }

// New returns an empty store.
func New(opts Options) *Store {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Store{now: opts.Now, records: map[proto.Key]*entry{}}
}

// Close drops all records. From then on every verb fails with store.ErrUnavailable.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.records, s.expiries = true, nil, nil
	return nil
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key proto.Key) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return store.Record{}, fmt.Errorf("get %s: %w", key, err)
	}
	e := s.find(key)
	if e == nil {
		return store.Record{}, fmt.Errorf("get %s: %w", key, store.ErrNotFound)
	}
	return e.record(), nil
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key proto.Key, value []byte, opts store.PutOptions) (store.CAS, error) {
	if err := store.CheckPut(key, value, opts); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, fmt.Errorf("put %s: %w", key, err)
	}
	now := s.now()
	s.collect(now)
	e := s.find(key)
	switch {
	case opts.CAS == store.Any:
	case opts.CAS == store.Absent:
		if e != nil {
			return 0, fmt.Errorf("put %s: %w: a record exists", key, store.ErrConflict)
		}
	case e == nil:
		return 0, fmt.Errorf("put %s: %w", key, store.ErrNotFound)
	case e.cas != opts.CAS:
		return 0, fmt.Errorf("put %s: %w", key, store.ErrConflict)
	}

	if e == nil {
		e = s.records[key] // an expired record that nobody has collected yet is written over
	}
	if e == nil {
		// The caller's strings may be parts of a much larger buffer.
		e = &entry{key: proto.Key{Tenant: strings.Clone(key.Tenant), Kind: key.Kind, ID: strings.Clone(key.ID)}, index: notQueued}
		s.records[e.key] = e
	}
	s.last++
	e.value, e.cas, e.expires = slices.Clone(value), s.last, time.Time{}
	if opts.TTL != store.Forever {
		e.expires = now.Add(opts.TTL)
	}
	s.expiries.set(e)
	return e.cas, nil
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key proto.Key, cas store.CAS) error {
	if err := store.CheckDelete(key, cas); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	s.collect(s.now())
	e := s.find(key)
	switch {
	case e == nil:
		return fmt.Errorf("delete %s: %w", key, store.ErrNotFound)
	case cas != store.Any && cas != e.cas:
		return fmt.Errorf("delete %s: %w", key, store.ErrConflict)
	}
	s.remove(e)
	return nil
}

// List implements store.Lister. It visits the records as they were when it began.
func (s *Store) List(ctx context.Context, prefix proto.Key, visit func(proto.Key, store.Record) error) error {
	if prefix.Tenant == "" || prefix.Kind == 0 {
		return fmt.Errorf("%w: list %s: the prefix lacks a tenant or a kind", store.ErrInvalid, prefix)
	}
	found, err := s.matches(ctx, prefix)
	if err != nil {
		return fmt.Errorf("list %s: %w", prefix, err)
	}
	for _, e := range found {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("list %s: %w: %w", prefix, store.ErrUnavailable, err)
		}
		if err := visit(e.key, e.record()); err != nil {
			return err
		}
	}
	return nil
}

// matches copies the live entries under prefix, so that visiting them holds no lock.
func (s *Store) matches(ctx context.Context, prefix proto.Key) ([]entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	now := s.now()
	var found []entry
	for key, e := range s.records {
		if key.Tenant == prefix.Tenant && key.Kind == prefix.Kind && strings.HasPrefix(key.ID, prefix.ID) && e.live(now) {
			found = append(found, *e)
		}
	}
	return found, nil
}

// usable says whether a verb may begin. The caller holds mu.
func (s *Store) usable(ctx context.Context) error {
	if s.closed {
		return fmt.Errorf("%w: closed", store.ErrUnavailable)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return nil
}

// find returns the live entry of key or nil. The caller holds mu.
func (s *Store) find(key proto.Key) *entry {
	if e := s.records[key]; e != nil && e.live(s.now()) {
		return e
	}
	return nil
}

func (e *entry) record() store.Record {
	// Never nil, so that an empty value looks the same from every driver.
	return store.Record{Value: append(make([]byte, 0, len(e.value)), e.value...), CAS: e.cas}
}

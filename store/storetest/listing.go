package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"klatch/proto"
	"klatch/store"
)

// ids lists under a prefix of ids and returns what was found, sorted.
func (s *suite) ids(lister store.Lister, kind proto.Kind, prefix string) []string {
	s.Helper()
	found := map[string]store.Record{}
	err := lister.List(s.ctx, proto.Key{Tenant: s.tenant, Kind: kind, ID: prefix}, func(key proto.Key, rec store.Record) error {
		if key.Tenant != s.tenant || key.Kind != kind {
			s.Errorf("listed the key %s, which is not under the prefix", key)
		}
		if _, twice := found[key.ID]; twice {
			s.Errorf("%q was visited twice", key.ID)
		}
		found[key.ID] = rec
		return nil
	})
	if err != nil {
		s.Fatalf("list: %v", err)
	}
	for id, rec := range found {
		s.wants(proto.Key{Tenant: s.tenant, Kind: kind, ID: id}, string(rec.Value), rec.CAS)
	}
	return slices.Sorted(maps.Keys(found))
}

func (s *suite) list() {
	lister := s.store.(store.Lister)
	for _, id := range []string{"a", "a/1", "a/2", "a%", "a0", "b", "ü", "ü1", "\U0010ffff", "\U0010ffff1"} {
		s.put(proto.Key{Tenant: s.tenant, Kind: proto.KindDocument, ID: id}, "value of "+id, hourly(store.Any))
	}
	s.put(proto.Key{Tenant: s.tenant, Kind: proto.KindSession, ID: "a"}, "", hourly(store.Any))
	s.put(proto.Key{Tenant: s.tenant + "0", Kind: proto.KindDocument, ID: "a"}, "other", hourly(store.Any))
	gone := s.key("a/gone")
	s.put(gone, "v", store.PutOptions{TTL: 20 * time.Millisecond})
	s.gone(gone, 20*time.Millisecond)
	deleted := s.key("a/deleted")
	s.put(deleted, "v", hourly(store.Any))
	s.remove(deleted, store.Any)

	for prefix, want := range map[string][]string{
		"":           {"a", "a%", "a/1", "a/2", "a0", "b", "ü", "ü1", "\U0010ffff", "\U0010ffff1"},
		"a":          {"a", "a%", "a/1", "a/2", "a0"},
		"a/":         {"a/1", "a/2"},
		"a%":         {"a%"},
		"ü":          {"ü", "ü1"},
		"\U0010ffff": {"\U0010ffff", "\U0010ffff1"},
		"none":       nil,
	} {
		if got := s.ids(lister, proto.KindDocument, prefix); !slices.Equal(got, want) {
			s.Errorf("under %q: %q, want %q", prefix, got, want)
		}
	}
	if got := s.ids(lister, proto.KindSession, ""); !slices.Equal(got, []string{"a"}) {
		s.Errorf("sessions: %q", got)
	}

	stop := errors.New("enough")
	visits := 0
	err := lister.List(s.ctx, proto.Key{Tenant: s.tenant, Kind: proto.KindDocument}, func(proto.Key, store.Record) error {
		visits++
		return stop
	})
	if !errors.Is(err, stop) || visits != 1 {
		s.Errorf("after %d visits: error %v, want that of the first visit", visits, err)
	}
	for _, prefix := range []proto.Key{{Kind: proto.KindDocument}, {Tenant: s.tenant}} {
		err := lister.List(s.ctx, prefix, func(proto.Key, store.Record) error { return nil })
		s.wantsError(err, store.ErrInvalid)
	}
}

// listWhileWriting checks that visits may use the store, many at once, and that what is there all along
// is always listed.
func (s *suite) listWhileWriting() {
	lister := s.store.(store.Lister)
	n := 1000
	if testing.Short() {
		n = 300
	}
	var running sync.WaitGroup
	for w := range 8 {
		running.Go(func() {
			for i := w; i < n; i += 8 {
				if _, err := s.store.Put(s.ctx, s.key(fmt.Sprintf("steady %04d", i)), []byte("v"), hourly(store.Any)); err != nil {
					s.Error(err)
				}
			}
		})
	}
	running.Wait()
	for w := range 8 {
		running.Go(func() {
			visits := 0
			err := lister.List(s.ctx, s.key("steady"), func(key proto.Key, rec store.Record) error {
				visits++
				if visits%100 == w {
					if _, err := s.store.Put(s.ctx, key, []byte("w"), hourly(store.Any)); err != nil {
						return err
					}
				}
				_, err := s.store.Get(s.ctx, key)
				return err
			})
			if err != nil || visits != n {
				s.Errorf("%d of %d records were visited: %v", visits, n, err)
			}
		})
	}
	running.Wait()
}

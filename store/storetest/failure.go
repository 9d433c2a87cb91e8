package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"klatch/proto"
	"klatch/store"
)

func (s *suite) cancelledContext() {
	key := s.key("k")
	cas := s.put(key, "v", hourly(store.Absent))
	cancelled, cancel := context.WithCancel(s.ctx)
	cancel()
	past, cancelPast := context.WithDeadline(s.ctx, time.Unix(1, 0))
	defer cancelPast()
	for ctx, cause := range map[context.Context]error{cancelled: context.Canceled, past: context.DeadlineExceeded} {
		check := func(verb string, err error) {
			s.Helper()
			s.wantsError(err, store.ErrUnavailable)
			if !errors.Is(err, cause) {
				s.Errorf("%s: error %v does not wrap %q", verb, err, cause)
			}
		}
		_, err := s.store.Get(ctx, key)
		check("get", err)
		_, err = s.store.Put(ctx, key, []byte("w"), hourly(store.Any))
		check("put", err)
		check("delete", s.store.Delete(ctx, key, store.Any))
		if lister, ok := s.store.(store.Lister); ok {
			check("list", lister.List(ctx, proto.Key{Tenant: s.tenant, Kind: key.Kind}, func(proto.Key, store.Record) error { return nil }))
		}
	}
	s.wants(key, "v", cas)
}

// attempt is a write whose context ended at a bad moment.
type attempt struct {
	key   proto.Key
	base  store.CAS
	token store.CAS
	err   error
}

// outcomesAreTrue lets contexts end at all moments of a write and checks what the writes answered against
// what the store holds.
func (s *suite) outcomesAreTrue() {
	const workers, each = 16, 40
	attempts := make([][]attempt, workers)
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for i := range each {
				a := attempt{key: s.key(fmt.Sprint(w, " ", i))}
				if a.base, a.err = s.store.Put(s.ctx, a.key, []byte("before"), hourly(store.Absent)); a.err != nil {
					s.Error(a.err)
					return
				}
				ctx, cancel := context.WithTimeout(s.ctx, time.Duration(random.Int64N(int64(2*time.Millisecond))))
				a.token, a.err = s.store.Put(ctx, a.key, []byte("after"), hourly(a.base))
				cancel()
				attempts[w] = append(attempts[w], a)
			}
		})
	}
	running.Wait()

	count := map[string]int{}
	for _, byWorker := range attempts {
		for _, a := range byWorker {
			switch {
			case a.err == nil:
				count["applied"]++
				s.wants(a.key, "after", a.token)
			case errors.Is(a.err, store.ErrUnavailable):
				count["unavailable"]++
				s.wantsError(a.err, store.ErrUnavailable)
				s.wants(a.key, "before", a.base)
			default:
				count["ambiguous"]++
				s.wantsError(a.err, store.ErrAmbiguous)
				s.settles(a)
			}
		}
	}
	s.Logf("outcomes: %v", count)
}

// settles checks that an ambiguous write was applied or not, and nothing else.
func (s *suite) settles(a attempt) {
	s.Helper()
	rec, err := s.store.Get(s.ctx, a.key)
	if err != nil {
		s.Fatal(err)
	}
	before := string(rec.Value) == "before" && rec.CAS == a.base
	after := string(rec.Value) == "after" && rec.CAS != a.base
	if !before && !after {
		s.Errorf("after an ambiguous write the store holds %+v, which is neither revision", rec)
	}
}

func (s *suite) closed() {
	key := s.key("k")
	s.put(key, "v", hourly(store.Absent))
	closer := s.closer()
	if err := closer.Close(); err != nil {
		s.Fatalf("close: %v", err)
	}
	_, err := s.store.Get(s.ctx, key)
	s.wantsError(err, store.ErrUnavailable)
	_, err = s.store.Put(s.ctx, key, []byte("w"), hourly(store.Any))
	s.wantsError(err, store.ErrUnavailable)
	s.wantsError(s.store.Delete(s.ctx, key, store.Any), store.ErrUnavailable)
	if lister, ok := s.store.(store.Lister); ok {
		err := lister.List(s.ctx, proto.Key{Tenant: s.tenant, Kind: key.Kind}, func(proto.Key, store.Record) error { return nil })
		s.wantsError(err, store.ErrUnavailable)
	}
	if err := closer.Close(); err != nil {
		s.Errorf("a second close: %v", err)
	}
}

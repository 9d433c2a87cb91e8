package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"klatch/store"
)

const contenders = 32

func rounds() int {
	if testing.Short() {
		return 3
	}
	return 25
}

// compete runs act in many goroutines at once and returns how many succeeded. Every other must be refused
// with the loser's error.
func (s *suite) compete(loses error, act func(contender int) error) int {
	s.Helper()
	var start, running sync.WaitGroup
	var winners atomic.Int64
	start.Add(1)
	for i := range contenders {
		running.Go(func() {
			start.Wait()
			switch err := act(i); {
			case err == nil:
				winners.Add(1)
			case !errors.Is(err, loses):
				s.Errorf("contender %d: error %v, want %q", i, err, loses)
			}
		})
	}
	start.Done()
	running.Wait()
	return int(winners.Load())
}

func (s *suite) oneWinnerByCAS() {
	key := s.key("k")
	cas := s.put(key, "start", hourly(store.Absent))
	for round := range rounds() {
		var tokens [contenders]store.CAS
		winners := s.compete(store.ErrConflict, func(i int) (err error) {
			tokens[i], err = s.store.Put(s.ctx, key, []byte(strconv.Itoa(i)), hourly(cas))
			return err
		})
		if winners != 1 {
			s.Fatalf("round %d: %d writers replaced the same revision", round, winners)
		}
		for i, token := range tokens {
			if token != 0 {
				s.wants(key, strconv.Itoa(i), token)
				cas = token
			}
		}
	}
}

func (s *suite) oneWinnerByAbsent() {
	for round := range rounds() {
		key := s.key(fmt.Sprint("round ", round))
		winners := s.compete(store.ErrConflict, func(i int) error {
			_, err := s.store.Put(s.ctx, key, []byte(strconv.Itoa(i)), hourly(store.Absent))
			return err
		})
		if winners != 1 {
			s.Fatalf("round %d: %d writers created the same record", round, winners)
		}
	}
}

func (s *suite) oneDeleter() {
	key := s.key("k")
	for round := range rounds() {
		cas := s.put(key, "v", hourly(store.Absent))
		winners := s.compete(store.ErrNotFound, func(i int) error {
			if i%2 == 0 {
				return s.store.Delete(s.ctx, key, store.Any)
			}
			return s.store.Delete(s.ctx, key, cas)
		})
		if winners != 1 {
			s.Fatalf("round %d: %d callers deleted the same record", round, winners)
		}
		s.wantsNothing(key)
	}
}

// increments checks that no update is lost: every increment is made from what was read.
func (s *suite) increments() {
	key := s.key("k")
	s.put(key, "0", hourly(store.Absent))
	const writers, each = 8, 20
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for range each {
				if err := s.increment(key.ID); err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	rec, err := s.store.Get(s.ctx, key)
	if err != nil {
		s.Fatal(err)
	}
	if want := strconv.Itoa(writers * each); string(rec.Value) != want {
		s.Errorf("the sum is %s, want %s", rec.Value, want)
	}
}

func (s *suite) increment(id string) error {
	for {
		rec, err := s.store.Get(s.ctx, s.key(id))
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(rec.Value))
		if err != nil {
			return err
		}
		_, err = s.store.Put(s.ctx, s.key(id), []byte(strconv.Itoa(n+1)), hourly(rec.CAS))
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

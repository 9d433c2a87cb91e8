package observe

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"klatch/proto"
	"klatch/store"
	"klatch/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broken is a real store that can be out of reach.
type broken struct {
	*memory.Store
	out  atomic.Bool
	asks atomic.Int64
}

func (b *broken) Get(ctx context.Context, key proto.Key) (store.Record, error) {
	b.asks.Add(1)
	if b.out.Load() {
		return store.Record{}, fmt.Errorf("%w: test", store.ErrUnavailable)
	}
	return b.Store.Get(ctx, key)
}

var key = proto.NewKey("t", proto.KindSession, "a")

func observed(t *testing.T, test func(t *testing.T, backing *broken, s *Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		backing := &broken{Store: memory.New(memory.Options{})}
		s := New(Options{Store: backing, Probe: proto.NewKey("t", proto.KindNode, "probe")})
		defer s.Close()
		test(t, backing, s)
	})
}

func TestAStoreIsDownUntilItsFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backing := &broken{Store: memory.New(memory.Options{})}
		backing.out.Store(true)
		s := New(Options{Store: backing, Probe: key})
		defer s.Close()
		time.Sleep(5 * time.Second)
		if !s.Down() {
			t.Error("it is up before it has answered")
		}
		backing.out.Store(false)
		begin := time.Now()
		<-s.Up()
		if took := time.Since(begin); took > 250*time.Millisecond || s.Down() {
			t.Errorf("it was noticed after %s", took)
		}
	})
}

func TestAnIdleStoreThatFallsSilentIsNoticedWithinTheInterval(t *testing.T) {
	observed(t, func(t *testing.T, backing *broken, s *Store) {
		synctest.Wait()
		backing.out.Store(true)
		time.Sleep(2*time.Second + time.Millisecond)
		if !s.Down() {
			t.Error("it is still up after two seconds")
		}
	})
}

func TestManyFailuresRaiseFewQuestions(t *testing.T) {
	observed(t, func(t *testing.T, backing *broken, s *Store) {
		synctest.Wait()
		backing.out.Store(true)
		asks, own := backing.asks.Load(), int64(0)
		for range 1000 {
			_, _ = s.Get(t.Context(), key)
			own++
			time.Sleep(time.Millisecond)
		}
		if n := backing.asks.Load() - asks - own; n > 5 {
			t.Errorf("%d questions in a second", n)
		}
	})
}

func TestAFailedOperationRaisesTheQuestionSoon(t *testing.T) {
	observed(t, func(t *testing.T, backing *broken, s *Store) {
		synctest.Wait()
		backing.out.Store(true)
		if _, err := s.Get(t.Context(), key); err == nil {
			t.Fatal("no error")
		}
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if !s.Down() {
			t.Error("it is still up")
		}
	})
}

func TestAnOperationThatAnswersTellsByItself(t *testing.T) {
	observed(t, func(t *testing.T, backing *broken, s *Store) {
		synctest.Wait()
		asks := backing.asks.Load()
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if _, err := s.Put(t.Context(), key, nil, store.PutOptions{TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		if n := backing.asks.Load() - asks; n > 0 {
			t.Errorf("a busy store was asked %d times", n)
		}
	})
}

func TestCounts(t *testing.T) {
	observed(t, func(t *testing.T, backing *broken, s *Store) {
		cas, _ := s.Put(t.Context(), key, nil, store.PutOptions{TTL: time.Hour, CAS: store.Absent})
		_, _ = s.Put(t.Context(), key, nil, store.PutOptions{TTL: time.Hour, CAS: store.Absent})
		_, _ = s.Put(t.Context(), key, nil, store.PutOptions{})
		_, _ = s.Get(t.Context(), key)
		_ = s.Delete(t.Context(), key, cas)
		_, _ = s.Get(t.Context(), key)
		backing.out.Store(true)
		_, _ = s.Get(t.Context(), key)
		want := map[string]uint64{"put ok": 1, "put conflict": 1, "put refused": 1, "get ok": 1, "delete ok": 1, "get not_found": 1, "get unavailable": 1}
		for _, c := range s.Counts() {
			if c.N != want[c.Verb+" "+c.Outcome] {
				t.Errorf("%s %s: %d, want %d", c.Verb, c.Outcome, c.N, want[c.Verb+" "+c.Outcome])
			}
		}
	})
}

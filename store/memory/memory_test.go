package memory_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"klatch/proto"
	"klatch/store"
	"klatch/store/memory"
	"klatch/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is time that the test moves.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.nanos.Store(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) Now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *clock) Advance(d time.Duration) { c.nanos.Add(int64(d)) }

func open(t *testing.T, opts memory.Options) *memory.Store {
	s := memory.New(opts)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	c := newClock()
	storetest.Run(t, storetest.Harness{
		Open:    func(t *testing.T) store.Store { return open(t, memory.Options{Now: c.Now}) },
		Advance: c.Advance,
	})
}

func TestConformanceByTheWallClock(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) store.Store { return open(t, memory.Options{}) },
	})
}

func TestExpiredRecordsAreCollectedByWrites(t *testing.T) {
	c := newClock()
	s := open(t, memory.Options{Now: c.Now})
	put := func(id string, ttl time.Duration, size int) {
		t.Helper()
		if _, err := s.Put(context.Background(), proto.NewKey("t", proto.KindSession, id), make([]byte, size), store.PutOptions{TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	const records, size = 200, 1 << 16
	before := heap()
	for i := range records {
		put(fmt.Sprint("old ", i), time.Duration(i+1)*time.Second, size)
		put("rewritten", time.Minute, size) // must not add to what waits to expire
	}
	c.Advance(time.Hour)
	for i := range records / 2 {
		put(fmt.Sprint("new ", i), store.Forever, 1)
	}
	if after := heap(); after > before+records*size/2 {
		t.Errorf("the heap grew from %d to %d bytes although all large records have expired", before, after)
	}
	runtime.KeepAlive(s)
}

func ExampleNew() {
	s := memory.New(memory.Options{})
	defer s.Close()

	ctx := context.Background()
	key := proto.NewKey("default", proto.KindDocument, "greeting")
	cas, err := s.Put(ctx, key, []byte("hello"), store.PutOptions{CAS: store.Absent, TTL: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := s.Put(ctx, key, []byte("good day"), store.PutOptions{CAS: cas, TTL: time.Hour}); err != nil {
		fmt.Println(err)
		return
	}
	rec, err := s.Get(ctx, key)
	fmt.Println(string(rec.Value), err)
	// Output: good day <nil>
}

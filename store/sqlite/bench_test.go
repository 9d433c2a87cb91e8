package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"klatch/proto"
	"klatch/store"
	"klatch/store/sqlite"
)

const (
	benchRecords    = 16 << 10
	benchValueBytes = 500
)

// filled returns a store of many sessions and the tokens of their first revisions.
func filled(b *testing.B) (*sqlite.Store, []proto.Key, []store.CAS) {
	b.Helper()
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(b.TempDir(), "bench.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	keys, tokens := make([]proto.Key, benchRecords), make([]store.CAS, benchRecords)
	var writers sync.WaitGroup
	for w := range 64 {
		writers.Go(func() {
			value := make([]byte, benchValueBytes)
			for i := w; i < benchRecords; i += 64 {
				keys[i] = proto.NewKey("default", proto.KindSession, fmt.Sprintf("%08x-0123456789abcdefghi", i*2654435761))
				var err error
				if tokens[i], err = s.Put(context.Background(), keys[i], value, store.PutOptions{CAS: store.Absent, TTL: time.Hour}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	return s, keys, tokens
}

// BenchmarkPut64Writers saves sessions as 64 request handlers do: each save is durable and replaces the
// revision it was made from.
func BenchmarkPut64Writers(b *testing.B) {
	const writers = 64
	s, keys, tokens := filled(b)
	before := s.Stats()
	b.ReportAllocs()
	b.ResetTimer()
	var done atomic.Int64
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			value := make([]byte, benchValueBytes)
			for n := w; done.Add(1) <= int64(b.N); n++ {
				// Each writer has its own records, and no two visit neighbours at the same time.
				i := (n*(2*w+1)%(benchRecords/writers))*writers + w
				cas, err := s.Put(context.Background(), keys[i], value, store.PutOptions{CAS: tokens[i], TTL: time.Hour})
				if err != nil {
					b.Error(err)
					return
				}
				tokens[i] = cas
			}
		})
	}
	running.Wait()
	b.StopTimer()
	after := s.Stats()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
	b.ReportMetric(float64(after.Puts-before.Puts)/float64(after.Transactions-before.Transactions), "puts/commit")
}

// BenchmarkPut saves one session after the other: the price of a commit that nobody shares.
func BenchmarkPut(b *testing.B) {
	s, keys, tokens := filled(b)
	value := make([]byte, benchValueBytes)
	b.ReportAllocs()
	for i := 0; b.Loop(); i = (i + 1) % benchRecords {
		cas, err := s.Put(context.Background(), keys[i], value, store.PutOptions{CAS: tokens[i], TTL: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		tokens[i] = cas
	}
}

// BenchmarkGet reads sessions from all processors at once.
func BenchmarkGet(b *testing.B) {
	s, keys, _ := filled(b)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i = (i + 257) % benchRecords {
			if _, err := s.Get(context.Background(), keys[i]); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "gets/s")
}

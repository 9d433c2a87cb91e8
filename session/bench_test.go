package session

import (
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"klatch/store"
	"klatch/store/memory"
	"klatch/store/sqlite"
)

func BenchmarkLoadFromNearCache(b *testing.B) {
	m := benchManager(b, memory.New(memory.Options{}))
	tokens := make([]Token, 1000)
	for i := range tokens {
		tokens[i] = benchSession(b, m).Token()
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			token := &tokens[i%len(tokens)]
			if _, err := m.Load(b.Context(), token.ID, LoadOptions{After: token.Version}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "loads/s")
}

// Each of 64 writers changes one attribute of a session of its own; every save is synced to the disk.
func BenchmarkDurableUpdate64Writers(b *testing.B) {
	disk, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "klatch.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer disk.Close()
	m := benchManager(b, disk)
	sessions := make([]*Session, 64)
	for i := range sessions {
		sessions[i] = benchSession(b, m)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var done atomic.Int64
	var writers sync.WaitGroup
	for _, s := range sessions {
		writers.Go(func() {
			for n := done.Add(1); n <= int64(b.N); n = done.Add(1) {
				s.Set("x", Bytes([]byte(strconv.FormatInt(n, 10))))
				if err := m.Commit(b.Context(), s, CommitOptions{}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
}

func benchManager(b *testing.B, s store.Store) *Manager {
	b.Helper()
	m, err := New(Options{Store: s, News: line{nodes: &nodes{}}, Node: "n1", Writer: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.Close() })
	return m
}

func benchSession(b *testing.B, m *Manager) *Session {
	b.Helper()
	s, err := m.Create(b.Context(), Draft{Attributes: map[string]Value{"x": Bytes(nil), "y": Bytes(make([]byte, 400))}})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

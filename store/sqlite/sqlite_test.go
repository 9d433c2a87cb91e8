package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"go.uber.org/goleak"

	"klatch/proto"
	"klatch/store"
	"klatch/store/sqlite"
	"klatch/store/storetest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
	goleak.VerifyTestMain(m)
}

// clock is time that the test moves.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.nanos.Store(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) Now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *clock) Advance(d time.Duration) { c.nanos.Add(int64(d)) }

func open(t *testing.T, opts sqlite.Options) *sqlite.Store {
	t.Helper()
	if opts.Path == "" {
		opts.Path = filepath.Join(t.TempDir(), "klatch.db")
	}
	s, err := sqlite.Open(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t *testing.T, s *sqlite.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func key(id string) proto.Key { return proto.NewKey("t", proto.KindSession, id) }

func put(t *testing.T, s *sqlite.Store, id, value string, opts store.PutOptions) store.CAS {
	t.Helper()
	if opts.TTL == 0 {
		opts.TTL = time.Hour
	}
	cas, err := s.Put(context.Background(), key(id), []byte(value), opts)
	if err != nil {
		t.Fatal(err)
	}
	return cas
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !check(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestConformance(t *testing.T) {
	c := newClock()
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) store.Store {
			return open(t, sqlite.Options{Now: c.Now, SweepInterval: 10 * time.Millisecond})
		},
		Advance: c.Advance,
	})
}

func TestConformanceByTheWallClock(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) store.Store { return open(t, sqlite.Options{Synchronous: sqlite.Normal, Readers: 1}) },
	})
}

func TestRecordsAndTokensSurviveReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "er", "klatch.db")
	c := newClock()
	first := open(t, sqlite.Options{Path: path, Now: c.Now})
	kept := put(t, first, "kept", "v", store.PutOptions{TTL: 400 * 24 * time.Hour})
	put(t, first, "short", "v", store.PutOptions{TTL: time.Second})
	last := put(t, first, "deleted", "v", store.PutOptions{})
	if err := first.Delete(context.Background(), key("deleted"), last); err != nil {
		t.Fatal(err)
	}
	closeStore(t, first)

	c.Advance(time.Minute)
	second := open(t, sqlite.Options{Path: path, Now: c.Now})
	if rec, err := second.Get(context.Background(), key("kept")); err != nil || rec.CAS != kept || string(rec.Value) != "v" {
		t.Errorf("after reopening: %+v, %v", rec, err)
	}
	if _, err := second.Get(context.Background(), key("short")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an expired record after reopening: %v", err)
	}
	if cas := put(t, second, "deleted", "v", store.PutOptions{CAS: store.Absent}); cas <= last {
		t.Errorf("after reopening the CAS is %d, the last one was %d", cas, last)
	}
}

func TestClosingLeavesOneFileOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, sqlite.Options{Path: filepath.Join(dir, "klatch.db")})
	put(t, s, "k", "v", store.PutOptions{})
	for _, name := range []string{"klatch.db", "klatch.db-wal", "klatch.db-shm"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v: sessions are for the owner alone", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
	closeStore(t, s)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "klatch.db" {
		t.Errorf("closing left %v, %v", left, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	edit := func(name, sql string) {
		t.Helper()
		c, err := sqlite3.Open(path(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Exec(sql), c.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path("text"), []byte("this is a text of some length, and no database at all\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	edit("foreign.db", "CREATE TABLE t (x)")
	closeStore(t, open(t, sqlite.Options{Path: path("newer.db")}))
	edit("newer.db", "PRAGMA user_version = 1000")

	for name, test := range map[string]struct {
		opts sqlite.Options
		want error
	}{
		"no path":                       {sqlite.Options{}, store.ErrInvalid},
		"an unknown synchronous":        {sqlite.Options{Path: path("x.db"), Synchronous: "off"}, store.ErrInvalid},
		"a negative number":             {sqlite.Options{Path: path("x.db"), Readers: -1}, store.ErrInvalid},
		"a text file":                   {sqlite.Options{Path: path("text")}, sqlite.ErrForeignFile},
		"a database of another program": {sqlite.Options{Path: path("foreign.db")}, sqlite.ErrForeignFile},
		"a newer schema":                {sqlite.Options{Path: path("newer.db")}, store.ErrSchema},
		"a directory that is a file":    {sqlite.Options{Path: path("text/klatch.db")}, sqlite.ErrNoAccess},
		"a file that is a directory":    {sqlite.Options{Path: dir}, sqlite.ErrNoAccess},
		"a place for no files":          {sqlite.Options{Path: "/proc/klatch.db"}, sqlite.ErrNoAccess},
	} {
		s, err := sqlite.Open(context.Background(), test.opts)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if err == nil {
			closeStore(t, s)
			continue
		}
		t.Log(err)
	}
	if _, err := os.Stat(path("text-wal")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a refused file was given a log")
	}
}

func TestOpenHonoursTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if s, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(t.TempDir(), "klatch.db")}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
		closeStore(t, s)
	}
}

func TestSweeperDeletesExpiredRecords(t *testing.T) {
	c := newClock()
	s := open(t, sqlite.Options{Now: c.Now, SweepInterval: 2 * time.Millisecond})
	const expiring = 1000
	var writers sync.WaitGroup
	for w := range 10 {
		writers.Go(func() {
			for i := w; i < expiring; i += 10 {
				ttl := time.Minute
				if i%4 == 0 {
					ttl = store.Forever
				}
				if _, err := s.Put(context.Background(), key(fmt.Sprint(i)), []byte("v"), store.PutOptions{TTL: ttl}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	c.Advance(59 * time.Second)
	earlier := s.Stats().Sweeps
	eventually(t, "a whole sweep", func() bool { return s.Stats().Sweeps > earlier+1 })
	if swept := s.Stats().Swept; swept != 0 {
		t.Fatalf("%d live records were swept", swept)
	}
	c.Advance(time.Second)
	eventually(t, "all expired records are swept", func() bool { return s.Stats().Swept == expiring*3/4 })
	left := 0
	err := s.List(context.Background(), proto.Key{Tenant: "t", Kind: proto.KindSession}, func(proto.Key, store.Record) error {
		left++
		return nil
	})
	if err != nil || left != expiring/4 {
		t.Errorf("%d records are left, want %d: %v", left, expiring/4, err)
	}
}

func TestConcurrentWritesShareCommits(t *testing.T) {
	s := open(t, sqlite.Options{})
	const writers, each = 64, 20
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			cas := store.Absent
			for range each {
				var err error
				cas, err = s.Put(context.Background(), key(fmt.Sprint(w)), []byte("v"), store.PutOptions{CAS: cas, TTL: time.Hour})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	stats := s.Stats()
	if stats.Puts != writers*each || stats.Transactions > stats.Puts/4 {
		t.Errorf("%d puts took %d transactions", stats.Puts, stats.Transactions)
	}
}

func TestRefusedWritesDoNotWaitForTheDisk(t *testing.T) {
	s := open(t, sqlite.Options{})
	put(t, s, "k", "v", store.PutOptions{})
	before := s.Stats().Transactions
	for range 10 {
		if _, err := s.Put(context.Background(), key("k"), nil, store.PutOptions{CAS: store.Absent, TTL: time.Hour}); !errors.Is(err, store.ErrConflict) {
			t.Fatal(err)
		}
	}
	if stats := s.Stats(); stats.Transactions != before || stats.Refused != 10 {
		t.Errorf("10 refused writes took %d transactions: %+v", stats.Transactions-before, stats)
	}
}

// locked holds the write lock of a file as another process would, until it is released.
func locked(t *testing.T, path string) (release func()) {
	t.Helper()
	c, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if err := errors.Join(c.Exec("ROLLBACK"), c.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestBusyFileIsWaitedForUpToABound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "klatch.db")
	s := open(t, sqlite.Options{Path: path, BusyTimeout: 30 * time.Millisecond})
	cas := put(t, s, "k", "v", store.PutOptions{})
	release := locked(t, path)
	defer release()

	if _, err := s.Put(context.Background(), key("k"), []byte("w"), store.PutOptions{TTL: time.Hour}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("while the file was held: error %v", err)
	}
	if rec, err := s.Get(context.Background(), key("k")); err != nil || rec.CAS != cas {
		t.Errorf("reads do not wait for writers, but got %+v, %v", rec, err)
	}
	release()
	put(t, s, "k", "x", store.PutOptions{CAS: cas})
}

func TestBusyFileIsUsedOnceItIsFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "klatch.db")
	s := open(t, sqlite.Options{Path: path, BusyTimeout: time.Minute})
	release := locked(t, path)
	defer release()
	written := make(chan error, 1)
	go func() {
		_, err := s.Put(context.Background(), key("k"), []byte("v"), store.PutOptions{TTL: time.Hour})
		written <- err
	}()
	eventually(t, "the writer waits", func() bool { return s.Stats().BusyWaits > 3 })
	release()
	if err := <-written; err != nil {
		t.Error(err)
	}
}

func TestQueuedWriteIsWithdrawnWhenItsContextEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "klatch.db")
	s := open(t, sqlite.Options{Path: path, BusyTimeout: time.Minute})
	put(t, s, "k", "v", store.PutOptions{})
	release := locked(t, path)
	defer release()

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Put(ctx, key("k"), []byte("late"), store.PutOptions{TTL: time.Hour})
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	release()
	put(t, s, "other", "v", store.PutOptions{})
	if rec, err := s.Get(context.Background(), key("k")); err != nil || string(rec.Value) != "v" {
		t.Errorf("a withdrawn write left %q, %v", rec.Value, err)
	}
	if n := s.Stats().Withdrawn; n != 1 {
		t.Errorf("%d writes were withdrawn", n)
	}
}

func TestCloseDoesNotWaitForABusyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "klatch.db")
	s := open(t, sqlite.Options{Path: path, BusyTimeout: time.Hour})
	release := locked(t, path)
	defer release()
	const writes = 5
	failed := make(chan error, writes)
	for range writes {
		go func() {
			_, err := s.Put(context.Background(), key("k"), []byte("v"), store.PutOptions{TTL: time.Hour})
			failed <- err
		}()
	}
	eventually(t, "the writer waits", func() bool { return s.Stats().BusyWaits > 3 && s.Stats().Queued == writes-1 })
	closeStore(t, s)
	for range writes {
		if err := <-failed; !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
	}
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "klatch")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "klatch.db")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	key := proto.NewKey("default", proto.KindDocument, "greeting")
	_, err = s.Put(ctx, key, []byte("hello"), store.PutOptions{CAS: store.Absent, TTL: time.Hour})
	fmt.Println(err)
	_, err = s.Put(ctx, key, []byte("hello again"), store.PutOptions{CAS: store.Absent, TTL: time.Hour})
	fmt.Println(errors.Is(err, store.ErrConflict))
	// Output:
	// <nil>
	// true
}

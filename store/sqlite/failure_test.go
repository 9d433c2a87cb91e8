package sqlite

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"klatch/proto"
	"klatch/store"
)

func openInternal(t *testing.T) *Store {
	t.Helper()
	s, err := Open(context.Background(), Options{Path: filepath.Join(t.TempDir(), "klatch.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func putInternal(s *Store, id string, size int, cas store.CAS) (store.CAS, error) {
	return s.Put(context.Background(), proto.NewKey("t", proto.KindSession, id), make([]byte, size), store.PutOptions{CAS: cas, TTL: time.Hour})
}

func TestWhatAFailedCommitMeans(t *testing.T) {
	for _, test := range []struct {
		cause, want error
	}{
		{sqlite3.BUSY, store.ErrUnavailable},
		{sqlite3.BUSY_SNAPSHOT, store.ErrUnavailable},
		{sqlite3.INTERRUPT, store.ErrUnavailable},
		{sqlite3.FULL, store.ErrUnavailable},
		{sqlite3.IOERR, store.ErrAmbiguous},
		{sqlite3.IOERR_WRITE, store.ErrAmbiguous},
		{sqlite3.IOERR_FSYNC, store.ErrAmbiguous},
		{sqlite3.CORRUPT, store.ErrAmbiguous},
		{io.ErrUnexpectedEOF, store.ErrAmbiguous},
	} {
		err := commitFailed(test.cause)
		if !errors.Is(err, test.want) || !errors.Is(err, test.cause) {
			t.Errorf("%v means %v, want %q", test.cause, err, test.want)
		}
	}
}

// The writer's goroutine is idle whenever no write is queued, so a test may use its connection then.

func TestAFullFileFailsTheTransactionAndTheNextOneWorks(t *testing.T) {
	s := openInternal(t)
	first, err := putInternal(s, "small", 10, store.Absent)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.writer.tx.conn.Exec("PRAGMA max_page_count = 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := putInternal(s, "large", 1<<20, store.Absent); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, sqlite3.FULL) {
		t.Errorf("a write into a full file: %v", err)
	}
	second, err := putInternal(s, "small", 20, first)
	if err != nil || second == first {
		t.Errorf("the next write: %d, %v", second, err)
	}
	if _, err := putInternal(s, "large", 1<<20, store.Absent); err != nil {
		t.Errorf("the failed write left something: %v", err)
	}
}

func TestAFailedCommitIsAmbiguous(t *testing.T) {
	s := openInternal(t)
	if _, err := putInternal(s, "there", 10, store.Absent); err != nil {
		t.Fatal(err)
	}
	refusals := 0 // only the writer's goroutine counts
	s.writer.tx.conn.CommitHook(func() bool { refusals++; return false })
	if _, err := putInternal(s, "new", 10, store.Absent); !errors.Is(err, store.ErrAmbiguous) {
		t.Errorf("a write whose commit failed: %v", err)
	}
	if refusals != 1 {
		t.Errorf("%d commits were refused", refusals)
	}
	if _, err := putInternal(s, "new", 10, store.Absent); err != nil {
		t.Errorf("the next write, on a new connection: %v", err)
	}
	if stats := s.Stats(); stats.Failed != 1 || stats.Puts != 2 {
		t.Errorf("%+v", stats)
	}
}

func TestOneConflictDoesNotFailTheOthersOfItsTransaction(t *testing.T) {
	s := openInternal(t)
	taken, err := putInternal(s, "taken", 10, store.Absent)
	if err != nil {
		t.Fatal(err)
	}
	before := s.Stats().Transactions

	// The transaction is carried out by hand, so that all writes are in it for certain.
	var batch []*write
	for i, test := range []struct {
		id   string
		verb verb
		cas  store.CAS
		want error
	}{
		{"a", verbPut, store.Absent, nil},
		{"taken", verbPut, store.Absent, store.ErrConflict},
		{"taken", verbPut, taken + 1000, store.ErrConflict},
		{"taken", verbPut, taken, nil},
		{"taken", verbPut, taken, store.ErrConflict},
		{"none", verbDelete, store.Any, store.ErrNotFound},
		{"taken", verbDelete, taken, store.ErrConflict},
		{"a", verbDelete, store.Any, nil},
		{"a", verbPut, taken, store.ErrNotFound},
		{"b", verbPut, store.Any, nil},
	} {
		w := s.newWrite(test.verb, proto.NewKey("t", proto.KindSession, test.id), test.cas)
		w.ttl = time.Hour
		batch = append(batch, w)
		defer func() {
			if !errors.Is(w.err, test.want) {
				t.Errorf("write %d of %q: error %v, want %v", i, test.id, w.err, test.want)
			}
		}()
	}
	w := &writer{dialer: s.writer.dialer, file: s.writer.file, now: time.Now, counters: &s.counters, batch: batch}
	if err := w.begin(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.apply(), w.close()); err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Transactions - before; n != 1 {
		t.Errorf("%d transactions", n)
	}
}

func TestSuccessorIsAboveAllThatBeginWithThePrefix(t *testing.T) {
	for prefix, want := range map[string]string{"t/s/": "t/s0", "t/s/a": "t/s/b", "t/s/\xff": "t/s0", "t/s/a\xff\xff": "t/s/b"} {
		if got := successor(prefix); got != want {
			t.Errorf("successor(%q) = %q, want %q", prefix, got, want)
		}
	}
}

func TestExpiryIsNeverEarly(t *testing.T) {
	for _, test := range []struct {
		nanos int64
		ttl   time.Duration
		want  int64
	}{
		{0, time.Millisecond, 1}, {1, time.Millisecond, 2}, {999_999, time.Nanosecond, 1}, {0, time.Nanosecond, 1},
		{5_000_000, 400 * 24 * time.Hour, 5 + 400*24*3600*1000},
	} {
		if got := expiry(time.Unix(0, test.nanos), test.ttl); got != test.want {
			t.Errorf("%s after %d ns: %d ms, want %d", test.ttl, test.nanos, got, test.want)
		}
	}
}

func TestFirstCASIsAValidToken(t *testing.T) {
	for _, now := range []time.Time{{}, time.Unix(0, 0), time.Now(), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if cas := firstCAS(now); cas <= 0 {
			t.Errorf("at %s: %d", now, cas)
		}
	}
}

func TestAFileThatWasRemovedOrReplacedIsNotWrittenAnyMore(t *testing.T) {
	s := openInternal(t)
	cas, err := putInternal(s, "a", 10, store.Absent)
	if err != nil {
		t.Fatal(err)
	}
	aside := s.path + ".aside"
	if err := os.Rename(s.path, aside); err != nil {
		t.Fatal(err)
	}
	if _, err := putInternal(s, "a", 10, cas); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, ErrNoAccess) {
		t.Errorf("a removed file: %v", err)
	}
	if err := os.WriteFile(s.path, nil, fileMode); err != nil {
		t.Fatal(err)
	}
	if _, err := putInternal(s, "a", 10, cas); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a replaced file: %v", err)
	}
	if err := os.Rename(aside, s.path); err != nil {
		t.Fatal(err)
	}
	if _, err := putInternal(s, "a", 10, cas); err != nil {
		t.Errorf("the file is back: %v", err)
	}
}

// A transaction may have begun, for other writes, long before one of its writes was asked for.
func TestATimeToLiveCountsFromItsWriteNotFromItsTransaction(t *testing.T) {
	s := openInternal(t)
	now := time.Now()
	w := &writer{dialer: s.writer.dialer, file: s.writer.file, now: func() time.Time { return now }, counters: &s.counters}
	if err := w.begin(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	late := s.newWrite(verbPut, proto.NewKey("t", proto.KindSession, "late"), store.Absent)
	late.ttl = time.Hour
	w.batch = []*write{late}
	if err := errors.Join(w.apply(), w.close()); err != nil {
		t.Fatal(err)
	}
	s.opts.Now = func() time.Time { return now }
	if _, err := s.Get(context.Background(), proto.NewKey("t", proto.KindSession, "late")); err != nil {
		t.Errorf("a record of one hour is gone at once: %v", err)
	}
}

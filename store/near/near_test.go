package near

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// note is the record of these tests.
type note struct {
	Version, Changed proto.Version
	Text             string
	Deadline         time.Time
}

func (n *note) Stamps() (version, changed proto.Version) { return n.Version, n.Changed }
func (n *note) Expired(now time.Time) bool {
	return !n.Deadline.IsZero() && !now.Before(n.Deadline)
}
func (n *note) Size() int { return len(n.Text) }

func (n *note) encode() []byte {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	return text
}

func decodeNote(_ proto.Key, value []byte) (*note, error) {
	n := &note{}
	return n, json.Unmarshal(value, n)
}

func at(version proto.Version, text string) *note {
	return &note{Version: version, Changed: version, Text: text}
}

// gate is a real store whose answers can be held back after the operation has been done.
type gate struct {
	*memory.Store
	failGet atomic.Bool

	mu      sync.Mutex // guards the rest
	reads   int
	holdGet chan struct{}
	holdPut chan struct{}
	failPut error
}

func (g *gate) Get(ctx context.Context, key proto.Key) (store.Record, error) {
	if g.failGet.Load() {
		return store.Record{}, fmt.Errorf("%w: test", store.ErrUnavailable)
	}
	record, err := g.Store.Get(ctx, key)
	g.mu.Lock()
	g.reads++
	hold := g.holdGet
	g.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return store.Record{}, fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
		}
	}
	return record, err
}

func (g *gate) Put(ctx context.Context, key proto.Key, value []byte, opts store.PutOptions) (store.CAS, error) {
	cas, err := g.Store.Put(ctx, key, value, opts)
	g.mu.Lock()
	hold, fail := g.holdPut, g.failPut
	g.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if fail != nil {
		return 0, fail
	}
	return cas, err
}

// holdReads makes the answers of reads that begin from now on wait for release.
func (g *gate) holdReads() (release func()) {
	hold := make(chan struct{})
	g.mu.Lock()
	g.holdGet = hold
	g.mu.Unlock()
	return sync.OnceFunc(func() { close(hold) })
}

func (g *gate) readsPass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holdGet = nil
}

func (g *gate) readCount() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reads
}

// recorder keeps what was published.
type recorder struct {
	mu    sync.Mutex // guards items
	items []proto.Item
}

func (r *recorder) Publish(items ...proto.Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.items = append(r.items, items...)
}

func (r *recorder) Confirm(_ context.Context, items ...proto.Item) []string {
	r.Publish(items...)
	return []string{"n2"}
}

type fixture struct {
	t     *testing.T
	store *gate
	news  *recorder
	cache *Cache[*note]
	key   proto.Key
}

// run runs a test on virtual time with a store that holds version 1 of one record.
func run(t *testing.T, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		backing := memory.New(memory.Options{})
		f := &fixture{t: t, store: &gate{Store: backing}, news: &recorder{}, key: proto.NewKey("t", proto.KindDocument, "k")}
		var err error
		f.cache, err = New(Options[*note]{Store: f.store, Decode: decodeNote, News: f.news})
		if err != nil {
			t.Fatal(err)
		}
		f.storeWrite(at(1, "one"))
		test(f)
		f.cache.Close()
		if err := backing.Close(); err != nil {
			t.Error(err)
		}
	})
}

// storeWrite writes as another node would: past this cache.
func (f *fixture) storeWrite(n *note) store.CAS {
	f.t.Helper()
	cas, err := f.store.Store.Put(f.t.Context(), f.key, n.encode(), store.PutOptions{TTL: store.Forever})
	if err != nil {
		f.t.Fatal(err)
	}
	return cas
}

func (f *fixture) get(want Want) string {
	f.t.Helper()
	copy, err := f.cache.Get(f.t.Context(), f.key, want)
	if err != nil {
		f.t.Fatal(err)
	}
	return copy.Value.Text
}

// goGet reads in the background, and returns once the read waits for the store.
func (f *fixture) goGet(want Want) (result <-chan string) {
	f.t.Helper()
	out := make(chan string, 1)
	go func() {
		copy, err := f.cache.Get(f.t.Context(), f.key, want)
		if err != nil {
			out <- "error: " + err.Error()
			return
		}
		out <- copy.Value.Text
	}()
	synctest.Wait()
	return out
}

func (f *fixture) expect(what, got, want string) {
	f.t.Helper()
	if got != want {
		f.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func (f *fixture) expectReads(want int) {
	f.t.Helper()
	if got := f.store.readCount(); got != want {
		f.t.Errorf("%d store reads, want %d", got, want)
	}
}

func (f *fixture) put(n *note, cas store.CAS) error {
	_, err := f.cache.Put(f.t.Context(), f.key, n, n.encode(), store.PutOptions{CAS: cas, TTL: store.Forever}, nil)
	return err
}

func TestAWarmReadAsksTheStoreOnce(t *testing.T) {
	run(t, func(f *fixture) {
		for range 5 {
			f.expect("read", f.get(Want{}), "one")
		}
		f.expectReads(1)
	})
}

func TestColdReadersShareOneStoreRead(t *testing.T) {
	run(t, func(f *fixture) {
		release := f.store.holdReads()
		var results []<-chan string
		for range 200 {
			results = append(results, f.goGet(Want{}))
		}
		release()
		for _, result := range results {
			f.expect("reader", <-result, "one")
		}
		f.expectReads(1)
	})
}

func TestNewsDuringAReadKeepsItsOldResultOut(t *testing.T) {
	run(t, func(f *fixture) {
		release := f.store.holdReads()
		waiting := f.goGet(Want{})
		f.storeWrite(at(2, "two"))
		f.cache.Apply(proto.Invalidate{Key: f.key, Version: 2})
		f.store.readsPass()

		f.expect("a reader that came after the news", f.get(Want{}), "two")
		release()
		f.expect("the reader that was waiting", <-waiting, "one")
		f.expect("a later reader", f.get(Want{}), "two")
	})
}

func TestAResultAtTheMarkIsKept(t *testing.T) {
	run(t, func(f *fixture) {
		f.storeWrite(at(2, "two"))
		release := f.store.holdReads()
		waiting := f.goGet(Want{})
		f.cache.Apply(proto.Invalidate{Key: f.key, Version: 2})
		release()
		f.expect("the waiting reader", <-waiting, "two")
		f.expect("a later reader", f.get(Want{}), "two")
		f.expectReads(1)
	})
}

func TestDeathDuringAReadKeepsItsResultOut(t *testing.T) {
	run(t, func(f *fixture) {
		release := f.store.holdReads()
		waiting := f.goGet(Want{})
		if err := f.cache.Delete(f.t.Context(), f.key, store.Any); err != nil {
			t.Fatal(err)
		}
		release()
		<-waiting
		if _, err := f.cache.Get(f.t.Context(), f.key, Want{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after the delete: %v", err)
		}
	})
}

func TestAnOwnWriteDuringAReadIsNotUndone(t *testing.T) {
	run(t, func(f *fixture) {
		release := f.store.holdReads()
		waiting := f.goGet(Want{})
		if err := f.put(at(2, "two"), store.Any); err != nil {
			t.Fatal(err)
		}
		release()
		f.expect("the waiting reader", <-waiting, "one")
		f.expect("a later reader", f.get(Want{}), "two")
	})
}

func TestNewsDuringAWriteKeepsItsResultOut(t *testing.T) {
	run(t, func(f *fixture) {
		hold := make(chan struct{})
		f.store.holdPut = hold
		done := make(chan error, 1)
		go func() { done <- f.put(at(2, "two"), store.Any) }()
		synctest.Wait()
		f.storeWrite(at(3, "three"))
		f.cache.Apply(proto.Invalidate{Key: f.key, Version: 3})
		close(hold)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		f.expect("a later reader", f.get(Want{}), "three")
	})
}

func TestAReaderDoesNotJoinAReadFromBeforeTheFence(t *testing.T) {
	run(t, func(f *fixture) {
		release := f.store.holdReads()
		waiting := f.goGet(Want{})
		time.Sleep(time.Millisecond)
		f.cache.Fence()
		time.Sleep(time.Millisecond)
		f.storeWrite(at(2, "two"))
		f.store.readsPass()
		f.expect("a reader that came after the fence", f.get(Want{}), "two")
		release()
		f.expect("the reader that was waiting", <-waiting, "one")
		f.expect("a later reader", f.get(Want{}), "two")
	})
}

func TestACopyBehindTheFenceIsCheckedOnce(t *testing.T) {
	run(t, func(f *fixture) {
		f.get(Want{})
		f.storeWrite(at(2, "two")) // and its news is lost
		f.expect("before the fence", f.get(Want{}), "one")
		time.Sleep(time.Millisecond)
		f.cache.Fence()
		time.Sleep(time.Millisecond)
		f.expect("after the fence", f.get(Want{}), "two")
		f.get(Want{})
		f.expectReads(2)
	})
}

func TestATokenAboveTheCopyAsksTheStore(t *testing.T) {
	run(t, func(f *fixture) {
		f.get(Want{})
		f.storeWrite(at(2, "two"))
		f.expect("local", f.get(Want{Level: Local, After: 2}), "one")
		f.expect("session", f.get(Want{Level: Session, After: 2}), "two")
	})
}

func TestAForgedTokenCostsOneReadAndBuysNothing(t *testing.T) {
	run(t, func(f *fixture) {
		f.get(Want{})
		f.expect("forged", f.get(Want{After: proto.MaxVersion}), "one")
		f.expectReads(2)
		f.expect("honest", f.get(Want{After: 1}), "one")
		f.expectReads(2)
	})
}

func TestAJoinedReadBelowTheTokenIsReadAgain(t *testing.T) {
	run(t, func(f *fixture) {
		release := f.store.holdReads()
		first := f.goGet(Want{})
		f.storeWrite(at(2, "two")) // its news has not arrived
		second := f.goGet(Want{After: 2})
		release()
		f.expect("without a token", <-first, "one")
		f.expect("with the token", <-second, "two")
	})
}

func TestAJoinedReadThatFoundNothingIsReadAgainForAToken(t *testing.T) {
	run(t, func(f *fixture) {
		if err := f.store.Store.Delete(f.t.Context(), f.key, store.Any); err != nil {
			t.Fatal(err)
		}
		release := f.store.holdReads()
		f.goGet(Want{})
		f.storeWrite(at(2, "two"))
		second := f.goGet(Want{After: 2})
		release()
		f.expect("with the token", <-second, "two")
	})
}

func TestLatestAlwaysAsksTheStoreItself(t *testing.T) {
	run(t, func(f *fixture) {
		f.get(Want{})
		release := f.store.holdReads()
		first := f.goGet(Want{Level: Latest})
		second := f.goGet(Want{Level: Latest})
		release()
		<-first
		<-second
		f.expectReads(3)
	})
}

func TestACopyOverTheMaximumAgeIsChecked(t *testing.T) {
	run(t, func(f *fixture) {
		f.get(Want{})
		time.Sleep(time.Minute)
		f.get(Want{})
		f.expectReads(1)
		time.Sleep(time.Millisecond)
		f.get(Want{})
		f.expectReads(2)
	})
}

func TestWhileTheStoreIsOutOfReachACopyAnswersForABoundedTime(t *testing.T) {
	run(t, func(f *fixture) {
		f.get(Want{})
		f.store.failGet.Store(true)
		time.Sleep(time.Minute + 4*time.Minute)
		f.expect("in the outage", f.get(Want{After: 1}), "one")
		for what, want := range map[string]Want{"a newer token": {After: 2}, "latest": {Level: Latest}} {
			if _, err := f.cache.Get(f.t.Context(), f.key, want); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: %v", what, err)
			}
		}
		other := proto.NewKey("t", proto.KindDocument, "unknown")
		if _, err := f.cache.Get(f.t.Context(), other, Want{}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("an unknown record: %v", err)
		}
		time.Sleep(time.Minute + time.Millisecond)
		if _, err := f.cache.Get(f.t.Context(), f.key, Want{}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("after the bound: %v", err)
		}
	})
}

func TestWhileTheStoreIsOutOfReachACopyBehindTheFenceDoesNotAnswer(t *testing.T) {
	run(t, func(f *fixture) {
		f.get(Want{})
		f.store.failGet.Store(true)
		time.Sleep(time.Millisecond)
		f.cache.Fence()
		if _, err := f.cache.Get(f.t.Context(), f.key, Want{}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("behind the fence: %v", err)
		}
	})
}

func TestAgeCountsFromTheStartOfTheRead(t *testing.T) {
	run(t, func(f *fixture) {
		release := f.store.holdReads()
		waiting := f.goGet(Want{})
		time.Sleep(2 * time.Second)
		release()
		<-waiting
		time.Sleep(time.Minute - time.Second)
		f.store.readsPass()
		f.get(Want{})
		f.expectReads(2)
	})
}

func TestAnExpiredCopyIsNotUsed(t *testing.T) {
	run(t, func(f *fixture) {
		mortal := at(2, "two")
		mortal.Deadline = time.Now().Add(time.Second)
		f.storeWrite(mortal)
		f.get(Want{})
		time.Sleep(time.Second)
		f.storeWrite(at(3, "three"))
		f.expect("after the deadline", f.get(Want{}), "three")
	})
}

func TestNewsOfWhatIsKnownDropsNothing(t *testing.T) {
	run(t, func(f *fixture) {
		f.get(Want{})
		f.cache.Apply(proto.Invalidate{Key: f.key, Version: 1})
		f.get(Want{})
		f.expectReads(1)
	})
}

func TestAReaderThatLeavesDoesNotEndTheReadOfOthers(t *testing.T) {
	run(t, func(f *fixture) {
		release := f.store.holdReads()
		ctx, cancel := context.WithCancel(f.t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := f.cache.Get(ctx, f.key, Want{})
			left <- err
		}()
		synctest.Wait()
		stays := f.goGet(Want{})
		cancel()
		if err := <-left; !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("the reader that left: %v", err)
		}
		release()
		f.expect("the reader that stayed", <-stays, "one")
	})
}

func TestCloseEndsReadsUnderWay(t *testing.T) {
	run(t, func(f *fixture) {
		f.store.holdReads()
		waiting := f.goGet(Want{})
		f.cache.Close()
		if got := <-waiting; !strings.Contains(got, "unavailable") {
			t.Errorf("got %q", got)
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	const limit = 1 << 20
	backing := memory.New(memory.Options{})
	cache, err := New(Options[*note]{Store: backing, Decode: decodeNote, News: &recorder{}, MaxBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	value := at(1, strings.Repeat("x", 1000))
	for i := range 10_000 {
		key := proto.NewKey("t", proto.KindDocument, fmt.Sprint(i))
		if _, err := cache.Put(t.Context(), key, value, value.encode(), store.PutOptions{TTL: store.Forever}, nil); err != nil {
			t.Fatal(err)
		}
	}
	cache.copies.CleanUp()
	if bytes := cache.Stats().Bytes; bytes > limit {
		t.Errorf("%d bytes are kept, the limit is %d", bytes, limit)
	}
	cache.Close()
	if err := backing.Close(); err != nil {
		t.Error(err)
	}
}

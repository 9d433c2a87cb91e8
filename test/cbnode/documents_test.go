package cbnode_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"klatch/test/cbnode"
)

func TestStoreVerbs(t *testing.T) {
	c := openCollection(t, startNode(t, cbnode.Options{}))

	first := insert(t, c, "k", "one", 0)
	wants(t, c, "k", "one", first)
	_, err := c.Insert("k", []byte("two"), &gocb.InsertOptions{Transcoder: raw})
	wantsError(t, err, gocb.ErrDocumentExists)

	second, err := replace(c, "k", "two", first)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, c, "k", "two", second)
	_, err = replace(c, "k", "three", first)
	wantsError(t, err, gocb.ErrCasMismatch)
	_, err = replace(c, "missing", "v", 0)
	wantsError(t, err, gocb.ErrDocumentNotFound)
	_, err = replace(c, "missing", "v", first)
	wantsError(t, err, gocb.ErrDocumentNotFound)

	_, err = c.Remove("k", &gocb.RemoveOptions{Cas: first})
	wantsError(t, err, gocb.ErrCasMismatch)
	if _, err = c.Remove("k", &gocb.RemoveOptions{Cas: second}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Remove("k", nil)
	wantsError(t, err, gocb.ErrDocumentNotFound)
	_, _, err = get(c, "k")
	wantsError(t, err, gocb.ErrDocumentNotFound)
}

// TestCASNeverRepeats writes, touches and removes the same document over and over.
func TestCASNeverRepeats(t *testing.T) {
	c := openCollection(t, startNode(t, cbnode.Options{}))
	seen := map[gocb.Cas]bool{}
	note := func(result interface{ Cas() gocb.Cas }, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if seen[result.Cas()] {
			t.Fatalf("the CAS %d came twice", result.Cas())
		}
		seen[result.Cas()] = true
	}
	for range 20 {
		note(c.Upsert("k", []byte("v"), &gocb.UpsertOptions{Transcoder: raw}))
		note(c.Touch("k", time.Hour, nil))
		note(c.GetAndTouch("k", time.Hour, &gocb.GetAndTouchOptions{Transcoder: raw}))
		note(c.Remove("k", nil))
	}
}

func TestOneWinnerByCAS(t *testing.T) {
	c := openCollection(t, startNode(t, cbnode.Options{}))
	const writers = 32
	cas := insert(t, c, "k", "v", 0)
	var won, lost atomic.Int32
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			switch _, err := replace(c, "k", "w", cas); {
			case err == nil:
				won.Add(1)
			case errors.Is(err, gocb.ErrCasMismatch):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	running.Wait()
	if won.Load() != 1 || lost.Load() != writers-1 {
		t.Fatalf("%d won and %d lost, want 1 and %d", won.Load(), lost.Load(), writers-1)
	}
}

func TestReadingTouchesAndExpiry(t *testing.T) {
	c := openCollection(t, startNode(t, cbnode.Options{}))
	inserted := insert(t, c, "k", "v", time.Minute)

	touched, err := c.Touch("k", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	if touched.Cas() == inserted {
		t.Error("a touch keeps the CAS")
	}
	expires := func() time.Duration {
		t.Helper()
		result, err := c.Get("k", &gocb.GetOptions{WithExpiry: true, Transcoder: raw})
		if err != nil {
			t.Fatal(err)
		}
		var value []byte
		if err := result.Content(&value); err != nil || string(value) != "v" {
			t.Fatalf("the document holds %q, error %v", value, err)
		}
		return time.Until(result.ExpiryTime()).Round(time.Minute)
	}
	if left := expires(); left != time.Hour {
		t.Errorf("the document lives for %s more, want an hour", left)
	}
	if _, err := c.GetAndTouch("k", 2*time.Hour, &gocb.GetAndTouchOptions{Transcoder: raw}); err != nil {
		t.Fatal(err)
	}
	if left := expires(); left != 2*time.Hour {
		t.Errorf("the document lives for %s more, want two hours", left)
	}
	for key, want := range map[string]bool{"k": true, "missing": false} {
		result, err := c.Exists(key, nil)
		if err != nil || result.Exists() != want {
			t.Errorf("exists %q: %v, error %v", key, result, err)
		}
	}
	_, err = c.Touch("missing", time.Hour, nil)
	wantsError(t, err, gocb.ErrDocumentNotFound)
}

// clock is a clock that the test moves.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// TestExpiry covers both forms of an expiry: seconds up to 30 days, dates above.
func TestExpiry(t *testing.T) {
	const day = 24 * time.Hour
	var time clock
	c := openCollection(t, startNode(t, cbnode.Options{Now: time.now}))
	for _, ttl := range []int64{1, 60, 29 * 86400, 30*86400 - 1, 30 * 86400, 31 * 86400, 400 * 86400} {
		lifetime := seconds(ttl)
		insert(t, c, "k", "v", lifetime)
		time.advance(lifetime - seconds(1))
		wants(t, c, "k", "v", 0)
		// Whole seconds on both sides, and the second of the expiry itself still counts.
		time.advance(seconds(3))
		_, _, err := get(c, "k")
		wantsError(t, err, gocb.ErrDocumentNotFound)
	}
	insert(t, c, "k", "for ever", 0)
	time.advance(10_000 * day)
	wants(t, c, "k", "for ever", 0)
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// TestWritesSetTheExpiry shows why a write must never go without one.
func TestWritesSetTheExpiry(t *testing.T) {
	var time clock
	c := openCollection(t, startNode(t, cbnode.Options{Now: time.now}))
	for _, key := range []string{"forgotten", "preserved"} {
		insert(t, c, key, "v", seconds(10))
	}
	for key, preserve := range map[string]bool{"forgotten": false, "preserved": true} {
		if _, err := c.Replace(key, []byte("w"), &gocb.ReplaceOptions{Transcoder: raw, PreserveExpiry: preserve}); err != nil {
			t.Fatal(err)
		}
	}
	time.advance(seconds(3600))
	wants(t, c, "forgotten", "w", 0)
	_, _, err := get(c, "preserved")
	wantsError(t, err, gocb.ErrDocumentNotFound)
}

func TestLimits(t *testing.T) {
	bucket := openBucket(t, startNode(t, cbnode.Options{}), func(o *gocb.ClusterOptions) { o.TimeoutsConfig.KVTimeout = patience })
	manager := bucket.CollectionsV2()
	if err := manager.CreateCollection("_default", "named", nil, nil); err != nil {
		t.Fatal(err)
	}
	for name, longest := range map[string]int{"_default": 250, "named": 246} {
		c := bucket.Collection(name)
		insert(t, c, strings.Repeat("k", longest), "v", 0)
		_, err := upsert(c, strings.Repeat("k", longest+1), "v")
		wantsError(t, err, gocb.ErrInvalidArgument)
	}
	c := bucket.DefaultCollection()
	largest := strings.Repeat("v", 20<<20)
	insert(t, c, "k", largest, 0)
	_, err := upsert(c, "k", largest+"v")
	wantsError(t, err, gocb.ErrValueTooLarge)
	wants(t, c, "k", largest, 0)
}

func TestDurability(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	c := openCollection(t, node)
	var durable atomic.Int32
	node.SetHook(cbnode.OnWrites(func(r cbnode.Request) cbnode.Action {
		if r.Durable {
			durable.Add(1)
		}
		return cbnode.Action{}
	}))
	if _, err := c.Insert("k", []byte("v"), &gocb.InsertOptions{Transcoder: raw, DurabilityLevel: gocb.DurabilityLevelMajority}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Remove("k", &gocb.RemoveOptions{DurabilityLevel: gocb.DurabilityLevelPersistToMajority}); err != nil {
		t.Fatal(err)
	}
	if durable.Load() != 2 {
		t.Errorf("%d requests were durable, want 2", durable.Load())
	}
}

func TestLocks(t *testing.T) {
	var time clock
	node := startNode(t, cbnode.Options{Now: time.now})
	c := openCollection(t, node, func(o *gocb.ClusterOptions) { o.RetryStrategy = hasty{} })
	patient := openCollection(t, node)
	first := insert(t, c, "k", "v", 0)

	locked, err := c.GetAndLock("k", seconds(20), &gocb.GetAndLockOptions{Transcoder: raw})
	if err != nil {
		t.Fatal(err)
	}
	wants(t, c, "k", "v", 1<<64-1) // readers see no CAS that would let them write
	_, err = replace(c, "k", "w", first)
	wantsError(t, err, gocb.ErrDocumentLocked)
	_, err = replace(patient, "k", "w", first)
	wantsError(t, err, gocb.ErrAmbiguousTimeout)
	wantsError(t, c.Unlock("k", first, nil), gocb.ErrCasMismatch)

	if err := c.Unlock("k", locked.Cas(), nil); err != nil {
		t.Fatal(err)
	}
	locked, err = c.GetAndLock("k", seconds(20), &gocb.GetAndLockOptions{Transcoder: raw})
	if err != nil {
		t.Fatal(err)
	}
	cas, err := replace(c, "k", "by the holder", locked.Cas())
	if err != nil {
		t.Fatal(err)
	}
	wants(t, c, "k", "by the holder", cas)

	if _, err = c.GetAndLock("k", seconds(20), &gocb.GetAndLockOptions{Transcoder: raw}); err != nil {
		t.Fatal(err)
	}
	time.advance(seconds(20))
	if _, err := upsert(c, "k", "after the lock"); err != nil {
		t.Fatal(err)
	}
}

// Package test tests klatch's Couchbase driver over the real protocol against the node of package cbnode.
package test

import (
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"klatch/proto"
	"klatch/store"
	"klatch/store/couchbase"
	"klatch/store/storetest"
	"klatch/test/cbnode"
)

func TestMain(m *testing.M) {
	// gocbcore 10.8.1 leaves a goroutine behind for every connection that breaks while it logs in.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/couchbase/gocbcore/v10.(*memdClientDialerComponent).buildAuthHandler.func1.2"))
}

// patience bounds every wait for what must happen in the end.
const patience = 30 * time.Second

func startNode(t *testing.T, options cbnode.Options) *cbnode.Node {
	t.Helper()
	node, err := cbnode.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	return node
}

// options are those of a store on node, with parameters for its URL.
func options(t *testing.T, node *cbnode.Node, parameters string) couchbase.Options {
	t.Helper()
	o, err := couchbase.ParseURL(node.URL() + "?" + parameters)
	if err != nil {
		t.Fatal(err)
	}
	o.User, o.Password = "Administrator", "password"
	return o
}

func open(t *testing.T, o couchbase.Options) *couchbase.Store {
	t.Helper()
	s, err := couchbase.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t *testing.T, s *couchbase.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func key(id string) proto.Key { return proto.NewKey("t", proto.KindSession, id) }

func hourly(cas store.CAS) store.PutOptions { return store.PutOptions{CAS: cas, TTL: time.Hour} }

// eventually waits until check holds.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !check(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// slowMachine gives operations the time that a busy test machine needs.
const slowMachine = "kv-timeout=10s&durable-timeout=10s&start-wait=20s"

// rounding is how much longer than its time to live a record may stay: up to a second by rounding up, one
// that the driver adds, and one by how the server compares.
const rounding = 3 * time.Second

func TestConformance(t *testing.T) {
	var ahead atomic.Int64
	node := startNode(t, cbnode.Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	storetest.Run(t, storetest.Harness{
		Open:     func(t *testing.T) store.Store { return open(t, options(t, node, slowMachine)) },
		Advance:  func(d time.Duration) { ahead.Add(int64(d)) },
		Rounding: rounding,
	})
}

func TestConformanceByTheWallClock(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) store.Store {
			return open(t, options(t, node, slowMachine+"&scope=suite&collection=records&durability=majority"))
		},
		Rounding: rounding,
	})
}

func TestWhatAnOperatorMustMendIsSaidAtOpen(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	for name, c := range map[string]struct {
		change func(*couchbase.Options)
		want   error
		says   []string
	}{
		"password": {func(o *couchbase.Options) { o.Password = "hunter2" }, couchbase.ErrAuthentication, []string{"KLATCH_STORE_PASSWORD", `"Administrator"`}},
		"user":     {func(o *couchbase.Options) { o.User = "nobody" }, couchbase.ErrAuthentication, []string{"KLATCH_STORE_USER", `"nobody"`}},
		"bucket":   {func(o *couchbase.Options) { o.Bucket = "none" }, couchbase.ErrBucket, []string{"bucket-create", `"none"`}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, node, slowMachine)
			c.change(&o)
			s, err := couchbase.Open(t.Context(), o)
			if !errors.Is(err, c.want) || s != nil {
				t.Fatalf("%v, %v", s, err)
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v does not say %q", err, text)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v shows the password", err)
			}
		})
	}
}

func TestScopeAndCollectionAreCreatedOnceByManyNodes(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	var opening sync.WaitGroup
	stores := make([]*couchbase.Store, 3)
	for i := range stores {
		opening.Go(func() {
			s, err := couchbase.Open(t.Context(), options(t, node, slowMachine+"&scope=klatch&collection=records"))
			if err != nil {
				t.Error(err)
				return
			}
			stores[i] = s
			eventually(t, "ready", func() bool { return s.Ready() == nil })
		})
	}
	opening.Wait()
	if t.Failed() {
		return
	}
	cas, err := stores[0].Put(t.Context(), key("k"), []byte("v"), hourly(store.Absent))
	if err != nil {
		t.Fatal(err)
	}
	if rec, err := stores[2].Get(t.Context(), key("k")); err != nil || rec.CAS != cas {
		t.Errorf("%+v, %v", rec, err)
	}
	for _, s := range stores {
		closeStore(t, s)
	}
}

func TestStoreThatAppearsLater(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	node.Stop()
	began := time.Now()
	s := open(t, options(t, node, "start-wait=50ms"))
	if waited := time.Since(began); waited > patience/2 {
		t.Errorf("Open took %s", waited)
	}
	if err := s.Ready(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("ready: %v", err)
	}
	if _, err := s.Get(t.Context(), key("k")); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.Put(t.Context(), key("k"), nil, hourly(store.Any)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("put: %v", err)
	}
	if err := node.Restart(); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	eventually(t, "ready", func() bool { return s.Ready() == nil })
	t.Logf("ready %s after the node appeared", time.Since(back))
	if _, err := s.Put(t.Context(), key("k"), []byte("v"), hourly(store.Absent)); err != nil {
		t.Error(err)
	}
}

func TestHostThatNeverAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := open(t, couchbase.Options{
		Hosts: []string{listener.Addr().String()}, Bucket: "b", User: "u", Password: "p",
		StartWait: 50 * time.Millisecond, ConnectTimeout: 200 * time.Millisecond,
	})
	if err := s.Ready(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("ready: %v", err)
	}
}

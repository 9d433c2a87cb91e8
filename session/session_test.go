package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
	"klatch/store/near"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// countingStore is a real store that counts its verbs and can be told to lose requests and answers.
type countingStore struct {
	*memory.Store
	gets, puts atomic.Int64 // puts that were applied
	onPut      atomic.Pointer[putHook]

	loseDeletes atomic.Int64 // how many answers of deletes to lose
	down        atomic.Bool  // deletes do not get through any more once an answer was lost
}

// putHook stands between a manager and the store; apply carries the write out.
type putHook func(apply func() (store.CAS, error)) (store.CAS, error)

func (s *countingStore) Get(ctx context.Context, key proto.Key) (store.Record, error) {
	s.gets.Add(1)
	return s.Store.Get(ctx, key)
}

func (s *countingStore) Put(ctx context.Context, key proto.Key, value []byte, opts store.PutOptions) (store.CAS, error) {
	apply := func() (store.CAS, error) {
		cas, err := s.Store.Put(context.WithoutCancel(ctx), key, value, opts)
		if err == nil {
			s.puts.Add(1)
		}
		return cas, err
	}
	if hook := s.onPut.Load(); hook != nil {
		return (*hook)(apply)
	}
	return apply()
}

func (s *countingStore) Delete(ctx context.Context, key proto.Key, cas store.CAS) error {
	if s.down.Load() && s.loseDeletes.Load() <= 0 {
		return store.ErrUnavailable
	}
	err := s.Store.Delete(ctx, key, cas)
	if s.loseDeletes.Add(-1) >= 0 {
		return store.ErrAmbiguous
	}
	return err
}

func (s *countingStore) hook(hook putHook) { s.onPut.Store(&hook) }

// nodes are three managers on one store. News between them can be cut.
type nodes struct {
	t     *testing.T
	store *countingStore
	all   []*Manager
	cut   atomic.Bool
}

type line struct {
	nodes *nodes
	self  int
}

func (l line) Publish(items ...proto.Item) {
	if l.nodes.cut.Load() {
		return
	}
	for i, m := range l.nodes.all {
		if i != l.self {
			for _, item := range items {
				m.Apply(item)
			}
		}
	}
}

func (l line) Confirm(_ context.Context, items ...proto.Item) []string {
	l.Publish(items...)
	return nil
}

func newNodes(t *testing.T, configure func(*Options)) *nodes {
	t.Helper()
	n := &nodes{t: t, store: &countingStore{Store: memory.New(memory.Options{})}, all: make([]*Manager, 3)}
	for i := range n.all {
		opts := Options{Store: n.store, News: line{n, i}, Node: fmt.Sprintf("n%d", i+1), Writer: uint64(i + 1)}
		if configure != nil {
			configure(&opts)
		}
		m, err := New(opts)
		if err != nil {
			t.Fatal(err)
		}
		n.all[i] = m
	}
	return n
}

func (n *nodes) close() {
	for _, m := range n.all {
		m.Close()
	}
	if err := n.store.Store.Close(); err != nil {
		n.t.Error(err)
	}
}

// onVirtualTime runs a test with three nodes whose clocks stand still between its steps.
func onVirtualTime(t *testing.T, configure func(*Options), test func(t *testing.T, n *nodes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, configure)
		defer n.close()
		test(t, n)
	})
}

func (n *nodes) create(node int, attributes map[string]string) *Session {
	n.t.Helper()
	draft := Draft{Attributes: map[string]Value{}}
	for name, value := range attributes {
		draft.Attributes[name] = Bytes([]byte(value))
	}
	s, err := n.all[node].Create(n.t.Context(), draft)
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

func (n *nodes) load(node int, id string) *Session {
	n.t.Helper()
	s, err := n.all[node].Load(n.t.Context(), id, LoadOptions{})
	if err != nil {
		n.t.Fatalf("loading on node %d: %v", node, err)
	}
	return s
}

func (n *nodes) expectGone(node int, id string) {
	n.t.Helper()
	for _, level := range []near.Level{near.Local, near.Session, near.Latest} {
		if _, err := n.all[node].Load(n.t.Context(), id, LoadOptions{Level: level, Passive: true}); !errors.Is(err, ErrNotFound) {
			n.t.Errorf("loading at level %s on node %d: %v, want ErrNotFound", level, node, err)
		}
	}
}

func content(s *Session) map[string]string {
	all := map[string]string{}
	for name, v := range s.All() {
		all[name] = string(v.Data)
	}
	return all
}

func (n *nodes) expectContent(s *Session, want map[string]string) {
	n.t.Helper()
	if got := fmt.Sprint(content(s)); got != fmt.Sprint(want) {
		n.t.Errorf("content %s, want %v", got, want)
	}
}

func TestTwoNodesThatSetDifferentAttributesBothWin(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		id := n.create(0, map[string]string{"x": "0"}).ID()
		a, b := n.load(0, id), n.load(1, id)
		a.Set("a", Bytes([]byte("1")))
		b.Set("b", Bytes([]byte("2")))
		if err := n.all[0].Commit(t.Context(), a, CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := n.all[1].Commit(t.Context(), b, CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		for node := range n.all {
			n.expectContent(n.load(node, id), map[string]string{"x": "0", "a": "1", "b": "2"})
		}
	})
}

func TestTheLastWriterOfOneAttributeWins(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		id := n.create(0, map[string]string{"x": "0", "y": "0"}).ID()
		a, b := n.load(0, id), n.load(1, id)
		a.Set("x", Bytes([]byte("a")))
		a.Set("y", Bytes([]byte("a")))
		b.Remove("x")
		for node, s := range []*Session{a, b} {
			if err := n.all[node].Commit(t.Context(), s, CommitOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		n.expectContent(n.load(2, id), map[string]string{"y": "a"})
	})
}

func TestStrictRefusesTheSecondWriterOfOneAttributeAndStoresNothing(t *testing.T) {
	onVirtualTime(t, func(o *Options) { o.Conflict = Strict }, func(t *testing.T, n *nodes) {
		id := n.create(0, map[string]string{"x": "0"}).ID()
		a, b := n.load(0, id), n.load(1, id)
		a.Set("x", Bytes([]byte("a")))
		b.Set("x", Bytes([]byte("b")))
		b.Set("z", Bytes([]byte("b")))
		if err := n.all[0].Commit(t.Context(), a, CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		err := n.all[1].Commit(t.Context(), b, CommitOptions{})
		var conflict *ConflictError
		if !errors.As(err, &conflict) || conflict.Current != a.Version() || conflict.Attribute != "x" {
			t.Fatalf("error %v, want a conflict on x at version %d", err, a.Version())
		}
		n.expectContent(n.load(2, id), map[string]string{"x": "a"})
	})
}

func TestIfMatchRefusesAnyOtherVersion(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		created := n.create(0, map[string]string{"x": "0"})
		a, b := n.load(0, created.ID()), n.load(1, created.ID())
		a.Set("a", Bytes([]byte("1")))
		b.Set("b", Bytes([]byte("2")))
		condition := CommitOptions{IfMatch: created.Version()}
		if err := n.all[0].Commit(t.Context(), a, condition); err != nil {
			t.Fatal(err)
		}
		err := n.all[1].Commit(t.Context(), b, condition)
		var conflict *ConflictError
		if !errors.As(err, &conflict) || !conflict.Precondition || conflict.Current != a.Version() {
			t.Fatalf("error %v, want a failed precondition at version %d", err, a.Version())
		}
		n.expectContent(n.load(2, created.ID()), map[string]string{"x": "0", "a": "1"})
	})
}

func TestACommitThatChangesNothingWritesNothing(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		s := n.create(0, map[string]string{"x": "0"})
		version, puts := s.Version(), n.store.puts.Load()
		s.Set("x", Bytes([]byte("0")))
		s.Remove("y")
		if err := n.all[0].Commit(t.Context(), s, CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		if n.store.puts.Load() != puts || s.Version() != version {
			t.Error("an unchanged session was written")
		}
	})
}

func TestALateSaveNeverBringsADeletedSessionBack(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		id := n.create(0, map[string]string{"x": "0"}).ID()
		slow := n.load(0, id)
		if _, err := n.all[1].Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		slow.Set("x", Bytes([]byte("1")))
		if err := n.all[0].Commit(t.Context(), slow, CommitOptions{}); !errors.Is(err, ErrGone) {
			t.Errorf("the late save: %v, want ErrGone", err)
		}
		for node := range n.all {
			n.expectGone(node, id)
		}
		if _, err := n.all[2].Delete(t.Context(), id); err != nil {
			t.Errorf("deleting again: %v", err)
		}
	})
}

func TestATokenMakesReadsMonotonicWithoutAnyNews(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		s := n.create(0, map[string]string{"x": "0"})
		n.load(1, s.ID())
		n.cut.Store(true)
		s.Set("x", Bytes([]byte("1")))
		if err := n.all[0].Commit(t.Context(), s, CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		got, err := n.all[1].Load(t.Context(), s.ID(), LoadOptions{After: s.Version()})
		if err != nil {
			t.Fatal(err)
		}
		n.expectContent(got, map[string]string{"x": "1"})
	})
}

func TestConcurrentIncrementsOnThreeNodesAreAllCounted(t *testing.T) {
	for _, answers := range []string{"all arrive", "some are lost after the write", "some requests are lost"} {
		t.Run(answers, func(t *testing.T) {
			onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
				id := n.create(0, map[string]string{"n": "0"}).ID()
				var calls atomic.Int64
				lost := fmt.Errorf("%w: the answer was lost", store.ErrAmbiguous)
				n.store.hook(func(apply func() (store.CAS, error)) (store.CAS, error) {
					lose := answers != "all arrive" && calls.Add(1)%3 == 0
					if lose && answers == "some requests are lost" {
						return 0, lost
					}
					cas, err := apply()
					if lose {
						return 0, lost
					}
					return cas, err
				})
				var acknowledged, unknown atomic.Int64
				var writers sync.WaitGroup
				for i := range 12 {
					writers.Go(func() {
						for range 25 {
							_, err := n.all[i%3].Update(t.Context(), id, LoadOptions{}, CommitOptions{}, increment)
							switch {
							case err == nil:
								acknowledged.Add(1)
							case errors.Is(err, ErrOutcomeUnknown):
								unknown.Add(1)
							default:
								t.Errorf("increment: %v", err)
							}
						}
					})
				}
				writers.Wait()
				got, _ := strconv.ParseInt(content(n.load(0, id))["n"], 10, 64)
				if got < acknowledged.Load() || got > acknowledged.Load()+unknown.Load() {
					t.Errorf("the counter is %d after %d acknowledged and %d unknown increments", got, acknowledged.Load(), unknown.Load())
				}
			})
		})
	}
}

func increment(s *Session) error {
	v, _ := s.Get("n")
	n, err := strconv.Atoi(string(v.Data))
	if err != nil {
		return err
	}
	s.Set("n", Bytes([]byte(strconv.Itoa(n+1))))
	return nil
}

func TestAnOutcomeThatTooManyWritesHaveBuriedIsCalledUnknown(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		s := n.create(0, map[string]string{"n": "0"})
		busy := n.all[1]
		var overtaken atomic.Bool
		n.store.hook(func(apply func() (store.CAS, error)) (store.CAS, error) {
			if !overtaken.CompareAndSwap(false, true) {
				return apply()
			}
			for range proto.MaxWrites + 1 {
				if _, err := busy.Update(t.Context(), s.ID(), LoadOptions{}, CommitOptions{}, increment); err != nil {
					t.Error(err)
				}
			}
			return 0, store.ErrAmbiguous
		})
		s.Set("x", Bytes([]byte("1")))
		if err := n.all[0].Commit(t.Context(), s, CommitOptions{}); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("error %v, want ErrOutcomeUnknown", err)
		}
	})
}

func TestASessionOverItsSizeLimitKeepsItsOldContent(t *testing.T) {
	onVirtualTime(t, func(o *Options) { o.MaxBytes = 2000 }, func(t *testing.T, n *nodes) {
		s := n.create(0, map[string]string{"x": "0"})
		s.Set("big", Bytes([]byte(strings.Repeat("b", 2000))))
		if err := n.all[0].Commit(t.Context(), s, CommitOptions{}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("error %v, want ErrTooLarge", err)
		}
		n.expectContent(n.load(1, s.ID()), map[string]string{"x": "0"})
	})
}

func TestADamagedRecordSpoilsOnlyItsSession(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		damaged, sound := n.create(0, map[string]string{"x": "0"}), n.create(0, map[string]string{"x": "0"})
		key := n.all[0].key(damaged.ID())
		if _, err := n.store.Store.Put(t.Context(), key, []byte("not a record"), store.PutOptions{TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if _, err := n.all[1].Load(t.Context(), damaged.ID(), LoadOptions{}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("the damaged session: %v", err)
		}
		n.expectContent(n.load(1, sound.ID()), map[string]string{"x": "0"})
		if _, err := n.all[1].Delete(t.Context(), damaged.ID()); err != nil {
			t.Errorf("deleting the damaged session: %v", err)
		}
	})
}

func TestSettingsThatNoSessionCanHaveAreRefused(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		for name, draft := range map[string]Draft{
			"idle limit below a second": {Idle: time.Millisecond},
			"negative absolute limit":   {Absolute: -5 * time.Second},
			"name too long":             {Attributes: map[string]Value{strings.Repeat("n", 300): {}}},
			"principal too long":        {Principal: strings.Repeat("p", 300)},
		} {
			if _, err := n.all[0].Create(t.Context(), draft); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestParseToken(t *testing.T) {
	const id = "abcdefghijklmnopqrstuvwxyz0"
	for text, want := range map[string]Token{
		id + "~42.n1":       {ID: id, Version: 42, Route: "n1"},
		id + "~42":          {ID: id, Version: 42},
		id + ".n1":          {ID: id, Route: "n1"},
		id:                  {ID: id},
		id + "~junk.n1":     {ID: id, Route: "n1"},
		id + "~-1":          {ID: id},
		id + "~1~2.n1":      {ID: id, Route: "n1"},
		id + "~42.n1.extra": {ID: id, Version: 42, Route: "n1.extra"},
	} {
		if got, ok := ParseToken(text); !ok || got != want {
			t.Errorf("ParseToken(%q) = %+v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "~", ".", "short~1.n1", id + "x~1.n1", strings.Repeat("/", idChars)} {
		if got, ok := ParseToken(text); ok {
			t.Errorf("ParseToken(%q) = %+v, want none", text, got)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add("abcdefghijklmnopqrstuvwxyz0~42.n1")
	f.Add("..~~")
	f.Fuzz(func(t *testing.T, s string) {
		token, ok := ParseToken(s)
		if !ok {
			return
		}
		if again, ok := ParseToken(token.String()); !ok || again != token {
			t.Errorf("ParseToken(%q) = %+v does not survive", s, token)
		}
	})
}

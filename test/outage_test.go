package test

import (
	"errors"
	"testing"
	"time"

	"klatch/store"
	"klatch/test/cbnode"
)

// TestOutageIsNoticedAndEnds takes the node away and back, and checks what callers see.
func TestOutageIsNoticedAndEnds(t *testing.T) {
	for _, c := range []struct {
		name       string
		down, back func(node *cbnode.Node) error
	}{
		{
			"Frozen",
			func(node *cbnode.Node) error { node.Freeze(); return nil },
			func(node *cbnode.Node) error { node.Thaw(); return nil },
		},
		{
			"Gone",
			func(node *cbnode.Node) error { node.Stop(); return nil },
			(*cbnode.Node).Restart,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := startNode(t, cbnode.Options{})
			s := open(t, options(t, node, "kv-timeout=200ms&breaker=3&start-wait=20s"))
			cas, err := s.Put(t.Context(), key("k"), []byte("v"), hourly(store.Absent))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.down(node); err != nil {
				t.Fatal(err)
			}
			gone := time.Now()
			eventually(t, "not ready", func() bool {
				if _, err := s.Get(t.Context(), key("k")); !errors.Is(err, store.ErrUnavailable) {
					t.Fatalf("a read of a store that is gone: %v", err)
				}
				return s.Ready() != nil
			})
			t.Logf("noticed after %s", time.Since(gone))

			// From now on it is certain that nothing is sent.
			before := s.Stats()
			for range 100 {
				if _, err := s.Put(t.Context(), key("k"), []byte("w"), hourly(cas)); !errors.Is(err, store.ErrUnavailable) {
					t.Fatalf("a write to a store that is gone: %v", err)
				}
			}
			if kept := s.Stats().KeptAway - before.KeptAway; kept != 100 {
				t.Errorf("%d of 100 operations were answered without the store", kept)
			}

			if err := c.back(node); err != nil {
				t.Fatal(err)
			}
			back := time.Now()
			eventually(t, "ready again", func() bool { return s.Ready() == nil })
			t.Logf("back after %s; %+v", time.Since(back), s.Stats())
			if rec, err := s.Get(t.Context(), key("k")); err != nil || string(rec.Value) != "v" || rec.CAS != cas {
				t.Errorf("%+v, %v", rec, err)
			}
			if outages := s.Stats().Outages; outages != 1 {
				t.Errorf("%d outages were counted", outages)
			}
		})
	}
}

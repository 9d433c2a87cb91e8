package near

import (
	"errors"
	"testing"

	"klatch/proto"
	"klatch/store"
)

func TestAWriteKeepsItsCopyAndTellsThePeers(t *testing.T) {
	run(t, func(f *fixture) {
		if err := f.put(at(2, "two"), store.Any); err != nil {
			t.Fatal(err)
		}
		f.expect("read", f.get(Want{}), "two")
		f.expectReads(0)
		if want := (proto.Invalidate{Key: f.key, Version: 2}); len(f.news.items) != 1 || f.news.items[0] != want {
			t.Errorf("published %v", f.news.items)
		}
	})
}

func TestALostConflictDropsTheOldCopyAndTellsNobody(t *testing.T) {
	run(t, func(f *fixture) {
		copy, err := f.cache.Get(f.t.Context(), f.key, Want{})
		if err != nil {
			t.Fatal(err)
		}
		f.storeWrite(at(2, "two"))
		if err := f.put(at(3, "three"), copy.CAS); !errors.Is(err, store.ErrConflict) {
			t.Fatalf("put: %v", err)
		}
		f.expect("read", f.get(Want{Level: Local}), "two")
		if len(f.news.items) != 0 {
			t.Errorf("published %v", f.news.items)
		}
	})
}

func TestAnAmbiguousWriteLeavesNoCopyAndTellsThePeers(t *testing.T) {
	run(t, func(f *fixture) {
		f.get(Want{})
		f.store.failPut = store.ErrAmbiguous
		if err := f.put(at(2, "two"), store.Any); !errors.Is(err, store.ErrAmbiguous) {
			t.Fatalf("put: %v", err)
		}
		f.expect("read", f.get(Want{Level: Local}), "two")
		if len(f.news.items) != 1 {
			t.Errorf("published %v", f.news.items)
		}
	})
}

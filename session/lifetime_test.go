package session

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"klatch/store"
	"klatch/store/near"
)

func TestTheIdleLimitIsNeverEarlyAndAtMostATenthLate(t *testing.T) {
	const idle = 10 * time.Second
	onVirtualTime(t, func(o *Options) { o.Idle = idle }, func(t *testing.T, n *nodes) {
		id := n.create(0, nil).ID()
		writes := n.store.puts.Load()
		end := time.Now().Add(30 * time.Second)
		for i := 0; time.Now().Before(end); i++ { // 100 reads a second over three nodes
			n.load(i%3, id)
			time.Sleep(10 * time.Millisecond)
		}
		if touches := n.store.puts.Load() - writes; touches > 31 {
			t.Errorf("%d touches in 30 s, want about one a second", touches)
		}
		time.Sleep(idle - 20*time.Millisecond) // the last read was 10 ms before the end
		if _, err := n.all[1].Load(t.Context(), id, LoadOptions{Passive: true}); err != nil {
			t.Errorf("just inside the idle limit: %v", err)
		}
		time.Sleep(idle/10 + 20*time.Millisecond)
		for node := range n.all {
			n.expectGone(node, id)
		}
	})
}

func TestPassiveReadsDoNotExtendASession(t *testing.T) {
	onVirtualTime(t, func(o *Options) { o.Idle = 10 * time.Second }, func(t *testing.T, n *nodes) {
		id := n.create(0, nil).ID()
		for range 10 {
			time.Sleep(time.Second)
			if _, err := n.all[0].Load(t.Context(), id, LoadOptions{Passive: true}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		n.expectGone(0, id)
	})
}

func TestANodeThatMissedTheTouchesDoesNotEndTheSession(t *testing.T) {
	onVirtualTime(t, func(o *Options) { o.Idle = 10 * time.Second }, func(t *testing.T, n *nodes) {
		id := n.create(0, nil).ID()
		n.load(1, id)
		n.cut.Store(true)
		for range 20 {
			time.Sleep(time.Second)
			n.load(0, id)
		}
		n.load(1, id) // its own copy's deadline passed nine seconds ago
	})
}

func TestATouchMovesNoVersionThatClientsSee(t *testing.T) {
	onVirtualTime(t, func(o *Options) { o.Idle = 10 * time.Second }, func(t *testing.T, n *nodes) {
		s := n.create(0, map[string]string{"x": "0"})
		stale := n.load(1, s.ID())
		time.Sleep(2 * time.Second)
		n.load(0, s.ID())
		synctest.Wait()
		if touched := n.load(2, s.ID()); touched.Version() != s.Version() || !touched.LastAccess().After(s.Created()) {
			t.Errorf("version %d, last access %s after a touch", touched.Version(), touched.LastAccess())
		}
		stale.Set("x", Bytes([]byte("1")))
		if err := n.all[1].Commit(t.Context(), stale, CommitOptions{IfMatch: s.Version()}); err != nil {
			t.Errorf("a touch broke a condition: %v", err)
		}
	})
}

func TestAReadDoesNotWaitForItsTouch(t *testing.T) {
	onVirtualTime(t, func(o *Options) { o.Idle = 10 * time.Second }, func(t *testing.T, n *nodes) {
		id := n.create(0, nil).ID()
		blocked := make(chan struct{})
		n.store.hook(func(apply func() (store.CAS, error)) (store.CAS, error) {
			<-blocked
			return apply()
		})
		time.Sleep(2 * time.Second)
		begin := time.Now()
		n.load(0, id)
		if waited := time.Since(begin); waited > 0 {
			t.Errorf("the read waited %s", waited)
		}
		close(blocked)
		synctest.Wait()
		if got, err := n.all[1].Load(t.Context(), id, LoadOptions{Level: near.Latest, Passive: true}); err != nil || !got.LastAccess().Equal(begin) {
			t.Errorf("the access at %s is not recorded: %v, %v", begin, got.LastAccess(), err)
		}
	})
}

func TestTheAbsoluteLimitEndsASessionInUse(t *testing.T) {
	onVirtualTime(t, func(o *Options) { o.Absolute = 5 * time.Second }, func(t *testing.T, n *nodes) {
		id := n.create(0, nil).ID()
		for range 49 {
			time.Sleep(100 * time.Millisecond)
			n.load(0, id)
		}
		time.Sleep(100 * time.Millisecond)
		for node := range n.all {
			n.expectGone(node, id)
		}
	})
}

func TestLongLimitsAndNever(t *testing.T) {
	const day = 24 * time.Hour
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		for _, days := range []time.Duration{29, 30, 31, 400} {
			s, err := n.all[0].Create(t.Context(), Draft{Idle: Never, Absolute: days * day})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(days*day - time.Second)
			if got := n.load(1, s.ID()); got.Absolute() != days*day {
				t.Errorf("%d days are reported as %s", days, got.Absolute())
			}
			time.Sleep(time.Second)
			n.expectGone(2, s.ID())
		}
		immortal, err := n.all[0].Create(t.Context(), Draft{Idle: Never, Absolute: Never})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3000 * day)
		n.load(2, immortal.ID())
	})
}

func TestAnExpiredSessionIsDeletedFromTheStore(t *testing.T) {
	onVirtualTime(t, func(o *Options) { o.Idle = time.Second }, func(t *testing.T, n *nodes) {
		s := n.create(0, nil)
		time.Sleep(2 * time.Second) // past the deadline, before the store's own collection
		n.expectGone(1, s.ID())
		if _, err := n.store.Store.Get(t.Context(), n.all[0].key(s.ID())); err == nil {
			t.Error("the expired record is still in the store")
		}
	})
}

func TestAnAccessIsRecordedAlsoByANodeWhoseCopyIsBehindATouch(t *testing.T) {
	const idle = 10 * time.Second
	onVirtualTime(t, func(o *Options) { o.Idle = idle }, func(t *testing.T, n *nodes) {
		id := n.create(0, nil).ID()
		n.load(1, id)
		time.Sleep(2 * time.Second)
		n.load(0, id) // a touch, which makes the copy of node 1 one revision old
		time.Sleep(2 * time.Second)
		n.load(1, id) // the last access of all
		time.Sleep(idle - time.Millisecond)
		if _, err := n.all[2].Load(t.Context(), id, LoadOptions{Passive: true}); err != nil {
			t.Errorf("just inside the idle limit: %v", err)
		}
	})
}

func TestTheEndOfAManagerRecordsWhatTheStoreHadNotTakenOrSaysSo(t *testing.T) {
	for _, back := range []bool{true, false} {
		onVirtualTime(t, func(o *Options) { o.Idle = 10 * time.Second }, func(t *testing.T, n *nodes) {
			used, idle := n.create(0, nil).ID(), n.create(0, nil).ID()
			n.load(0, idle)
			time.Sleep(2 * time.Second)
			n.store.hook(func(func() (store.CAS, error)) (store.CAS, error) { return 0, store.ErrUnavailable })
			accessed := time.Now()
			n.load(0, used)
			synctest.Wait()
			if back {
				n.store.hook(func(apply func() (store.CAS, error)) (store.CAS, error) { return apply() })
			}
			time.Sleep(time.Second)

			err := n.all[0].Close()
			switch {
			case back && err != nil:
				t.Errorf("with the store back: %v", err)
			case !back && (err == nil || !strings.Contains(err.Error(), "to 1 sessions are not recorded")):
				t.Errorf("with the store away: %v", err)
			}
			got, err := n.all[1].Load(t.Context(), used, LoadOptions{Level: near.Latest, Passive: true})
			if err != nil || got.LastAccess().Equal(accessed) != back {
				t.Errorf("the store says that it was used last at %v, %v; it was at %v", got.LastAccess(), err, accessed)
			}
		})
	}
}

package session

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"klatch/store"
	"klatch/store/near"
)

// behind makes a session with x=1 of which node 1 holds a copy that is older than what node 0 made of it, because
// the news was lost.
func behind(t *testing.T, n *nodes, change func(s *Session)) (id string, current *Session) {
	t.Helper()
	s := n.create(0, map[string]string{"x": "1"})
	n.load(1, s.ID())
	n.cut.Store(true)
	change(s)
	if err := n.all[0].Commit(t.Context(), s, CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	return s.ID(), s
}

func set(value string) func(s *Session) {
	return func(s *Session) { s.Set("x", Bytes([]byte(value))) }
}

func TestAWriteOfWhatAnOldCopyHasIsNotTakenForNothing(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		id, _ := behind(t, n, set("2"))
		late := n.load(1, id)
		late.Set("x", Bytes([]byte("1"))) // as its old copy has it
		if err := n.all[1].Commit(t.Context(), late, CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		got, err := n.all[2].Load(t.Context(), id, LoadOptions{Level: near.Latest})
		if err != nil {
			t.Fatal(err)
		}
		n.expectContent(got, map[string]string{"x": "1"})
	})
}

func TestAWriteOfWhatAnOldCopyHasDoesNotSucceedAfterADelete(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		id := n.create(0, map[string]string{"x": "1"}).ID()
		late := n.load(1, id)
		n.cut.Store(true)
		if _, err := n.all[0].Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		late.Set("x", Bytes([]byte("1")))
		if err := n.all[1].Commit(t.Context(), late, CommitOptions{}); !errors.Is(err, ErrGone) {
			t.Errorf("error %v, want ErrGone", err)
		}
	})
}

func TestAConditionIsNotRefusedBecauseACopyIsOld(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		id, current := behind(t, n, set("2"))
		updated, err := n.all[1].Update(t.Context(), id, LoadOptions{Level: near.Local}, CommitOptions{IfMatch: current.Version()}, func(s *Session) error {
			s.Set("y", Bytes([]byte("3")))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		n.expectContent(updated, map[string]string{"x": "2", "y": "3"})
	})
}

func TestStrictSeesAConflictAlsoWhereNothingWouldChange(t *testing.T) {
	onVirtualTime(t, func(o *Options) { o.Conflict = Strict }, func(t *testing.T, n *nodes) {
		id, current := behind(t, n, set("2"))
		late, err := n.all[1].Load(t.Context(), id, LoadOptions{Level: near.Local})
		if err != nil {
			t.Fatal(err)
		}
		late.Set("x", Bytes([]byte("1")))
		var conflict *ConflictError
		if err := n.all[1].Commit(t.Context(), late, CommitOptions{}); !errors.As(err, &conflict) || conflict.Current != current.Version() {
			t.Errorf("error %v, want a conflict at version %d", err, current.Version())
		}
	})
}

// lateFirst loses the first write's answer and applies that write only when the second comes.
func lateFirst(n *nodes, second error) {
	var calls atomic.Int64
	var late func() (store.CAS, error)
	n.store.hook(func(apply func() (store.CAS, error)) (store.CAS, error) {
		switch calls.Add(1) {
		case 1:
			late = apply
			return 0, store.ErrAmbiguous
		case 2:
			if _, err := late(); err != nil {
				return 0, err
			}
			if second != nil {
				return 0, second
			}
		}
		return apply()
	})
}

func TestAWriteThatIsAppliedLateCountsOnce(t *testing.T) {
	for name, second := range map[string]error{"the second attempt meets it": nil, "the store is lost at the second attempt": store.ErrUnavailable} {
		t.Run(name, func(t *testing.T) {
			onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
				s := n.create(0, map[string]string{"n": "0"})
				lateFirst(n, second)
				got, err := n.all[0].Update(t.Context(), s.ID(), LoadOptions{}, CommitOptions{IfMatch: s.Version()}, increment)
				if err != nil {
					t.Fatal(err)
				}
				n.expectContent(got, map[string]string{"n": "1"})
			})
		})
	}
}

// Somebody may have read what was written before it was deleted, so that nobody may say that it never was.
func TestAWriteWhoseAnswerAndThenWhoseSessionWasLostIsCalledUnknown(t *testing.T) {
	for name, applied := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
				s := n.create(0, map[string]string{"x": "0"})
				n.store.hook(func(apply func() (store.CAS, error)) (store.CAS, error) {
					if applied {
						if _, err := apply(); err != nil {
							t.Error(err)
						}
					}
					if _, err := n.all[1].Delete(t.Context(), s.ID()); err != nil {
						t.Error(err)
					}
					return 0, store.ErrAmbiguous
				})
				s.Set("x", Bytes([]byte("1")))
				if err := n.all[0].Commit(t.Context(), s, CommitOptions{}); !errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrGone) {
					t.Errorf("error %v, want ErrOutcomeUnknown alone", err)
				}
				n.expectGone(1, s.ID())
			})
		})
	}
}

// The answer of a writer that lost its first answer, and found its write overtaken, is its own version and content: with
// the version of another's change it would undo that change unseen by its next conditional save.
func TestAWriteThatWasOvertakenBeforeItsAnswerIsAnsweredWithItsOwnVersion(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		s := n.create(0, map[string]string{"x": "0"})
		var calls atomic.Int64
		n.store.hook(func(apply func() (store.CAS, error)) (store.CAS, error) {
			if calls.Add(1) != 1 {
				return apply()
			}
			if _, err := apply(); err != nil {
				return 0, err
			}
			other := n.load(1, s.ID())
			other.Set("x", Bytes([]byte("theirs")))
			if err := n.all[1].Commit(t.Context(), other, CommitOptions{}); err != nil {
				return 0, err
			}
			return 0, store.ErrAmbiguous
		})
		s.Set("x", Bytes([]byte("mine")))
		if err := n.all[0].Commit(t.Context(), s, CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		n.expectContent(s, map[string]string{"x": "mine"})

		current := n.load(1, s.ID())
		s.Set("y", Bytes([]byte("1")))
		var conflict *ConflictError
		if err := n.all[0].Commit(t.Context(), s, CommitOptions{IfMatch: s.Version()}); !errors.As(err, &conflict) || conflict.Current != current.Version() {
			t.Errorf("a save on the condition that nothing has changed: %v, want a conflict at version %d", err, current.Version())
		}
		if err := n.all[0].Commit(t.Context(), s, CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		n.expectContent(s, map[string]string{"x": "theirs", "y": "1"})
	})
}

func TestANewSessionWhoseFirstWriteIsAppliedLateIsThere(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		lateFirst(n, nil)
		s := n.create(0, map[string]string{"x": "1"})
		n.expectContent(n.load(1, s.ID()), map[string]string{"x": "1"})
	})
}

func TestASaveDoesNotTakeAnAccessBack(t *testing.T) {
	onVirtualTime(t, func(o *Options) {
		if o.Node == "n2" { // its clock is half a minute behind
			o.Now = func() time.Time { return time.Now().Add(-30 * time.Second) }
		}
	}, func(t *testing.T, n *nodes) {
		s := n.create(0, map[string]string{"x": "0"})
		got, err := n.all[1].Update(t.Context(), s.ID(), LoadOptions{Passive: true}, CommitOptions{}, func(s *Session) error {
			s.Set("x", Bytes([]byte("1")))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got.LastAccess().Before(s.LastAccess()) {
			t.Errorf("the last access went back from %s to %s", s.LastAccess(), got.LastAccess())
		}
	})
}

func TestDeleteIfMatch(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		first := n.create(0, map[string]string{"x": "0"})
		old := first.Version()
		set("1")(first)
		if err := n.all[0].Commit(t.Context(), first, CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		var conflict *ConflictError
		if _, err := n.all[1].DeleteIfMatch(t.Context(), first.ID(), old); !errors.As(err, &conflict) || conflict.Current != first.Version() {
			t.Errorf("an old version: %v", err)
		}
		if _, err := n.all[1].DeleteIfMatch(t.Context(), first.ID(), first.Version()); err != nil {
			t.Errorf("the current version: %v", err)
		}
		if _, err := n.all[1].DeleteIfMatch(t.Context(), first.ID(), first.Version()); !errors.Is(err, ErrNotFound) {
			t.Errorf("again: %v", err)
		}
	})
}

func TestAWriteWhoseClientLeavesStillTellsOfItsEnd(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		s := n.create(0, map[string]string{"x": "1"})
		blocked := make(chan struct{})
		n.store.hook(func(apply func() (store.CAS, error)) (store.CAS, error) {
			<-blocked
			return apply()
		})
		ctx, leave := context.WithCancel(t.Context())
		saved := make(chan error, 1)
		go func() {
			mine := n.load(0, s.ID())
			set("2")(mine)
			saved <- n.all[0].Commit(ctx, mine, CommitOptions{})
		}()
		synctest.Wait()
		leave()
		synctest.Wait()
		n.expectContent(n.load(1, s.ID()), map[string]string{"x": "1"}) // the write has not been applied yet
		close(blocked)
		if err := <-saved; err != nil {
			t.Errorf("the write whose client left: %v", err)
		}
		for node := range n.all {
			n.expectContent(n.load(node, s.ID()), map[string]string{"x": "2"})
		}
	})
}

func TestADeleteWhoseAnswersAreLostIsRepeated(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		first, second := n.create(0, nil), n.create(0, nil)
		n.load(1, first.ID())
		n.store.loseDeletes.Store(3)
		if _, err := n.all[0].Delete(t.Context(), first.ID()); err != nil {
			t.Errorf("delete: %v", err)
		}
		n.store.loseDeletes.Store(1)
		if _, err := n.all[0].DeleteIfMatch(t.Context(), second.ID(), second.Version()); err != nil {
			t.Errorf("conditional delete: %v", err)
		}
		for node := range n.all {
			n.expectGone(node, first.ID())
			n.expectGone(node, second.ID())
		}
	})
}

// A clear failure of the second attempt says nothing of the first.
func TestADeleteThatMayHaveHappenedSaysSo(t *testing.T) {
	onVirtualTime(t, nil, func(t *testing.T, n *nodes) {
		first, second := n.create(0, nil), n.create(0, nil)
		n.store.down.Store(true)
		n.store.loseDeletes.Store(1)
		if _, err := n.all[0].Delete(t.Context(), first.ID()); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("delete: %v", err)
		}
		n.store.loseDeletes.Store(1)
		if _, err := n.all[0].DeleteIfMatch(t.Context(), second.ID(), second.Version()); err != nil {
			t.Errorf("conditional delete: %v, though the record is seen to be gone", err)
		}
		if _, err := n.all[0].Delete(t.Context(), n.create(0, nil).ID()); errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("delete that did not get through: %v", err)
		}
	})
}

func TestAnExpiryWhoseAnswerIsLostIsNotFound(t *testing.T) {
	onVirtualTime(t, func(o *Options) { o.Idle = time.Second }, func(t *testing.T, n *nodes) {
		s := n.create(0, nil)
		time.Sleep(2 * time.Second)
		n.store.loseDeletes.Store(2)
		n.expectGone(1, s.ID())
	})
}

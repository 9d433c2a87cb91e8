package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"klatch/internal/clock"
	"klatch/proto"
	"klatch/store"
	"klatch/store/near"
)

// CommitOptions are the conditions of a commit.
type CommitOptions struct {
	// IfMatch is the version that the content must have; zero for any.
	IfMatch proto.Version
	// Conflict overrides the manager's setting.
	Conflict Conflict
	// Passive saves do not extend the session.
	Passive bool
}

const (
	maxAttributes    = 10_000
	maxAttributeName = 256 // bytes
)

// Commit merges the view's changes onto the newest revision and saves it. If nothing changed, nothing is
// written. A session that was only started is saved for the first time. Afterwards the view shows what was
// saved.
//
// It fails with a ConflictError, ErrGone, ErrTooLarge, ErrInvalid, ErrOutcomeUnknown or an error of the
// store; in every case but ErrOutcomeUnknown nothing was written.
func (m *Manager) Commit(ctx context.Context, s *Session, opts CommitOptions) error {
	if s.base != nil && len(s.changes) == 0 && opts.IfMatch == 0 {
		return nil
	}
	saved, err := m.revise(ctx, s, opts.Passive, func(next *proto.Session) (bool, error) {
		return m.merge(s, s.record, next, opts)
	})
	if err != nil {
		return fmt.Errorf("saving the session: %w", err)
	}
	*s = *view(s.id, saved)
	return nil
}

// Update loads the session, lets change work on the view and commits it. If another writer comes first, it
// loads the newest revision and calls change again. An error of change ends it, and nothing is written.
func (m *Manager) Update(ctx context.Context, id string, load LoadOptions, opts CommitOptions, change func(*Session) error) (*Session, error) {
	loaded, err := m.Load(ctx, id, load)
	if err != nil {
		return nil, err
	}
	saved, err := m.revise(ctx, loaded, opts.Passive, func(next *proto.Session) (bool, error) {
		attempt := &Session{id: id, record: next, base: loaded.base}
		if err := change(attempt); err != nil {
			return false, err
		}
		return m.merge(attempt, loaded.record, next, opts)
	})
	if err != nil {
		return nil, fmt.Errorf("saving the session: %w", err)
	}
	return view(id, saved), nil
}

// merge makes the changes of s, which were decided on the revision loaded, on next, the newest one.
func (m *Manager) merge(s *Session, loaded, next *proto.Session, opts CommitOptions) (changed bool, err error) {
	if err := m.permit(s, loaded, next, opts); err != nil {
		return false, err
	}
	changed = s.applyTo(next.Attributes)
	return changed, checkAttributes(next.Attributes)
}

// permit checks a commit's conditions on the newest revision. loaded is the one that the caller decided on.
func (m *Manager) permit(s *Session, loaded, newest *proto.Session, opts CommitOptions) error {
	if opts.IfMatch != 0 && newest.Changed != opts.IfMatch {
		return &ConflictError{Current: newest.Changed, Precondition: true}
	}
	mode := opts.Conflict
	if mode == DefaultConflict {
		mode = m.opts.Conflict
	}
	if mode == Merge || newest.Changed == loaded.Changed {
		return nil
	}
	for name := range s.changes {
		before, had := loaded.Attributes[name]
		now, has := newest.Attributes[name]
		if had != has || !same(before, now) {
			return &ConflictError{Current: newest.Changed, Attribute: name}
		}
	}
	return nil
}

// revise replaces the record that s is a view of by what mutate makes of a private copy, if it is still that
// revision; if not, it begins again on the newest one. When mutate reports no change, nothing is written and
// the copy that it looked at is returned. A session that was only started is always written.
//
// A write is decided by the store's CAS, but that there is nothing to write, or a conflict, must not be decided
// on a copy that may be old: these are looked at again on what the store has now.
func (m *Manager) revise(ctx context.Context, s *Session, passive bool, mutate func(next *proto.Session) (changed bool, err error)) (*near.Copy[*revision], error) {
	key, base, record := m.key(s.id), s.base, s.record
	for attempt := 0; ; attempt++ {
		next := record.Clone()
		changed, err := mutate(next)
		fresh := base == nil || attempt > 0
		switch {
		case base != nil && base.Value.superseded:
		case err != nil && (fresh || !errors.Is(err, ErrConflict)):
			return nil, err
		case err == nil && !changed && base != nil && fresh:
			return base, nil
		case err == nil && (changed || base == nil):
			saved, err := m.save(ctx, key, base, next, passive)
			if !errors.Is(err, store.ErrConflict) {
				return saved, err
			}
			if err := backOff(ctx, attempt); err != nil {
				return nil, fmt.Errorf("%w: gave up after losing to %d other writers: %w", store.ErrUnavailable, attempt+1, err)
			}
		}
		base, err = m.get(ctx, key, m.latest())
		if errors.Is(err, ErrNotFound) {
			return nil, ErrGone
		}
		if err != nil {
			return nil, err
		}
		record = base.Value.record
	}
}

// backOff lets writers that meet at one record get out of step: not at all before the first repetition,
// then a random time that doubles up to 20 ms.
func backOff(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return ctx.Err()
	}
	most := min(time.Millisecond<<min(attempt, 5), 20*time.Millisecond)
	return clock.Sleep(ctx, rand.N(most))
}

func checkAttributes(attributes map[string]Value) error {
	if len(attributes) > maxAttributes {
		return fmt.Errorf("%w: %d attributes, at most %d are allowed", ErrInvalid, len(attributes), maxAttributes)
	}
	for name := range attributes {
		if len(name) > maxAttributeName {
			return fmt.Errorf("%w: attribute name of %d bytes, at most %d are allowed", ErrInvalid, len(name), maxAttributeName)
		}
	}
	return nil
}

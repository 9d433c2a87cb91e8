package session

import (
	"context"
	"errors"
	"fmt"

	"klatch/internal/clock"
	"klatch/proto"
	"klatch/store"
	"klatch/store/near"
)

// LoadOptions say how a session is read.
type LoadOptions struct {
	// Level is the consistency; the zero value is near.Session.
	Level near.Level
	// After is the version that the client has seen last; see near.Want.
	After proto.Version
	// Passive reads, such as polling, do not extend the session.
	Passive bool
}

// Load returns the session of that id, or ErrNotFound if there is none or it has expired.
func (m *Manager) Load(ctx context.Context, id string, opts LoadOptions) (*Session, error) {
	if !ValidID(id) {
		return nil, ErrNotFound
	}
	key := m.key(id)
	now := m.opts.Now()
	copy, err := m.get(ctx, key, near.Want{Level: opts.Level, After: opts.After, Arrived: now})
	if err != nil {
		return nil, err
	}
	if !opts.Passive {
		m.touch(key, copy, now)
	}
	return view(id, copy), nil
}

// Delete ends a session, on every node and for ever. Deleting one that is not there succeeds. It returns when every
// live node has confirmed that it dropped its copy, or after a second, and then the names of the nodes that have not:
// within three seconds these check every read against the store.
func (m *Manager) Delete(ctx context.Context, id string) (unconfirmed []string, err error) {
	if !ValidID(id) {
		return nil, nil
	}
	ctx, cancel := followed(ctx)
	defer cancel()
	var lost error // the failure that left the outcome open; no later one closes it
	for {
		unconfirmed, err := m.near.DeleteConfirmed(ctx, m.key(id), store.Any)
		switch {
		case err == nil, errors.Is(err, store.ErrNotFound):
			return unconfirmed, nil
		case errors.Is(err, store.ErrAmbiguous):
			lost = err
		case lost == nil:
			return unconfirmed, err
		}
		// Ids are never reused, so a delete whose answer was lost can simply be repeated.
		if clock.Sleep(ctx, settlePause) != nil {
			return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, lost)
		}
	}
}

// DeleteIfMatch is Delete of a session whose content is at that version. It refuses any other with a ConflictError.
func (m *Manager) DeleteIfMatch(ctx context.Context, id string, version proto.Version) (unconfirmed []string, err error) {
	if !ValidID(id) {
		return nil, ErrNotFound
	}
	ctx, cancel := followed(ctx)
	defer cancel()
	var lost error // as in Delete
	for {
		unconfirmed, err := m.deleteIf(ctx, id, version)
		switch {
		case err == nil:
			return unconfirmed, nil
		case lost != nil && errors.Is(err, ErrNotFound):
			// Whether by this attempt or by another's, it is gone.
			return m.opts.News.Confirm(ctx, proto.Invalidate{Key: m.key(id), Dead: true}), nil
		case errors.Is(err, store.ErrAmbiguous):
			lost = err
		case errors.Is(err, store.ErrConflict): // perhaps by a touch, which leaves the content as it is
			continue
		case lost == nil || !errors.Is(err, store.ErrUnavailable):
			return unconfirmed, err
		}
		if clock.Sleep(ctx, settlePause) != nil {
			return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, lost)
		}
	}
}

// deleteIf is one attempt of DeleteIfMatch.
func (m *Manager) deleteIf(ctx context.Context, id string, version proto.Version) (unconfirmed []string, err error) {
	copy, err := m.get(ctx, m.key(id), m.latest())
	if err != nil {
		return nil, err
	}
	if current := copy.Value.record.Changed; current != version {
		return nil, &ConflictError{Current: current, Precondition: true}
	}
	unconfirmed, err = m.near.DeleteConfirmed(ctx, m.key(id), copy.CAS)
	if errors.Is(err, store.ErrNotFound) {
		return unconfirmed, ErrNotFound
	}
	return unconfirmed, err
}

// get returns a revision that meets want and was alive when the reader arrived.
func (m *Manager) get(ctx context.Context, key proto.Key, want near.Want) (*near.Copy[*revision], error) {
	for {
		copy, err := m.near.Get(ctx, key, want)
		if errors.Is(err, store.ErrNotFound) {
			return nil, ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		if !copy.Value.Expired(want.Arrived) {
			return copy, nil
		}
		// Whoever deletes under this CAS has ended the session. A conflict means that somebody used it in
		// the last moment, a lost answer that it may be so: look again.
		err = m.near.Delete(ctx, key, copy.CAS)
		switch {
		case err == nil || errors.Is(err, store.ErrNotFound):
			return nil, ErrNotFound
		case errors.Is(err, store.ErrAmbiguous):
			if clock.Sleep(ctx, settlePause) != nil {
				return nil, err
			}
		case !errors.Is(err, store.ErrConflict):
			return nil, err
		}
		want = m.latest()
	}
}

// latest asks the store, now.
func (m *Manager) latest() near.Want {
	return near.Want{Level: near.Latest, Arrived: m.opts.Now()}
}

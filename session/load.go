package session

import (
	"context"
	"errors"
	"time"

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
		if copy, err = m.touch(ctx, key, copy, now); err != nil {
			return nil, err
		}
	}
	return view(id, copy), nil
}

// Delete ends a session, on every node and for ever. Deleting one that is not there succeeds.
func (m *Manager) Delete(ctx context.Context, id string) error {
	if !ValidID(id) {
		return nil
	}
	err := m.near.Delete(ctx, m.key(id), store.Any)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
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
		// the last moment: look again.
		err = m.near.Delete(ctx, key, copy.CAS)
		switch {
		case err == nil || errors.Is(err, store.ErrNotFound):
			return nil, ErrNotFound
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

// touch records an access at now if it is due, and returns the newest copy it knows of. If another writer came
// first, it looks again: unless that one recorded an access as well, it repeats. An access that cannot be
// recorded because the store fails is left to the next read.
func (m *Manager) touch(ctx context.Context, key proto.Key, copy *near.Copy[*revision], now time.Time) (*near.Copy[*revision], error) {
	for {
		unclaim, due := copy.Value.claimTouch(now)
		if !due {
			return copy, nil
		}
		next := copy.Value.record.Clone()
		next.Stamp(m.opts.Clock.Next(next.Version), m.opts.Writer)
		next.LastAccess = now
		touched, err := m.write(ctx, key, copy, next, proto.Touched{Key: key, LastAccess: now})
		switch {
		case err == nil:
			return touched, nil
		case errors.Is(err, ErrGone):
			return nil, ErrNotFound
		case !errors.Is(err, store.ErrConflict):
			unclaim()
			return copy, nil
		}
		newest, err := m.get(ctx, key, m.latest())
		switch {
		case errors.Is(err, ErrNotFound):
			return nil, err
		case err != nil:
			return copy, nil
		}
		copy = newest
	}
}

package session

import (
	"context"
	"errors"
	"time"

	"klatch/proto"
	"klatch/store"
	"klatch/store/near"
)

const (
	// touchTimeout bounds the recording of one access.
	touchTimeout = time.Second
	// maxTouches is how many accesses are recorded at once in the background. Beyond it, which takes a store that
	// hardly answers, an access is left to the next read.
	maxTouches = 1024
)

// touch records an access at now if it is due. It never makes the reader wait for the store.
func (m *Manager) touch(key proto.Key, copy *near.Copy[*revision], now time.Time) {
	unclaim, due := copy.Value.claimTouch(now)
	if !due {
		return
	}
	record := func() {
		ctx, cancel := context.WithTimeout(context.Background(), touchTimeout)
		defer cancel()
		// A failed one is not lost: the next read records its own, or else the end of the manager does.
		_ = m.recordAccess(ctx, key, copy, unclaim, now)
	}
	select {
	case m.touching <- struct{}{}:
		if !m.tasks.Go(func() { record(); <-m.touching }) {
			<-m.touching // closed: nobody reads any more
		}
	default:
		unclaim()
		m.unrecorded.add(key, now)
	}
}

// recordAccess writes an access at now to the record of a copy whose touch was claimed. If another writer came
// first, it looks again: unless that one recorded an access as well, it repeats. If the store fails, the claim is
// taken back and the next read tries again.
func (m *Manager) recordAccess(ctx context.Context, key proto.Key, copy *near.Copy[*revision], unclaim func(), now time.Time) (failed error) {
	defer func() {
		if failed == nil {
			m.unrecorded.remove(key)
		} else {
			m.unrecorded.add(key, now)
		}
	}()
	for {
		next := copy.Value.record.Clone()
		next.Stamp(m.opts.Clock.Next(next.Version), m.opts.Writer)
		next.LastAccess = later(next.LastAccess, now)
		_, err := m.write(ctx, key, copy, next, proto.Touched{Key: key, LastAccess: next.LastAccess})
		switch {
		case err == nil, errors.Is(err, ErrGone):
			return nil
		case !errors.Is(err, store.ErrConflict):
			unclaim()
			return err
		}
		newest, err := m.get(ctx, key, m.latest())
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		copy = newest
		var due bool
		if unclaim, due = copy.Value.claimTouch(now); !due {
			return nil
		}
	}
}

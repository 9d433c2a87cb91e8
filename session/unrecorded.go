package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"klatch/proto"
)

const (
	// maxUnrecorded bounds the accesses that are remembered to be recorded later. More belong to sessions whose next
	// read records them, or which end early.
	maxUnrecorded = 1 << 16
	// flushTimeout bounds the last attempt to record them.
	flushTimeout = 2 * time.Second
)

// unrecorded are the last accesses that the store has not taken, by session. The zero value is ready to use.
type unrecorded struct {
	mu sync.Mutex // guards at
	at map[proto.Key]time.Time
}

func (u *unrecorded) add(key proto.Key, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.at == nil {
		u.at = map[proto.Key]time.Time{}
	}
	if known, ok := u.at[key]; ok || len(u.at) < maxUnrecorded {
		u.at[key] = later(known, at)
	}
}

func (u *unrecorded) remove(key proto.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.at, key)
}

func (u *unrecorded) all() map[proto.Key]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.at)
}

// flush tries once more to record what is unrecorded, and gives up at the first that the store does not take.
func (m *Manager) flush() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	for key, at := range m.unrecorded.all() {
		if err := m.recordLate(ctx, key, at); err != nil {
			return fmt.Errorf("the last accesses to %d sessions are not recorded, so that these may end early: %w", len(m.unrecorded.all()), err)
		}
	}
	return nil
}

// recordLate records an access of a while ago, unless a later one has made it needless or the session has ended.
func (m *Manager) recordLate(ctx context.Context, key proto.Key, at time.Time) error {
	copy, err := m.get(ctx, key, m.latest())
	if err == nil {
		if unclaim, due := copy.Value.claimTouch(at); due {
			return m.recordAccess(ctx, key, copy, unclaim, at)
		}
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	m.unrecorded.remove(key)
	return nil
}

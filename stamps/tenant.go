package stamps

import (
	"sync"
	"time"

	"klatch/internal/clock"
	"klatch/proto"
	"klatch/store"
)

// whole is the scope of everything that a tenant has.
const whole = ""

// tenant is what a node knows of one tenant's stamps.
type tenant struct {
	name string

	mu     sync.RWMutex      // guards all below
	epoch  uint64            // the highest heard of
	floor  uint64            // everything below is dead
	scopes map[string]uint64 // epochs above the floor
	looked time.Time         // when the last read that succeeded began
	look   *look             // under way, or nil

	raising sync.Mutex // guards all below
	queue   []*raise
	busy    bool // somebody takes from the queue

	last *revision // what the store holds, as far as this node knows; only who took busy uses it
}

// revision is a tenant's record as it was read or written.
type revision struct {
	record proto.StampRecord
	cas    store.CAS
}

// look is a read of the record under way.
type look struct {
	began time.Time
	done  chan struct{}
	err   error
}

func (t *tenant) known() (epoch uint64, looked time.Time) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.epoch, t.looked
}

func (t *tenant) alive(epoch uint64, scopes []string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if epoch < t.floor {
		return false
	}
	for _, scope := range scopes {
		if epoch < t.scopes[scope] {
			return false
		}
	}
	return true
}

// apply takes a stamp and reports whether it was news. Where there are far more scopes than a record may hold, they
// are folded into the floor, so that memory stays bounded whatever peers send.
func (t *tenant) apply(maxStamps int, stamp proto.Stamp) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch = max(t.epoch, stamp.Epoch)
	switch {
	case stamp.Epoch <= t.floor || stamp.Epoch <= t.scopes[stamp.Scope]:
		return false
	case stamp.Scope == whole:
		t.raiseFloor(stamp.Epoch)
	default:
		t.scopes[stamp.Scope] = stamp.Epoch
	}
	if len(t.scopes) > 2*maxStamps {
		t.raiseFloor(t.epoch)
	}
	return true
}

func (t *tenant) raiseFloor(floor uint64) {
	t.floor = max(t.floor, floor)
	for scope, epoch := range t.scopes {
		if epoch <= t.floor {
			delete(t.scopes, scope)
		}
	}
}

// merge takes what a read that began at a time has found. A stamp up to the record's epoch that the record does not
// hold has been dropped from it, because nothing that it could kill lives any more.
func (t *tenant) merge(record proto.StampRecord, began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for scope, epoch := range t.scopes {
		if epoch <= record.Epoch {
			delete(t.scopes, scope)
		}
	}
	for _, s := range record.Stamps {
		t.scopes[s.Scope] = max(t.scopes[s.Scope], s.Epoch)
	}
	t.epoch = max(t.epoch, record.Epoch)
	t.raiseFloor(record.Floor)
	if began.After(t.looked) {
		t.looked = began
	}
}

// looking is a look, and whether the caller is to carry it out.
type looking struct {
	*look
	first bool
}

// join returns the read under way, or a new one if it began too long ago or a fence has been raised since.
func (t *tenant) join(fence *time.Time, now time.Time) looking {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.look != nil && clock.Elapsed(t.look.began, now) <= joinWithin && (fence == nil || t.look.began.After(*fence)) {
		return looking{look: t.look}
	}
	t.look = &look{began: now, done: make(chan struct{})}
	return looking{t.look, true}
}

func (t *tenant) endLook(l *look) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.look == l {
		t.look = nil
	}
	close(l.done)
}

package session

import (
	"sync/atomic"
	"time"

	"klatch/proto"
)

// idleTolerance is the part of the idle limit by which a session may end late, and for which accesses go
// unrecorded.
const idleTolerance = 10 // a tenth

// revision is one decoded record in the near cache. All but touched is immutable.
type revision struct {
	record *proto.Session
	size   int

	// superseded says that the store has a later one already, so that nothing may be written over this one. Such a
	// revision is in no cache.
	superseded bool

	// touched is the last access that anybody recorded and that this node knows of, in Unix milliseconds.
	// News may move it beyond the record's own.
	touched atomic.Int64
}

func newRevision(record *proto.Session, encodedSize int) *revision {
	r := &revision{record: record, size: encodedSize}
	r.touched.Store(record.LastAccess.UnixMilli())
	return r
}

// Stamps implements near.Value.
func (r *revision) Stamps() (version, changed proto.Version) {
	return r.record.Version, r.record.Changed
}

// Size implements near.Value. Decoded, a record takes about twice its encoded size.
func (r *revision) Size() int { return 2*r.size + 300 }

// Expired implements near.Value.
func (r *revision) Expired(now time.Time) bool {
	deadline, ok := r.deadline()
	return ok && !now.Before(deadline)
}

// deadline returns when the session ends unless somebody uses it, and false if never.
func (r *revision) deadline() (time.Time, bool) {
	var deadline time.Time
	if idle := r.record.Idle; idle > 0 {
		deadline = time.UnixMilli(r.touched.Load()).Add(idle + idle/idleTolerance)
	}
	if absolute := r.record.Absolute; absolute > 0 {
		end := r.record.Created.Add(absolute)
		if deadline.IsZero() || end.Before(deadline) {
			deadline = end
		}
	}
	return deadline, !deadline.IsZero()
}

// noteTouch takes news of an access that was recorded elsewhere.
func (r *revision) noteTouch(at time.Time) {
	ms := at.UnixMilli()
	for {
		known := r.touched.Load()
		if known >= ms || r.touched.CompareAndSwap(known, ms) {
			return
		}
	}
}

// claimTouch reports whether an access at now is to be recorded, and true to one caller only. The caller
// takes the claim back by unclaim if it cannot record it.
func (r *revision) claimTouch(now time.Time) (unclaim func(), claimed bool) {
	idle := r.record.Idle
	known := r.touched.Load()
	ms := now.UnixMilli()
	if idle == 0 || ms-known <= int64(idle/idleTolerance/time.Millisecond) {
		return nil, false
	}
	if !r.touched.CompareAndSwap(known, ms) {
		return nil, false
	}
	return func() { r.touched.CompareAndSwap(ms, known) }, true
}

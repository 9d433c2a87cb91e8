package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"klatch/internal/clock"
	"klatch/proto"
	"klatch/store"
	"klatch/store/near"
)

// pendingWrite is one write whose outcome is to be decided.
type pendingWrite struct {
	key     proto.Key
	base    *near.Copy[*revision] // nil for a new record
	record  *proto.Session
	encoded []byte
	opts    store.PutOptions
	news    proto.Item
}

const (
	// writeTimeout bounds a write whose caller set no deadline.
	writeTimeout = 10 * time.Second
	// settleTimeout bounds how long after the first lost answer a caller waits for the outcome.
	settleTimeout = 5 * time.Second
)

// followed returns a context for a write and for finding out what became of it. It keeps the caller's deadline but
// not its cancellation: a write that is under way cannot be called back, and the copies in memory and the news must
// tell of its end also if the client has left.
func followed(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(context.WithoutCancel(ctx), deadline)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
}

// settlePause is how long a writer waits before it asks again what became of its write.
const settlePause = 50 * time.Millisecond

// decide writes until it is known whether the write was applied. It returns store.ErrConflict if it was not
// because another came first, and ErrGone if there is no record to write over.
//
// Once an answer was lost, every failure after it says nothing of the first attempt, which may be applied late:
// the record is read back each time. If this write is among its recent ones, it was applied. If the record is
// still the base, the same bytes go out again under the same CAS, which can be applied only once. Otherwise it
// was not applied, unless so many writes have followed that the list has wrapped past the base: then the
// outcome is unknown, and the error says so.
func (m *Manager) decide(ctx context.Context, w pendingWrite, revision *revision) (*near.Copy[*revision], error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx)) // nothing was sent
	}
	ctx, cancel := followed(ctx)
	defer cancel()
	var lost error // the first failure that left the outcome open
	for {
		copy, err := m.near.Put(ctx, w.key, revision, w.encoded, w.opts, w.news)
		switch {
		case err == nil:
			return copy, nil
		case errors.Is(err, store.ErrAmbiguous):
			if lost == nil {
				limited, cancel := context.WithTimeout(ctx, settleTimeout)
				defer cancel()
				ctx, lost = limited, err
			}
		case lost == nil && errors.Is(err, store.ErrNotFound):
			return nil, fmt.Errorf("%w: %w", ErrGone, err)
		case lost == nil:
			return nil, err
		}
		copy, decided, err := m.readBack(ctx, &w)
		if decided {
			return copy, err
		}
		if clock.Sleep(ctx, settlePause) != nil {
			return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, lost)
		}
	}
}

// readBack looks in the store for what became of a write. It reports false while that cannot be known.
func (m *Manager) readBack(ctx context.Context, w *pendingWrite) (copy *near.Copy[*revision], decided bool, err error) {
	current, err := m.near.Get(ctx, w.key, m.latest())
	switch {
	case errors.Is(err, store.ErrNotFound) && w.base == nil:
		// Nobody else knows a new id, so nobody can have deleted it: the write has not been applied yet.
		return nil, false, err
	case errors.Is(err, store.ErrNotFound):
		// Others may have seen the write before the session was deleted.
		return nil, true, fmt.Errorf("%w: the session has ended since", ErrOutcomeUnknown)
	case errors.Is(err, store.ErrUnavailable):
		return nil, false, err
	case err != nil:
		return nil, true, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	writes, mine := current.Value.record.Writes, proto.Write{Version: w.record.Version, Writer: w.record.Writer}
	switch {
	case current.Value.lastWrite() == mine:
		return current, true, nil
	case slices.Contains(writes, mine):
		// What the caller wrote is to be answered, not what others have made of it since: whoever demanded the
		// version of the answer for the next change would undo theirs unseen.
		own := newRevision(w.record, len(w.encoded))
		own.superseded = true
		return &near.Copy[*revision]{Value: own, CAS: current.CAS}, true, nil
	case w.base != nil && current.CAS == w.base.CAS:
		return nil, false, nil
	case w.base != nil && slices.Contains(writes, w.base.Value.lastWrite()):
		return nil, true, fmt.Errorf("%w: another write came first", store.ErrConflict)
	default:
		return nil, true, fmt.Errorf("%w: more than %d writes followed", ErrOutcomeUnknown, proto.MaxWrites)
	}
}

func (r *revision) lastWrite() proto.Write {
	return proto.Write{Version: r.record.Version, Writer: r.record.Writer}
}

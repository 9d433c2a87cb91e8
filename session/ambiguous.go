package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// readBackPause is how long a writer waits before it asks an unreachable store again what became of its write.
const readBackPause = 50 * time.Millisecond

// decide writes until it is known whether the write was applied. It returns store.ErrConflict if it was not
// because another came first, and ErrGone if there is no record to write over.
//
// When the answer of a write is lost, the record is read back. If this write is among its recent ones, it was
// applied. If the record is still the base, the same bytes go out again under the same CAS, which can be
// applied only once. Otherwise it was not applied, unless so many writes have followed that the list has
// wrapped past the base: then the outcome is unknown, and the error says so.
func (m *Manager) decide(ctx context.Context, w pendingWrite, revision *revision) (*near.Copy[*revision], error) {
	for {
		copy, err := m.near.Put(ctx, w.key, revision, w.encoded, w.opts, w.news)
		if !errors.Is(err, store.ErrAmbiguous) {
			return copy, w.gone(err)
		}
		current, err := m.readBack(ctx, w.key, err)
		switch {
		case errors.Is(err, ErrOutcomeUnknown):
			return nil, err
		case errors.Is(err, store.ErrNotFound):
			if w.base != nil {
				return nil, ErrGone
			}
			continue // nobody else knows a new id, so nobody can have deleted it
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		writes := current.Value.record.Writes
		switch {
		case slices.Contains(writes, proto.Write{Version: w.record.Version, Writer: w.record.Writer}):
			return current, nil
		case w.base != nil && current.CAS == w.base.CAS:
			continue
		case w.base != nil && slices.Contains(writes, w.base.Value.lastWrite()):
			return nil, fmt.Errorf("%w: another write came first", store.ErrConflict)
		default:
			return nil, fmt.Errorf("%w: more than %d writes followed", ErrOutcomeUnknown, proto.MaxWrites)
		}
	}
}

// gone maps a write that found no record to write over.
func (w *pendingWrite) gone(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return err
}

// readBack reads the current record, again and again while the store cannot be reached, until ctx ends.
func (m *Manager) readBack(ctx context.Context, key proto.Key, cause error) (*near.Copy[*revision], error) {
	for {
		current, err := m.near.Get(ctx, key, m.latest())
		if !errors.Is(err, store.ErrUnavailable) {
			return current, err
		}
		if pause(ctx, readBackPause) != nil {
			return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, cause)
		}
	}
}

func (r *revision) lastWrite() proto.Write {
	return proto.Write{Version: r.record.Version, Writer: r.record.Writer}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

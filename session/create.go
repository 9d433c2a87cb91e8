package session

import (
	"context"
	"fmt"
	"maps"
	"time"

	"klatch/proto"
	"klatch/store"
	"klatch/store/near"
)

// Draft describes a session to be made. Zero limits take the manager's defaults.
type Draft struct {
	Attributes map[string]Value
	Idle       time.Duration // at least a second, or Never
	Absolute   time.Duration // at least a second, or Never
	Principal  string        // the user it belongs to, at most 256 bytes; empty for none
}

const maxPrincipalBytes = 256

// Create makes a session under a new id and saves it.
func (m *Manager) Create(ctx context.Context, draft Draft) (*Session, error) {
	s, err := m.Start(draft)
	if err != nil {
		return nil, err
	}
	if err := m.Commit(ctx, s, CommitOptions{}); err != nil {
		return nil, err
	}
	return s, nil
}

// Start makes a session under a new id without saving it: the first Commit does. Until then it is nowhere
// but in the view.
func (m *Manager) Start(draft Draft) (*Session, error) {
	idle, err := limit("idle", draft.Idle, m.opts.Idle)
	if err != nil {
		return nil, err
	}
	absolute, err := limit("absolute", draft.Absolute, m.opts.Absolute)
	if err != nil {
		return nil, err
	}
	if len(draft.Principal) > maxPrincipalBytes {
		return nil, fmt.Errorf("%w: principal of %d bytes, at most %d are allowed", ErrInvalid, len(draft.Principal), maxPrincipalBytes)
	}
	id, err := newID(m.opts.Rand)
	if err != nil {
		return nil, err
	}
	now := m.opts.Now().Truncate(time.Millisecond) // as the record keeps it
	record := &proto.Session{
		Created:    now,
		LastAccess: now,
		Idle:       idle,
		Absolute:   absolute,
		Principal:  draft.Principal,
		Attributes: maps.Clone(draft.Attributes),
	}
	if record.Attributes == nil {
		record.Attributes = map[string]Value{}
	}
	return &Session{id: id, record: record}, nil
}

// limit resolves a limit against its default and returns it as records keep it: zero for never.
func limit(name string, asked, fallback time.Duration) (time.Duration, error) {
	if asked == 0 {
		asked = fallback
	}
	if asked == Never {
		return 0, nil
	}
	return asked, CheckLimit(name, asked)
}

// maxLimit is the longest limit of a session; beyond it, say never.
const maxLimit = 100 * 365 * 24 * time.Hour

// CheckLimit refuses, with ErrInvalid, what no idle or absolute limit can be. name is what the message calls it.
func CheckLimit(name string, limit time.Duration) error {
	if limit != Never && (limit < time.Second || limit > maxLimit) {
		return fmt.Errorf("%w: %s limit of %s: use 1s to %s, or never", ErrInvalid, name, limit, maxLimit)
	}
	return nil
}

// later returns the later of two times: a node whose clock is behind must not take an access back.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// save stamps record as this node's change of the content and writes it over base, or as a new record where
// base is nil.
func (m *Manager) save(ctx context.Context, key proto.Key, base *near.Copy[*revision], record *proto.Session, passive bool) (*near.Copy[*revision], error) {
	record.Stamp(m.opts.Clock.Next(record.Version), m.opts.Writer)
	record.Changed = record.Version
	if !passive {
		record.LastAccess = later(record.LastAccess, m.opts.Now())
	}
	record.Route = m.opts.Node
	return m.write(ctx, key, base, record, nil)
}

// write puts a stamped record over base and finds out what became of it.
func (m *Manager) write(ctx context.Context, key proto.Key, base *near.Copy[*revision], record *proto.Session, news proto.Item) (*near.Copy[*revision], error) {
	w := pendingWrite{key: key, base: base, record: record, encoded: record.Encode(), news: news}
	content := record.Changed == record.Version // a touch must pass whatever the limit has become
	if content && len(w.encoded) > m.opts.MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, len(w.encoded), m.opts.MaxBytes)
	}
	revision := newRevision(record, len(w.encoded))
	w.opts = store.PutOptions{CAS: store.Absent, TTL: m.ttl(revision)}
	if base != nil {
		w.opts.CAS = base.CAS
	}
	return m.decide(ctx, w, revision)
}

// ttlSlack keeps a record a little beyond its deadline, so that whoever finds it expired can still say so.
const ttlSlack = time.Minute

// ttl returns when the store may collect a record. It only collects garbage: the deadline lives in the record.
func (m *Manager) ttl(r *revision) time.Duration {
	deadline, ok := r.deadline()
	if !ok {
		return store.Forever
	}
	return max(deadline.Sub(m.opts.Now()), 0) + ttlSlack
}

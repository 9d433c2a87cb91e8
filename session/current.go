package session

import (
	"context"
	"time"
)

// saveTimeout bounds a save.
const saveTimeout = 10 * time.Second

// Current is the session of one HTTP request under [Manager.Middleware]. Its zero value has none.
type Current struct {
	manager *Manager
	session *Session
	gone    bool
	ended   *Session
	wrote   bool // the client is to hold a new token
	sent    bool // the first byte has left: what changes now is too late
}

type contextKey struct{}

// FromContext returns the request's session. Without the middleware it returns one that has no session and
// can start none.
func FromContext(ctx context.Context) *Current {
	if c, ok := ctx.Value(contextKey{}).(*Current); ok {
		return c
	}
	return &Current{}
}

// Session returns the session, or nil if the request has none.
func (c *Current) Session() *Session { return c.session }

// Gone reports whether the request named a session that has ended.
func (c *Current) Gone() bool { return c.gone }

// Start gives the request a new session, which replaces the one it had. It is saved before the answer leaves.
func (c *Current) Start(draft Draft) (*Session, error) {
	if c.manager == nil {
		return nil, ErrNoMiddleware
	}
	s, err := c.manager.Start(draft)
	if err != nil {
		return nil, err
	}
	c.End()
	c.session, c.gone = s, false
	return s, nil
}

// End ends the session, if there is one, before the answer leaves.
func (c *Current) End() {
	if c.session != nil && c.session.base != nil {
		c.ended = c.session
	}
	c.session = nil
}

// Save saves what the handler has done so far, so that it can speak of the outcome in its answer. Without it
// the middleware saves when the answer begins. Its error is the handler's to answer: what could not be saved
// is dropped.
//
// It does not end with ctx: what a handler has done is not lost because the client left.
func (c *Current) Save(ctx context.Context) error {
	if !c.unsaved() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if s := c.session; s != nil {
		before := s.Version()
		if err := c.manager.Commit(ctx, s, CommitOptions{}); err != nil {
			c.session, c.ended = nil, nil
			return err
		}
		c.wrote = c.wrote || s.Version() != before
	}
	if ended := c.ended; ended != nil {
		if _, err := c.manager.Delete(ctx, ended.id); err != nil {
			c.ended = nil
			return err
		}
		c.ended, c.wrote = nil, true
	}
	return nil
}

// unsaved reports whether there is something to save.
func (c *Current) unsaved() bool {
	return c.ended != nil || c.session != nil && (len(c.session.changes) > 0 || c.session.base == nil)
}

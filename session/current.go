package session

import "context"

// Current is the session of one HTTP request under [Manager.Middleware]. Its zero value has none.
type Current struct {
	manager *Manager
	session *Session
	gone    bool
	ended   *Session
	saved   bool // the first byte has left: what changes now is too late
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

// commit saves what the handler did and reports whether the client is to hold a new token.
func (c *Current) commit(ctx context.Context) (changed bool, err error) {
	c.saved = true
	if c.session != nil {
		before := c.session.Version()
		if err := c.manager.Commit(ctx, c.session, CommitOptions{}); err != nil {
			return false, err
		}
		changed = c.session.Version() != before
	}
	if c.ended != nil {
		return true, c.manager.Delete(ctx, c.ended.id)
	}
	return changed, nil
}

// late reports whether something was changed after the commit.
func (c *Current) late() bool {
	return c.session != nil && (len(c.session.changes) > 0 || c.session.base == nil)
}

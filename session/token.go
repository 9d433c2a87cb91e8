package session

import (
	"strings"

	"klatch/proto"
)

// Token is what a client holds: the value of the session cookie, <id>~<version>.<route>. There is one dot,
// so the stickiness by suffix of HAProxy, Apache and nginx works. Version and route may be stripped or
// forged without harm: the version can only cost one store read, the route is a hint to the balancer.
type Token struct {
	ID      string
	Version proto.Version // of the content that the client has seen last
	Route   string        // the node that serves the session
}

// String returns the cookie's value.
func (t Token) String() string { return t.ID + "~" + t.Version.String() + "." + t.Route }

// ParseToken reads a cookie's value and reports whether it holds a session id. A version or route that is
// missing or malformed is left out.
func ParseToken(s string) (Token, bool) {
	var t Token
	s, t.Route, _ = strings.Cut(s, ".")
	id, version, _ := strings.Cut(s, "~")
	if !ValidID(id) {
		return Token{}, false
	}
	t.ID = id
	t.Version, _ = proto.ParseVersion(version)
	return t, true
}

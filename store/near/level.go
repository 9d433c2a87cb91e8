package near

import (
	"fmt"
	"time"

	"klatch/proto"
)

// Level is the consistency that a read asks for.
type Level uint8

const (
	// Session, the default, promises read-your-writes and monotonic reads to whoever carries the token
	// that the last answer gave, on every node, whatever gossip does.
	Session Level = iota
	// Local promises some committed value, at most the propagation delay old.
	Local
	// Latest is linearizable: it always asks the store.
	Latest
)

// String returns the name that configuration and the HTTP API use.
func (l Level) String() string {
	switch l {
	case Session:
		return "session"
	case Local:
		return "local"
	case Latest:
		return "latest"
	default:
		return fmt.Sprintf("level-%d", uint8(l))
	}
}

// ParseLevel reads the name of a level.
func ParseLevel(s string) (Level, error) {
	for _, l := range []Level{Session, Local, Latest} {
		if s == l.String() {
			return l, nil
		}
	}
	return 0, fmt.Errorf("unknown consistency %.32q: use local, session or latest", s)
}

// Want is what a reader demands of a copy.
type Want struct {
	Level Level
	// After is the token: the version of the content that the reader has seen last. A copy below it does
	// not answer at level Session. What the store then says is final, so a forged token costs one read.
	After proto.Version
	// Arrived is when the reader came, by the cache's clock; a caller that has just read the clock passes
	// it on. The zero value reads it.
	Arrived time.Time
}

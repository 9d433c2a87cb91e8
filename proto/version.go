package proto

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Version is a hybrid-logical-clock stamp (Kulkarni et al., "Logical Physical Clocks", 2014): the upper
// 48 bits are Unix milliseconds, the lower 16 a counter that overflows into them. Within one key versions
// strictly grow, also across delete and re-create. Zero means "no version" and is below every other.
//
// Versions leave the process as decimal strings, because JavaScript cannot hold 64-bit integers.
type Version uint64

// MaxVersion is the highest version that a record may carry; anything above it is corrupt. It leaves the
// top bit clear so that a version also fits a signed integer.
const MaxVersion = Version(1<<63 - 1)

const counterBits = 16

// maxLead bounds how far a version that was read or received may push a clock beyond its own time.
const maxLead = time.Second

// VersionAt returns the lowest version of the millisecond that t falls into.
func VersionAt(t time.Time) Version { return Version(t.UnixMilli()) << counterBits }

// Time returns the wall-clock millisecond inside the version.
func (v Version) Time() time.Time { return time.UnixMilli(int64(v >> counterBits)) }

// String returns the decimal form that clients see and send.
func (v Version) String() string { return strconv.FormatUint(uint64(v), 10) }

// ParseVersion reads the decimal form. It refuses signs, blanks and numbers above [MaxVersion].
func ParseVersion(s string) (Version, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || Version(n) > MaxVersion {
		return 0, fmt.Errorf("version %.32q is not a decimal number between 0 and %d", s, MaxVersion)
	}
	return Version(n), nil
}

// Clock issues the versions of one node. It is safe for concurrent use.
//
// A record may carry a version from the future, if a node with a wrong clock wrote it. The next version of that record
// must be above it, those of others must not: so what only follows such a record is counted apart. Odd versions are of
// that sort and even ones are not, so that none is issued twice.
type Clock struct {
	now func() time.Time

	mu     sync.Mutex // guards all below
	last   Version    // the highest even version issued, or version observed
	beyond Version    // the highest odd version issued
}

// NewClock returns a clock that reads physical time from now.
func NewClock(now func() time.Time) *Clock { return &Clock{now: now} }

// Next issues a version above prev, the version of the record that is about to be written, and above the physical time.
// It issues none twice, so a version together with its writer names one write.
func (c *Clock) Next(prev Version) Version {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if prev > VersionAt(now.Add(maxLead)) {
		c.beyond = (max(c.beyond, prev) + 1) | 1
		return c.beyond
	}
	c.last = (max(c.last, prev, VersionAt(now)) + 2) &^ 1
	return c.last
}

// Observe moves the clock forward to a version that was read from the store or received from a peer, but
// never more than one second beyond physical time: one node with a wrong clock must not drag the others.
// Versions that clients send are never observed.
func (c *Clock) Observe(v Version) {
	limit := VersionAt(c.now().Add(maxLead))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, min(v, limit))
}

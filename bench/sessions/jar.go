package sessions

import (
	"strconv"
	"strings"
	"sync"
)

// jar holds one session's cookie for all its children.
type jar struct {
	mu      sync.Mutex // guards the rest
	value   string
	version uint64
}

// get returns the cookie and the version that a request with it carries.
func (j *jar) get() (value string, version uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.value, j.version
}

// put keeps a cookie that an answer has set, unless a newer one came first: the answers of two children may
// arrive in either order. Of two with the same version it keeps the later, since the route may have moved.
func (j *jar) put(value string) {
	version := cookieVersion(value)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.value == "" || version >= j.version {
		j.value, j.version = value, version
	}
}

// cookieVersion reads the version from <id>~<version>.<route>.
func cookieVersion(value string) uint64 {
	_, rest, _ := strings.Cut(value, "~")
	digits, _, _ := strings.Cut(rest, ".")
	version, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

//go:build clockoffset

package node

import (
	"os"
	"sync"
	"time"
)

// now is a clock that is wrong by TEST_CLOCK_OFFSET, such as 5s or -5s, so that tests can see what a wrong clock
// does. No release is built with this tag.
func now() time.Time { return time.Now().Add(clockOffset()) }

var clockOffset = sync.OnceValue(func() time.Duration {
	offset, err := time.ParseDuration(os.Getenv("TEST_CLOCK_OFFSET"))
	if err != nil {
		panic("TEST_CLOCK_OFFSET: " + err.Error())
	}
	return offset
})

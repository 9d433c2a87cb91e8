package couchbase

import (
	"math"
	"time"

	"klatch/store"
)

// expiry returns what gocb must be told so that a record lives for at least ttl. It sends up to 30 days as
// a number of seconds and more as a date, as the server wants it.
//
// The server counts in whole seconds of its clock, and a record that is to live for n of them is gone n-1
// to n seconds later: hence one second more than ttl rounded up. A date beyond the 32 bits of the protocol
// (the year 2106) would wrap into the past: such a record lives for ever.
func expiry(ttl time.Duration, now time.Time) time.Duration {
	const none = 0
	if ttl == store.Forever || ttl > time.Unix(math.MaxUint32, 0).Sub(now)-2*time.Second {
		return none
	}
	return (ttl + time.Second - 1).Truncate(time.Second) + time.Second
}

package couchbase

import (
	"math"
	"time"

	"klatch/store"
)

// longestRelative is the age above which the server takes an expiry for a date, and gocb sends one.
const longestRelative = 30 * 24 * time.Hour

// expiry returns what gocb must be told so that a record lives for at least ttl.
//
// The server counts in whole seconds of its clock, and a record that is to live for n of them is gone n-1
// to n seconds later: hence one second more than ttl rounded up. The date of a longer life is made by gocb
// from time.Now; now corrects it to the clock of the Store. A date beyond the 32 bits of the protocol (the
// year 2106) would wrap into the past: such a record lives for ever.
func expiry(ttl time.Duration, now time.Time) time.Duration {
	const none = 0
	if ttl == store.Forever || ttl > time.Unix(math.MaxUint32, 0).Sub(now)-2*time.Second {
		return none
	}
	whole := (ttl + time.Second - 1).Truncate(time.Second) + time.Second
	if whole < longestRelative {
		return whole
	}
	return max(whole+time.Until(now), longestRelative)
}

package couchbase

import (
	"math"
	"testing"
	"time"

	"klatch/store"
)

func TestExpiryIsNeverEarly(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for ttl, want := range map[time.Duration]time.Duration{
		time.Nanosecond:            2 * time.Second,
		time.Second:                2 * time.Second,
		time.Second + 1:            3 * time.Second,
		30*day - time.Second:       30 * day,
		30 * day:                   30*day + time.Second,
		400 * day:                  400*day + time.Second,
		store.Forever:              0,
		math.MaxInt64:              0, // the year 2318
		80 * 365 * day:             0, // the year 2106 would wrap into the past
		79*365*day + 1500*1000_000: 79*365*day + 3*time.Second,
	} {
		if got := expiry(ttl, now); got != want {
			t.Errorf("a TTL of %s became %s, want %s", ttl, got, want)
		}
	}
}

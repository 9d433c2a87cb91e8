package proto

import (
	"sync"
	"testing"
	"time"
)

func TestVersionsOfOneClockGrowHoweverTimeBehaves(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	clock := NewClock(func() time.Time { return now })
	last := Version(0)
	for _, step := range []time.Duration{0, 0, time.Millisecond, -time.Hour, time.Second, -time.Second} {
		now = now.Add(step)
		v := clock.Next(0)
		if v <= last {
			t.Fatalf("after a step of %s the clock issued %d, not above %d", step, v, last)
		}
		last = v
	}
}

func TestNextIsAboveThePreviousVersion(t *testing.T) {
	clock := NewClock(time.Now)
	prev := VersionAt(time.Now().Add(24 * time.Hour))
	for range 100 {
		v := clock.Next(prev)
		if v <= prev || v > prev+2 {
			t.Fatalf("Next(%d) = %d", prev, v)
		}
		prev = v
	}
}

// A record that a node with a wrong clock wrote must not carry its time into other records.
func TestAVersionFromTheFutureStaysInItsRecord(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	clock := NewClock(func() time.Time { return now })
	clock.Next(VersionAt(now.Add(time.Hour)))
	if v := clock.Next(0); v.Time().After(now.Add(time.Second)) {
		t.Errorf("the version of another record is %s ahead", v.Time().Sub(now))
	}
}

// Two writes over one base, one before and one after the clock has reached it, must not bear the same version.
func TestNoVersionIsIssuedTwiceWhenTheClockReachesTheFuture(t *testing.T) {
	begin := time.UnixMilli(1_700_000_000_000)
	base := VersionAt(begin.Add(maxLead + 2*time.Millisecond))
	now := begin
	clock := NewClock(func() time.Time { return now })
	seen := map[Version]bool{}
	for ; now.Before(begin.Add(2 * maxLead)); now = now.Add(time.Millisecond) {
		v := clock.Next(base)
		if v <= base || seen[v] {
			t.Fatalf("%s after the beginning: version %d over %d, issued before: %t", now.Sub(begin), v, base, seen[v])
		}
		seen[v] = true
	}
}

func TestObserveMovesTheClockAtMostOneSecondAhead(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	clock := NewClock(func() time.Time { return now })

	near := VersionAt(now.Add(300 * time.Millisecond))
	clock.Observe(near)
	if v := clock.Next(0); v <= near || v > near+2 {
		t.Errorf("after observing a version 300 ms ahead: %d, want one just above %d", v, near)
	}
	clock.Observe(VersionAt(now.Add(time.Hour)))
	if limit := VersionAt(now.Add(time.Second)) + 2; clock.Next(0) > limit {
		t.Errorf("a version one hour ahead moved the clock beyond one second")
	}
}

func TestConcurrentCallersGetDistinctVersions(t *testing.T) {
	clock := NewClock(time.Now)
	var mu sync.Mutex
	seen := map[Version]bool{}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 1000 {
				v := clock.Next(0)
				mu.Lock()
				if seen[v] {
					t.Errorf("version %d was issued twice", v)
				}
				seen[v] = true
				mu.Unlock()
			}
		})
	}
	callers.Wait()
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{"0": 0, "1": 1, "9223372036854775807": MaxVersion} {
		if got, err := ParseVersion(text); err != nil || got != want {
			t.Errorf("ParseVersion(%q) = %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", " 1", "1 ", "0x1", "1e3", "9223372036854775808", "99999999999999999999"} {
		if got, err := ParseVersion(text); err == nil {
			t.Errorf("ParseVersion(%q) = %d, want an error", text, got)
		}
	}
}

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
	ahead := VersionAt(time.Now().Add(24 * time.Hour))
	if v := clock.Next(ahead); v != ahead+1 {
		t.Fatalf("Next(%d) = %d", ahead, v)
	}
}

func TestObserveMovesTheClockAtMostOneSecondAhead(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	clock := NewClock(func() time.Time { return now })

	near := VersionAt(now.Add(300 * time.Millisecond))
	clock.Observe(near)
	if v := clock.Next(0); v != near+1 {
		t.Errorf("after observing a version 300 ms ahead: %d, want %d", v, near+1)
	}
	clock.Observe(VersionAt(now.Add(time.Hour)))
	if limit := VersionAt(now.Add(time.Second)) + 1; clock.Next(0) > limit {
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

package cluster

import (
	"slices"
	"time"
)

// tracker knows which numbers of one origin have arrived and which are missing. It keeps ranges, so that a
// jump of any size costs the same memory. It does no I/O and has no clock: times are those of arrival.
type tracker struct {
	floor uint64 // up to here nothing is known and nothing is missed: it was before first contact, or a fence covers it
	top   uint64 // the highest number known to exist; not below floor
	gaps  []gap  // what is missing between floor and top: ascending, also by age
}

// gap is a range of numbers that exist and have not arrived.
type gap struct {
	first, last uint64
	since       time.Time // when it was first known
}

// maxGaps bounds the memory of a tracker: with more gaps than this it is due at once.
const maxGaps = 64

type observation int

const (
	fresh     observation = iota // not seen before
	duplicate                    // has arrived before
	stale                        // at or below the floor: whether it has arrived before is not known
)

// trackerFrom returns the tracker of an origin that is known from this number on.
func trackerFrom(baseline uint64) tracker { return tracker{floor: baseline, top: baseline} }

// observe notes that a number has arrived.
func (t *tracker) observe(seq uint64, now time.Time) observation {
	switch {
	case seq <= t.floor:
		return stale
	case seq > t.top:
		t.mark(seq-1, now)
		t.top = seq
		return fresh
	}
	i := slices.IndexFunc(t.gaps, func(g gap) bool { return g.first <= seq && seq <= g.last })
	if i < 0 {
		return duplicate
	}
	var rest []gap
	if g := t.gaps[i]; g.first < seq {
		rest = append(rest, gap{g.first, seq - 1, g.since})
	}
	if g := t.gaps[i]; seq < g.last {
		rest = append(rest, gap{seq + 1, g.last, g.since})
	}
	t.gaps = slices.Replace(t.gaps, i, i+1, rest...)
	return fresh
}

// mark notes that all numbers up to last exist.
func (t *tracker) mark(last uint64, now time.Time) {
	if last > t.top {
		t.gaps = append(t.gaps, gap{t.top + 1, last, now})
		t.top = last
	}
}

// contiguous returns the number up to which nothing is missing.
func (t *tracker) contiguous() uint64 {
	if len(t.gaps) > 0 {
		return t.gaps[0].first - 1
	}
	return t.top
}

// due reports since when something has been missing, if anything is. A tracker with too many gaps is due
// since the beginning of time.
func (t *tracker) due() (since time.Time, missing bool) {
	switch {
	case len(t.gaps) == 0:
		return time.Time{}, false
	case len(t.gaps) > maxGaps:
		return time.Time{}, true
	default:
		return t.gaps[0].since, true
	}
}

// settle gives up what is missing and goes on from the highest number known. The caller raises a fence. It
// returns how many gaps were open.
func (t *tracker) settle() int {
	open := len(t.gaps)
	t.floor = t.top
	t.gaps = nil
	return open
}

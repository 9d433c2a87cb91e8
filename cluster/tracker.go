package cluster

import (
	"slices"
	"time"

	"klatch/proto"
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

const (
	// maxGaps bounds the memory of a tracker, and the size of a request for repair.
	maxGaps = 256
	// maxMissing bounds how many numbers of one origin are repaired.
	maxMissing = 2048
)

// trackerFrom returns the tracker of an origin that is known from this number on.
func trackerFrom(baseline uint64) tracker { return tracker{floor: baseline, top: baseline} }

// observe notes that a number has arrived.
func (t *tracker) observe(seq uint64, now time.Time) {
	if seq > t.top {
		t.mark(seq-1, now)
		t.top = seq
		return
	}
	i := slices.IndexFunc(t.gaps, func(g gap) bool { return g.first <= seq && seq <= g.last })
	if i < 0 {
		return
	}
	var rest []gap
	if g := t.gaps[i]; g.first < seq {
		rest = append(rest, gap{g.first, seq - 1, g.since})
	}
	if g := t.gaps[i]; seq < g.last {
		rest = append(rest, gap{seq + 1, g.last, g.since})
	}
	t.gaps = slices.Replace(t.gaps, i, i+1, rest...)
}

// has reports whether a number is known to have arrived.
func (t *tracker) has(seq uint64) bool {
	return seq > t.floor && seq <= t.top &&
		!slices.ContainsFunc(t.gaps, func(g gap) bool { return g.first <= seq && seq <= g.last })
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

// missing returns what has not arrived.
func (t *tracker) missing() []proto.Range {
	ranges := make([]proto.Range, len(t.gaps))
	for i, g := range t.gaps {
		ranges[i] = proto.Range{First: g.first, Last: g.last}
	}
	return ranges
}

// hopeless reports whether so much is missing that a fence is cheaper than its repair.
func (t *tracker) hopeless() bool {
	n := uint64(0)
	for _, g := range t.gaps {
		n += g.last - g.first + 1
	}
	return n > maxMissing || len(t.gaps) > maxGaps
}

// settle gives up what is missing and goes on from the highest number known. The caller raises a fence. It
// returns how many gaps were open.
func (t *tracker) settle() int {
	open := len(t.gaps)
	t.floor = t.top
	t.gaps = nil
	return open
}

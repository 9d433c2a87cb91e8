package cluster

import (
	"slices"
	"testing"
	"time"
)

func TestTrackerKnowsWhatIsMissing(t *testing.T) {
	const markOf = -1 // a negative number is a mark of its absolute value
	tests := []struct {
		name       string
		baseline   uint64
		arrivals   []int64
		last       observation // of the last batch
		contiguous uint64
		gaps       [][2]uint64
	}{
		{name: "in order", arrivals: []int64{1, 2, 3}, last: fresh, contiguous: 3},
		{name: "begins at its baseline", baseline: 41, arrivals: []int64{42}, last: fresh, contiguous: 42},
		{name: "what was before the baseline is not missed", baseline: 41, arrivals: []int64{7}, last: stale, contiguous: 41},
		{name: "one missing", arrivals: []int64{1, 3}, last: fresh, contiguous: 1, gaps: [][2]uint64{{2, 2}}},
		{name: "late fill", arrivals: []int64{1, 3, 2}, last: fresh, contiguous: 3},
		{name: "reversed", arrivals: []int64{4, 3, 2, 1}, last: fresh, contiguous: 4},
		{name: "duplicate", arrivals: []int64{1, 2, 2}, last: duplicate, contiguous: 2},
		{name: "duplicate behind a gap", arrivals: []int64{1, 3, 1}, last: duplicate, contiguous: 1, gaps: [][2]uint64{{2, 2}}},
		{name: "fill in the middle splits", arrivals: []int64{5, 3}, last: fresh, contiguous: 0, gaps: [][2]uint64{{1, 2}, {4, 4}}},
		{name: "fill at the edges shrinks", arrivals: []int64{5, 1, 4}, last: fresh, contiguous: 1, gaps: [][2]uint64{{2, 3}}},
		{name: "a big jump is one gap", arrivals: []int64{1, 1 << 60}, last: fresh, contiguous: 1, gaps: [][2]uint64{{2, 1<<60 - 1}}},
		{name: "mark above tells of a lost last one", arrivals: []int64{1, 3 * markOf}, last: fresh, contiguous: 1, gaps: [][2]uint64{{2, 3}}},
		{name: "mark below tells nothing", arrivals: []int64{1, 2, 1 * markOf}, last: fresh, contiguous: 2},
		{name: "marked, then arrived", arrivals: []int64{2 * markOf, 1, 2}, last: fresh, contiguous: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := trackerFrom(tt.baseline)
			var last observation
			for _, n := range tt.arrivals {
				if n < 0 {
					tr.mark(uint64(-n), time.Unix(0, 0))
				} else {
					last = tr.observe(uint64(n), time.Unix(0, 0))
				}
			}
			var gaps [][2]uint64
			for _, g := range tr.gaps {
				gaps = append(gaps, [2]uint64{g.first, g.last})
			}
			if last != tt.last || tr.contiguous() != tt.contiguous || !slices.Equal(gaps, tt.gaps) {
				t.Errorf("last %v contiguous %d gaps %v, want %v %d %v", last, tr.contiguous(), gaps, tt.last, tt.contiguous, tt.gaps)
			}
		})
	}
}

func TestTrackerAgesGapsFromWhenTheyWereKnown(t *testing.T) {
	first, second := time.Unix(10, 0), time.Unix(20, 0)
	tr := trackerFrom(0)
	tr.observe(5, first)
	tr.observe(9, second)
	tr.observe(3, second) // splits the first gap; its parts keep their age

	if since, missing := tr.due(); !missing || !since.Equal(first) {
		t.Errorf("due since %v (%v), want %v", since, missing, first)
	}
	for _, n := range []uint64{1, 2, 4} {
		tr.observe(n, second)
	}
	if since, missing := tr.due(); !missing || !since.Equal(second) {
		t.Errorf("due since %v (%v), want %v", since, missing, second)
	}
}

func TestTrackerSettledGoesOnFromTheTop(t *testing.T) {
	tr := trackerFrom(0)
	tr.observe(3, time.Unix(0, 0))
	tr.observe(7, time.Unix(0, 0))

	if open := tr.settle(); open != 2 {
		t.Errorf("%d gaps were open, want 2", open)
	}
	if _, missing := tr.due(); missing || tr.contiguous() != 7 {
		t.Errorf("missing %v, contiguous %d; want nothing missing up to 7", missing, tr.contiguous())
	}
	if got := tr.observe(5, time.Unix(0, 0)); got != stale {
		t.Errorf("a number given up came after all: %v, want stale, so that its news is applied", got)
	}
	if got := tr.observe(8, time.Unix(0, 0)); got != fresh {
		t.Errorf("the next number: %v, want fresh", got)
	}
}

func TestTrackerWithTooManyGapsIsDueAtOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	tr := trackerFrom(0)
	for n := uint64(2); n <= 2*maxGaps; n += 2 {
		tr.observe(n, now)
	}
	if since, _ := tr.due(); !since.Equal(now) {
		t.Fatalf("%d gaps: due since %v, want %v", len(tr.gaps), since, now)
	}
	tr.observe(2*maxGaps+2, now)
	if since, missing := tr.due(); !missing || !since.IsZero() {
		t.Errorf("%d gaps: due since %v, want the beginning of time", len(tr.gaps), since)
	}
}

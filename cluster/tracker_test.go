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
		contiguous uint64
		gaps       [][2]uint64
	}{
		{name: "in order", arrivals: []int64{1, 2, 3}, contiguous: 3},
		{name: "begins at its baseline", baseline: 41, arrivals: []int64{42}, contiguous: 42},
		{name: "what was before the baseline is not missed", baseline: 41, arrivals: []int64{7}, contiguous: 41},
		{name: "one missing", arrivals: []int64{1, 3}, contiguous: 1, gaps: [][2]uint64{{2, 2}}},
		{name: "late fill", arrivals: []int64{1, 3, 2}, contiguous: 3},
		{name: "reversed", arrivals: []int64{4, 3, 2, 1}, contiguous: 4},
		{name: "duplicate", arrivals: []int64{1, 2, 2}, contiguous: 2},
		{name: "duplicate behind a gap", arrivals: []int64{1, 3, 1}, contiguous: 1, gaps: [][2]uint64{{2, 2}}},
		{name: "fill in the middle splits", arrivals: []int64{5, 3}, contiguous: 0, gaps: [][2]uint64{{1, 2}, {4, 4}}},
		{name: "fill at the edges shrinks", arrivals: []int64{5, 1, 4}, contiguous: 1, gaps: [][2]uint64{{2, 3}}},
		{name: "a big jump is one gap", arrivals: []int64{1, 1 << 60}, contiguous: 1, gaps: [][2]uint64{{2, 1<<60 - 1}}},
		{name: "mark above tells of a lost last one", arrivals: []int64{1, 3 * markOf}, contiguous: 1, gaps: [][2]uint64{{2, 3}}},
		{name: "mark below tells nothing", arrivals: []int64{1, 2, 1 * markOf}, contiguous: 2},
		{name: "marked, then arrived", arrivals: []int64{2 * markOf, 1, 2}, contiguous: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := trackerFrom(tt.baseline)
			for _, n := range tt.arrivals {
				if n < 0 {
					tr.mark(uint64(-n), time.Unix(0, 0))
				} else {
					tr.observe(uint64(n), time.Unix(0, 0))
				}
			}
			var gaps [][2]uint64
			for _, g := range tr.gaps {
				gaps = append(gaps, [2]uint64{g.first, g.last})
			}
			if tr.contiguous() != tt.contiguous || !slices.Equal(gaps, tt.gaps) {
				t.Errorf("contiguous %d gaps %v, want %d %v", tr.contiguous(), gaps, tt.contiguous, tt.gaps)
			}
			for seq := tt.baseline + 1; seq <= min(tr.top, 100); seq++ {
				if got, want := tr.has(seq), slices.Contains(tt.arrivals, int64(seq)); got != want {
					t.Errorf("has %d: %v, want %v", seq, got, want)
				}
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

	if since := tr.gaps[0].since; !since.Equal(first) {
		t.Errorf("missing since %v, want %v", since, first)
	}
	for _, n := range []uint64{1, 2, 4} {
		tr.observe(n, second)
	}
	if since := tr.gaps[0].since; !since.Equal(second) {
		t.Errorf("missing since %v, want %v", since, second)
	}
}

func TestTrackerSettledGoesOnFromTheTop(t *testing.T) {
	tr := trackerFrom(0)
	tr.observe(3, time.Unix(0, 0))
	tr.observe(7, time.Unix(0, 0))

	if open := tr.settle(); open != 2 {
		t.Errorf("%d gaps were open, want 2", open)
	}
	if len(tr.gaps) > 0 || tr.contiguous() != 7 {
		t.Errorf("missing %v, contiguous %d; want nothing missing up to 7", tr.gaps, tr.contiguous())
	}
	if tr.has(5) {
		t.Error("a number given up is taken for one that arrived, so that its news would not be applied")
	}
	if tr.observe(8, time.Unix(0, 0)); tr.contiguous() != 8 {
		t.Errorf("contiguous %d, want the next number", tr.contiguous())
	}
}

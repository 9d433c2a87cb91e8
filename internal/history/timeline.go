package history

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"klatch/proto"
)

// timeline answers which write was the newest one acknowledged at a time. It holds the operations of one key
// that told a version, in the order in which they were answered.
type timeline struct {
	operations []Operation
	newest     []int // of the operations up to this one, the index of that with the highest version
}

// newTimeline makes a timeline of the operations that are wanted.
func newTimeline(h History, want func(Operation) bool) timeline {
	t := timeline{}
	for _, o := range h {
		if o.acknowledged() && o.answered() && want(o) {
			t.operations = append(t.operations, o)
		}
	}
	slices.SortFunc(t.operations, func(a, b Operation) int { return cmp.Compare(a.End, b.End) })
	newest := 0
	for i, o := range t.operations {
		if o.Version > t.operations[newest].Version {
			newest = i
		}
		t.newest = append(t.newest, newest)
	}
	return t
}

// before returns the newest operation that had been answered before a time, if there is any.
func (t timeline) before(at time.Duration) (Operation, bool) {
	n := sort.Search(len(t.operations), func(i int) bool { return t.operations[i].End >= at })
	if n == 0 {
		return Operation{}, false
	}
	return t.operations[t.newest[n-1]], true
}

// notAbove returns the newest operation answered before a time whose version is not above a limit.
func (t timeline) notAbove(limit proto.Version, at time.Duration) (Operation, bool) {
	newest, found := Operation{}, false
	for _, o := range t.operations {
		if o.End >= at {
			break
		}
		if o.Version <= limit && (!found || o.Version > newest.Version) {
			newest, found = o, true
		}
	}
	return newest, found
}

// mayBeDeleted reports whether a delete of the key may have been done before o was answered.
func mayBeDeleted(key History, o Operation) bool {
	return slices.ContainsFunc(key, func(d Operation) bool {
		return d.Kind == Delete && d.possible() && (!o.answered() || d.Start < o.End)
	})
}

package history

import (
	"slices"
	"time"
)

// BoundedStaleness checks that no read, whatever its level, returns something older than what had been
// acknowledged for longer than the bound when the read began. Leave out with [History.Where] the reads that were
// answered under an outage of the store.
type BoundedStaleness struct {
	// Bound is how long a read may lag. Default 0: not at all.
	Bound time.Duration
}

// Check implements Checker.
func (c BoundedStaleness) Check(h History) []Violation {
	f := &findings{promise: "bounded staleness"}
	for _, key := range h.ByKey() {
		written, deleted := newTimeline(key, Operation.writes), deletes(key)
		for _, read := range key {
			if read.Kind != Read {
				continue
			}
			by := read.Start - c.Bound
			if newer, ok := written.before(by); ok && falls(key, read, newer.Version) {
				f.add([]Operation{newer, read}, "the read returns something older than was acknowledged %v before it began", read.Start-newer.End)
			}
			if gone, ok := deleted.before(by); ok && read.acknowledged() {
				f.add([]Operation{gone, read}, "the read finds the record %v after its delete was acknowledged", read.Start-gone.End)
			}
		}
	}
	return f.found
}

// Staleness returns for each read of the level that was answered how long before its start the first thing newer
// than its result had been acknowledged, and zero if nothing had: in order, so that quantiles can be taken.
func Staleness(h History, level string) []time.Duration {
	var all []time.Duration
	for _, key := range h.ByKey() {
		written, deleted := newTimeline(key, Operation.writes), deletes(key)
		for _, read := range key {
			if read.Kind == Read && read.Level == level && read.acknowledged() {
				all = append(all, lag(read, written, deleted))
			}
		}
	}
	slices.Sort(all)
	return all
}

func deletes(key History) timeline {
	return newTimeline(key, func(o Operation) bool { return o.Kind == Delete })
}

func lag(read Operation, written, deleted timeline) time.Duration {
	for _, o := range written.operations {
		if o.Version > read.Version {
			return max(0, read.Start-o.End)
		}
	}
	if len(deleted.operations) > 0 {
		return max(0, read.Start-deleted.operations[0].End)
	}
	return 0
}

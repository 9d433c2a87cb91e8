package history

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"

	"klatch/proto"
)

// Linearizable checks that each key behaved as if its operations had been done one after the other, each between
// its start and its end: all writes and deletes, and the reads that ask for latest. An answer that a record is
// absent counts if it was given to a read, or to a write that asks for latest; a write without a level may
// be told so by a copy.
type Linearizable struct {
	// Timeout bounds the check of one key. Default 10 s.
	Timeout time.Duration
}

// Check implements Checker.
func (c Linearizable) Check(h History) []Violation {
	f := &findings{promise: "linearizable"}
	for name, key := range h.ByKey() {
		steps := newSteps(key)
		switch c.run(steps) {
		case porcupine.Illegal:
			c.explain(f, name, steps)
		case porcupine.Unknown:
			if !f.full() {
				f.found = append(f.found, Violation{Promise: f.promise, Undecided: true,
					Text: "the operations of " + name + " are too many or too entangled for the time allowed"})
			}
		}
		if f.full() {
			break
		}
	}
	return f.found
}

func (c Linearizable) run(steps []step) porcupine.CheckResult {
	operations := make([]porcupine.Operation, len(steps))
	for i, s := range placed(steps) {
		operations[i] = porcupine.Operation{Input: s, Call: int64(s.Start), Return: int64(s.until())}
	}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	return porcupine.CheckOperationsTimeout(model, operations, timeout)
}

// explain looks for the shortest beginning of the history that is not possible. The last answer in it is the
// wrong one, or shows that an earlier one was.
func (c Linearizable) explain(f *findings, name string, steps []step) {
	answered := slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return !s.recorded.answered() })
	slices.SortFunc(answered, func(a, b step) int { return cmp.Compare(a.End, b.End) })
	first := sort.Search(len(answered)-1, func(i int) bool {
		return c.run(upTo(steps, answered[i].End)) == porcupine.Illegal
	})
	wrong := answered[first].recorded
	f.add(append(around(steps, wrong), wrong),
		"no order of the operations of %s explains the answer of operation #%d, given those answered shortly before and those under way", name, wrong.ID)
}

// around returns what shows in nearly every case why an answer is wrong: what wrote the version that it told, what
// was answered shortly before it, and what was under way.
func around(steps []step, wrong Operation) []Operation {
	const shown = 8
	var earlier, meanwhile, others []Operation
	for _, s := range steps {
		o := s.recorded
		switch {
		case o.ID == wrong.ID:
		case o.writes() && o.acknowledged() && o.Version == wrong.Version:
			others = append(others, o)
		case o.answered() && o.End < wrong.End:
			earlier = append(earlier, o)
		case o.Start < wrong.End:
			meanwhile = append(meanwhile, o)
		}
	}
	slices.SortFunc(earlier, func(a, b Operation) int { return cmp.Compare(b.End, a.End) })
	slices.SortFunc(meanwhile, func(a, b Operation) int { return cmp.Compare(b.Start, a.Start) })
	return slices.Concat(others, earlier[:min(shown, len(earlier))], meanwhile[:min(shown, len(meanwhile))])
}

// upTo returns the steps as they were known at a time: what was not answered then may have been done or not.
func upTo(steps []step, at time.Duration) []step {
	var known []step
	for _, s := range steps {
		switch {
		case s.Start > at:
		case s.End <= at || s.Outcome == Unknown:
			known = append(known, s)
		case s.Kind != Read && s.possible():
			s.Outcome = Unknown
			known = append(known, s)
		}
	}
	return known
}

// step is an operation as the model takes it.
type step struct {
	Operation
	recorded Operation
	foreign  bool // the version that it saw or expects is not that of any write that is known to have been done

	certain int // steps in the history whose outcome is known
	class   class
	rank    int // within the class, by start
}

// until returns the latest moment at which it can have been done.
func (s step) until() time.Duration {
	if s.answered() {
		return s.End
	}
	return math.MaxInt64
}

// newSteps returns what of a key's operations says something of the order.
func newSteps(key History) []step {
	seen, owned := sightings(key)
	var steps []step
	for _, recorded := range key {
		o := recorded
		if first, ok := seen[o.Value]; ok && o.writes() && o.Outcome == Unknown && first.End >= o.Start {
			// Somebody has read the value, so the write had been done by then.
			o.Outcome, o.Version, o.End = OK, first.Version, first.End
		}
		s := step{Operation: o, recorded: recorded, foreign: !owned[o.Version]}
		if o.Kind == CAS && o.Outcome != Conflict {
			s.foreign = !owned[o.Expect]
		}
		if s.telling() {
			steps = append(steps, s)
		}
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.Start, b.Start) })
	return prune(steps)
}

// sightings returns for each value the operation that was answered first of those that wrote or read it, and the
// versions of which it is known what wrote them. Where writes leave the value alone, one value has many versions,
// and it is not known which was its first; then no value is returned.
func sightings(key History) (seen map[string]Operation, owned map[proto.Version]bool) {
	seen, owned = map[string]Operation{}, map[proto.Version]bool{}
	registerOnly := !slices.ContainsFunc(key, func(o Operation) bool { return o.writes() && o.Value == "" })
	for _, o := range key {
		if o.acknowledged() && o.writes() {
			owned[o.Version] = true
		}
		if first, ok := seen[o.Value]; registerOnly && o.acknowledged() && o.Version > 0 && (!ok || o.End < first.End) {
			seen[o.Value] = o
		}
	}
	for _, o := range key {
		if first, ok := seen[o.Value]; ok && o.writes() {
			owned[first.Version] = true
		}
	}
	return seen, owned
}

// telling reports whether the step must be in the order.
func (s step) telling() bool {
	switch s.Outcome {
	case OK:
		return s.Kind != Read || s.Level == Latest
	case Absent:
		return s.Level == Latest
	case Conflict:
		return s.Kind == CAS
	case Unknown:
		return s.Kind != Read
	default:
		return false
	}
}

// prune drops writes that may have been done and that nobody can have noticed.
func prune(steps []step) []step {
	values := valuesRead(steps)
	unnoticed := func(s step) bool { return s.writes() && s.Outcome == Unknown && !values[s.Value] }
	for _, s := range steps {
		// A version of unknown origin may be that of any of them.
		sees := s.Kind == CAS || s.Kind == Read && s.Outcome == OK
		if sees && s.foreign && !unnoticed(s) {
			return steps
		}
	}
	return slices.DeleteFunc(steps, unnoticed)
}

func valuesRead(steps []step) map[string]bool {
	values := map[string]bool{}
	for _, s := range steps {
		if s.Kind == Read && s.Outcome == OK && s.Value != "" {
			values[s.Value] = true
		}
	}
	return values
}

// class is a set of steps of unknown outcome that nobody can tell from one another.
type class uint8

const (
	distinct class = iota
	unread         // writes of values that nobody has read
	aside          // writes that leave the value alone
	removal        // deletes
	classes
)

// placed returns the steps with what the model needs to know of all of them together.
func placed(steps []step) []step {
	steps = slices.Clone(steps)
	values := valuesRead(steps)
	certain, ranks := 0, [classes]int{}
	for i := range steps {
		s := &steps[i]
		switch {
		case s.Outcome != Unknown:
			certain++
		case s.Kind == Delete:
			s.class = removal
		case s.Kind == Write && s.Version == 0 && s.Value == "":
			s.class = aside
		case s.Kind == Write && s.Version == 0 && !values[s.Value]:
			s.class = unread
		}
		s.rank = ranks[s.class]
		ranks[s.class]++
	}
	for i := range steps {
		steps[i].certain = certain
	}
	return steps
}

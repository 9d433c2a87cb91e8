package cluster

import (
	"sync"
	"time"

	"klatch/proto"
)

// grace is how long a missing number may still be under way: datagrams overtake each other, and a mark that
// travels by TCP overtakes them too.
const grace = 10 * time.Millisecond

// maxOrigins bounds how many origins are remembered, boots of departed nodes included.
const maxOrigins = 256

// origins knows of every origin what has arrived from it. Like its trackers it does no I/O and has no clock.
type origins struct {
	self proto.Origin

	mu    sync.Mutex // guards all below
	known map[proto.Origin]*origin
	// check is the earliest time at which something may have been missing for longer than the grace;
	// zero if nothing is missing.
	check time.Time
}

type origin struct {
	numbers  tracker
	farewell bool // it has said farewell, and nothing since
	departed bool // it left, vanished, or was replaced by a later boot
	heard    time.Time
}

func newOrigins(self proto.Origin) *origins {
	return &origins{self: self, known: map[proto.Origin]*origin{}}
}

// batch notes a batch. first reports that its origin was not known before: the caller raises a fence.
func (o *origins) batch(from proto.Origin, seq uint64, at time.Time) (seen observation, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	or, first := o.hear(from, seq, at)
	if first {
		return fresh, true
	}
	or.farewell = or.farewell && seq <= or.numbers.top
	seen = or.numbers.observe(seq, at)
	o.schedule(or)
	return seen, false
}

// mark notes that an origin has given out all numbers up to last. first is as for batch.
func (o *origins) mark(from proto.Origin, last uint64, at time.Time) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.markLocked(from, last, at)
}

func (o *origins) markLocked(from proto.Origin, last uint64, at time.Time) (first bool) {
	or, first := o.hear(from, last, at)
	or.farewell = or.farewell && last <= or.numbers.top
	or.numbers.mark(last, at)
	o.schedule(or)
	return first
}

// farewell notes that an origin leaves and has given out all numbers up to last. first is as for batch.
func (o *origins) farewell(from proto.Origin, last uint64, at time.Time) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first = o.markLocked(from, last, at)
	or := o.known[from]
	// A batch that was sent after the farewell and has overtaken it takes it back.
	or.farewell = last >= or.numbers.top
	return first
}

// state notes the marks of a full exchange: the giver's own comes first, then what it has applied of others
// without a gap. first reports that the giver was not known before. Only then do its other marks introduce
// origins, since the fence that the caller raises covers them too; at other times they are left to introduce
// themselves, for the giver may be behind and speak of boots long gone.
func (o *origins) state(marks []proto.Mark, at time.Time) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, m := range marks {
		_, known := o.known[m.Origin]
		switch {
		case m.Origin == o.self:
		case i == 0:
			first = o.markLocked(m.Origin, m.Last, at)
		case known:
			o.known[m.Origin].numbers.mark(m.Last, at)
			o.schedule(o.known[m.Origin])
		case first && !o.knowsNode(m.Origin.Node):
			o.hear(m.Origin, m.Last, at)
		}
	}
	return first
}

func (o *origins) knowsNode(name string) bool {
	if name == o.self.Node {
		return true
	}
	for from := range o.known {
		if from.Node == name {
			return true
		}
	}
	return false
}

// marks returns what has arrived from every origin without a gap.
func (o *origins) marks() []proto.Mark {
	o.mu.Lock()
	defer o.mu.Unlock()
	marks := make([]proto.Mark, 0, len(o.known))
	for from, or := range o.known {
		if !or.departed {
			marks = append(marks, proto.Mark{Origin: from, Last: or.numbers.contiguous()})
		}
	}
	return marks
}

// depart notes that a member is gone and reports whether it had said farewell. If not, the caller raises a
// fence. What is still missing of one that said farewell is noticed as of anyone.
func (o *origins) depart(name string) (farewell bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	heard, rude := false, false
	for from, or := range o.known {
		if from.Node == name && !or.departed {
			heard = true
			rude = rude || !or.farewell
			or.departed = true
		}
	}
	return heard && !rude
}

// overdue reports whether, at this time, something has been missing for longer than the grace.
func (o *origins) overdue(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.check.IsZero() || now.Before(o.check) {
		return false
	}
	o.check = time.Time{}
	for _, or := range o.known {
		o.schedule(or)
	}
	return !o.check.IsZero() && !now.Before(o.check)
}

// next returns when overdue is worth asking again, if anything is missing.
func (o *origins) next() (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.check, !o.check.IsZero()
}

// settle notes that a fence covers everything that is missing, of all origins. It returns how many gaps
// were open.
func (o *origins) settle() (gaps int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, or := range o.known {
		gaps += or.numbers.settle()
	}
	o.check = time.Time{}
	return gaps
}

// schedule moves check forward to when the origin's oldest gap has outlived the grace.
func (o *origins) schedule(or *origin) {
	since, missing := or.numbers.due()
	if at := since.Add(grace); missing && (o.check.IsZero() || at.Before(o.check)) {
		o.check = at
	}
}

// hear finds an origin or begins to follow it from a number on; earlier boots of its node have departed then.
func (o *origins) hear(from proto.Origin, baseline uint64, at time.Time) (or *origin, first bool) {
	or, ok := o.known[from]
	if !ok {
		for other, earlier := range o.known {
			if other.Node == from.Node {
				earlier.departed = true
			}
		}
		if len(o.known) >= maxOrigins {
			o.forgetOne()
		}
		or = &origin{numbers: trackerFrom(baseline)}
		o.known[from] = or
	}
	or.departed = false
	or.heard = at
	return or, !ok
}

// forgetOne drops the origin that matters least: a departed one if there is any, the longest silent of those.
func (o *origins) forgetOne() {
	var least proto.Origin
	var found *origin
	for from, or := range o.known {
		if found == nil || or.departed && !found.departed ||
			or.departed == found.departed && or.heard.Before(found.heard) {
			least, found = from, or
		}
	}
	delete(o.known, least)
}

package cluster

import (
	"slices"
	"sync"
	"time"

	"klatch/proto"
)

const (
	// grace is how long a missing number may still be under way: datagrams overtake each other, and a mark
	// that travels by TCP overtakes them too. After it the origin is asked, again and again, each pause
	// half as long again as the one before: seven times until it is given up.
	grace = 10 * time.Millisecond
	// repairWithin is how long that may go on before a fence covers what is missing.
	repairWithin = 500 * time.Millisecond
	// maxOrigins bounds how many origins are remembered, boots of departed nodes included.
	maxOrigins = 512
)

// origins knows of every origin what has arrived from it. Like its trackers it does no I/O and has no clock.
type origins struct {
	self proto.Origin

	mu    sync.Mutex // guards all below
	known map[proto.Origin]*origin
	// check is the earliest time at which something missing is to be asked for or given up; zero if nothing
	// is missing.
	check time.Time
}

type origin struct {
	numbers  tracker
	farewell bool // it has said farewell, and nothing since
	departed bool // it left, vanished, or was replaced by a later boot
	heard    time.Time

	since time.Time     // when the oldest of what is missing was first known
	ask   time.Time     // when the origin is to be asked next
	pause time.Duration // and how long after that again
	asked int           // how often it was asked for the oldest
}

// repair is what is to be asked of an origin.
type repair struct {
	of      proto.Origin
	missing []proto.Range
	again   bool // it was asked before, in vain
}

func newOrigins(self proto.Origin) *origins {
	return &origins{self: self, known: map[proto.Origin]*origin{}}
}

// has reports whether a batch has arrived already.
func (o *origins) has(from proto.Origin, seq uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	or, ok := o.known[from]
	return ok && or.numbers.has(seq)
}

// batch notes a batch. first reports that its origin was not known before: the caller raises a fence.
func (o *origins) batch(from proto.Origin, seq uint64, at time.Time) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	or, first := o.hear(from, seq, at)
	if first {
		return true
	}
	or.farewell = or.farewell && seq <= or.numbers.top
	or.numbers.observe(seq, at)
	o.schedule(or)
	return false
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

// state notes the points of a full exchange: the giver's own comes first, then what it has applied of others
// without a gap. first reports that the giver was not known before. Only then do its other points introduce
// origins, since the fence that the caller raises covers them too; at other times they are left to introduce
// themselves, for the giver may be behind and speak of boots long gone.
func (o *origins) state(points []proto.Point, at time.Time) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, p := range points {
		_, known := o.known[p.Origin]
		switch {
		case p.Origin == o.self:
		case i == 0:
			first = o.markLocked(p.Origin, p.Last, at)
		case known:
			o.known[p.Origin].numbers.mark(p.Last, at)
			o.schedule(o.known[p.Origin])
		case first && !o.knowsNode(p.Origin.Node):
			o.hear(p.Origin, p.Last, at)
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

// points returns what has arrived from every origin without a gap.
func (o *origins) points() []proto.Point {
	o.mu.Lock()
	defer o.mu.Unlock()
	points := make([]proto.Point, 0, len(o.known))
	for from, or := range o.known {
		if !or.departed {
			points = append(points, proto.Point{Origin: from, Last: or.numbers.contiguous()})
		}
	}
	return points
}

// contiguous returns the number of an origin up to which nothing is missing, and 0 for one not known.
func (o *origins) contiguous(of proto.Origin) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if or, ok := o.known[of]; ok {
		return or.numbers.contiguous()
	}
	return 0
}

// misses reports whether anything in the range has not arrived.
func (o *origins) misses(of proto.Origin, r proto.Range) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	or, ok := o.known[of]
	return ok && slices.ContainsFunc(or.numbers.gaps, func(g gap) bool { return g.first <= r.Last && r.First <= g.last })
}

// wasAsked reports whether a batch is one for which its origin was asked.
func (o *origins) wasAsked(of proto.Origin, seq uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	or, ok := o.known[of]
	return ok && or.asked > 0 && seq <= or.numbers.top && !or.numbers.has(seq)
}

// left reports whether an origin said farewell.
func (o *origins) left(of proto.Origin) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	or, ok := o.known[of]
	return ok && or.farewell
}

// depart notes that an origin is gone and reports whether it had said farewell, and whether it was known to be gone
// before. If neither, the caller raises a fence. What is still missing of one that said farewell is noticed as of
// anyone.
func (o *origins) depart(from proto.Origin) (farewell, again bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	or, ok := o.known[from]
	if !ok {
		return false, false
	}
	again, or.departed = or.departed, true
	return or.farewell, again
}

// due returns what is to be asked for at this time, and whether something is to be given up: because it has been
// missing for too long, there is too much of it, or nobody is left to ask.
func (o *origins) due(now time.Time) (ask []repair, giveUp bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.check.IsZero() || now.Before(o.check) {
		return nil, false
	}
	o.check = time.Time{}
	for from, or := range o.known {
		switch {
		case len(or.numbers.gaps) == 0:
			continue
		case or.numbers.hopeless(), now.Sub(or.since) >= repairWithin, or.departed && now.Sub(or.since) >= grace:
			return nil, true
		case !now.Before(or.ask):
			ask = append(ask, repair{from, or.numbers.missing(), or.asked > 0})
			or.ask = now.Add(or.pause)
			or.pause += or.pause / 2
			or.asked++
		}
		o.schedule(or)
	}
	return ask, false
}

// next returns when due is worth asking again, if anything is missing.
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
		or.since = time.Time{}
	}
	o.check = time.Time{}
	return gaps
}

// schedule moves check forward to when something must be done about what is missing of an origin.
func (o *origins) schedule(or *origin) {
	if len(or.numbers.gaps) == 0 {
		or.since = time.Time{}
		return
	}
	if since := or.numbers.gaps[0].since; !since.Equal(or.since) {
		or.since, or.ask, or.pause, or.asked = since, since.Add(grace), 2*grace, 0
	}
	at := or.ask
	if giveUp := or.since.Add(repairWithin); giveUp.Before(at) {
		at = giveUp
	}
	if or.numbers.hopeless() {
		at = or.since
	}
	if o.check.IsZero() || at.Before(o.check) {
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

package cluster

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"klatch/internal/clock"
	"klatch/proto"
)

// links are the links to all live peers, and with them the lag guard: whether what is in memory may be used
// without asking the store. It may while everything is known that any node that may be writing had published up to
// a short while ago.
type links struct {
	records bool // the store's node records are reported by present

	trust atomic.Pointer[trust] // nil: none

	mu    sync.Mutex // guards all below
	known map[proto.Origin]*link
	// unheard are nodes that may be writing where this node cannot hear them, and since when: members that
	// vanished, and nodes that the store knows to live and that are no members.
	unheard map[proto.Origin]time.Time
	looked  time.Time // when the last look at the records began
	waiters []*waiter

	accounted   time.Time     // up to when bypassed is counted
	bypassed    time.Duration // for how long there was no trust
	propagation histogram
}

// trust is the oldest basis of all links. A node alone knows everything.
type trust struct {
	basis time.Time
	alone bool
}

func (t *trust) holds(now time.Time) bool {
	return t != nil && (t.alone || clock.Elapsed(t.basis, now) < MaxLag)
}

func newLinks(records bool, now time.Time) *links {
	l := &links{records: records, known: map[proto.Origin]*link{}, unheard: map[proto.Origin]time.Time{}, accounted: now}
	l.refresh()
	return l
}

// trusted reports whether copies may be used now without a look at the store.
func (l *links) trusted(now time.Time) bool { return l.trust.Load().holds(now) }

// refresh works the trust out anew. The caller holds the lock.
func (l *links) refresh() {
	if l.records && l.looked.IsZero() || len(l.unheard) > 0 {
		l.trust.Store(nil)
		return
	}
	t := &trust{alone: len(l.known) == 0}
	for _, link := range l.known {
		if link.basis.IsZero() {
			l.trust.Store(nil)
			return
		}
		if t.basis.IsZero() || link.basis.Before(t.basis) {
			t.basis = link.basis
		}
	}
	l.trust.Store(t)
}

// join notes a new member. There is no trust until it has answered.
func (l *links) join(peer proto.Origin, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[peer] == nil {
		l.known[peer] = &link{since: now}
	}
	delete(l.unheard, peer)
	l.refresh()
}

// depart notes that a member is gone. One that vanished may go on writing on the other side of a split.
func (l *links) depart(peer proto.Origin, vanished bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, peer)
	if vanished && l.records {
		l.unheard[peer] = now
	}
	if !vanished {
		for _, w := range l.waiters {
			w.confirmed(peer)
		}
	}
	l.refresh()
}

// peers returns who is linked.
func (l *links) peers() []proto.Origin {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.known))
}

// unheardNames returns the names of the nodes that may be writing where they are not heard.
func (l *links) unheardNames() (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for origin := range l.unheard {
		names = append(names, origin.Node)
	}
	return names
}

// answer takes in a mark.
func (l *links) answer(m proto.Mark, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	link := l.known[m.Origin]
	if link == nil {
		return // not yet or no more a member
	}
	if link.answer(m, at) {
		l.propagation.observe(link.rtt / 2)
	}
	for _, w := range l.waiters {
		if m.Applied >= w.seq {
			w.confirmed(m.Origin)
		}
	}
}

// progress notes that of each peer everything up to a number has arrived or is covered by a fence.
func (l *links) progress(contiguous func(proto.Origin) uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for origin, link := range l.known {
		if len(link.claims) > 0 {
			link.progress(contiguous(origin))
		}
	}
	l.refresh()
}

// records is what the store told of the nodes that live.
type records struct {
	at    time.Time // when the look began
	alive []proto.Origin
}

// lapsed reports whether a node that may have been writing unheard is known to be gone now. Since it may have told
// others what this node has not heard, the caller raises a fence before it calls present.
func (l *links) lapsed(r records) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for origin, since := range l.unheard {
		if r.at.After(since) && !slices.Contains(r.alive, origin) {
			return true
		}
	}
	return false
}

// present notes what the store told of the nodes that live. ignore says of which that is known to be out of date.
func (l *links) present(r records, ignore func(proto.Origin) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for origin, since := range l.unheard {
		if r.at.After(since) && !slices.Contains(r.alive, origin) {
			delete(l.unheard, origin)
		}
	}
	for _, origin := range r.alive {
		if l.known[origin] == nil && l.unheard[origin].IsZero() && !ignore(origin) {
			l.unheard[origin] = r.at
		}
	}
	l.looked = r.at
	l.refresh()
}

// outgoing is a mark that is about to be sent.
type outgoing struct {
	to      *peer
	mark    proto.Mark
	heardAt time.Time // when the mark that it echoes had arrived
	stream  bool
}

// draft begins a mark with what has been heard of the peer. What it claims is true only if the own news published
// until then is numbered before it is sent.
func (l *links) draft(to *peer, path proto.ReplyPath) outgoing {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := outgoing{to: to, mark: proto.Mark{To: to.origin.Boot, Reply: path}, stream: path == proto.ReplyStream}
	if link := l.known[to.origin]; link != nil {
		out.mark.Echo, out.heardAt = link.heard, link.heardAt
	}
	return out
}

// stamp completes a mark that leaves now, and reports false if its peer has gone meanwhile.
func (l *links) stamp(out *outgoing, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	link := l.known[out.to.origin]
	if link == nil {
		return false
	}
	out.mark.Sent = link.send(now)
	if out.mark.Echo != 0 {
		out.mark.Held = now.Sub(out.heardAt)
	}
	if out.mark.Reply != proto.NoReply {
		link.asked = now
	}
	return true
}

// wants returns how a peer is to be asked for a mark now, if at all.
func (l *links) wants(peer proto.Origin, now time.Time) proto.ReplyPath {
	l.mu.Lock()
	defer l.mu.Unlock()
	if link := l.known[peer]; link != nil {
		return link.wants(now)
	}
	return proto.NoReply
}

// account counts for how long there has been no trust. It is called often.
func (l *links) account(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if elapsed := now.Sub(l.accounted); elapsed > 0 && !l.trusted(now) {
		l.bypassed += elapsed
	}
	l.accounted = now
}

// await begins to wait until all peers have the own numbers up to seq. A peer that has not answered for so long
// that it checks every read is not waited for.
func (l *links) await(w *waiter, seq uint64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.seq = seq
	for origin, link := range l.known {
		switch {
		case link.acked >= seq:
		case !link.basis.IsZero() && clock.Elapsed(link.basis, now) >= MaxLag:
			w.silent = append(w.silent, origin)
		default:
			w.pending = append(w.pending, origin)
		}
	}
	for origin := range l.unheard {
		w.silent = append(w.silent, origin)
	}
	l.waiters = append(l.waiters, w)
	w.look()
}

// awaited reports whether anybody waits.
func (l *links) awaited() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiters) > 0
}

// give ends a wait and returns the names of the nodes that are not known to have what was waited for.
func (l *links) give(w *waiter) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiters = slices.DeleteFunc(l.waiters, func(other *waiter) bool { return other == w })
	names := make([]string, 0, len(w.pending)+len(w.silent))
	for _, origin := range append(w.pending, w.silent...) {
		names = append(names, origin.Node)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// waiter waits until peers have what it has sent. All but done is guarded by the lock of the links.
type waiter struct {
	done    chan struct{}
	seq     uint64
	pending []proto.Origin // peers that have not confirmed
	silent  []proto.Origin // nodes that are not waited for
	over    bool
}

func newWaiter() *waiter { return &waiter{done: make(chan struct{})} }

func (w *waiter) confirmed(by proto.Origin) {
	w.pending = slices.DeleteFunc(w.pending, func(o proto.Origin) bool { return o == by })
	w.look()
}

func (w *waiter) look() {
	if len(w.pending) == 0 && !w.over {
		w.over = true
		close(w.done)
	}
}

// Clock returns how far this node's wall clock is ahead of the median of its peers', measured by marks, and whether
// that is known: it takes two peers, since of two clocks nobody can say which one is wrong.
func (c *Cluster) Clock() (ahead time.Duration, known bool) { return c.links.clock() }

func (l *links) clock() (ahead time.Duration, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	offsets := []time.Duration{0} // the own clock is one of those compared
	for _, link := range l.known {
		if link.rtt > 0 && link.rtt < time.Second {
			offsets = append(offsets, -link.offset)
		}
	}
	if len(offsets) < 3 {
		return 0, false
	}
	slices.Sort(offsets)
	low, high := offsets[(len(offsets)-1)/2], offsets[len(offsets)/2]
	if low.Abs() < high.Abs() {
		return low, true
	}
	return high, true
}

// staleness returns how old the knowledge of the peer that was heard least is, and whether there is trust.
func (l *links) staleness(now time.Time) (bound time.Duration, trusted bool) {
	t := l.trust.Load()
	if t == nil || t.alone {
		return 0, t != nil
	}
	return clock.Elapsed(t.basis, now), t.holds(now)
}

// measured returns for how long there was no trust in all, and the delays of messages.
func (l *links) measured() (bypassed time.Duration, propagation Delays) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bypassed, l.propagation.delays()
}

package cluster

import (
	"bytes"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"klatch/proto"
)

// The reasons for a fence.
const (
	FenceFirstContact = "first-contact" // an origin was heard for the first time; what it told before is not known
	FenceGap          = "gap"           // a number that exists has not arrived
	FenceDropped      = "dropped"       // news came in faster than the handler took it
	FenceVanished     = "vanished"      // a member is gone and had not said farewell
)

// maxInbox bounds the arrivals that wait for the worker.
const maxInbox = 4096

// arrival is something that a delegate has copied for the worker: one of message, gone and clash.
type arrival struct {
	at      time.Time
	message []byte
	gone    string // the name of a member that is no longer there
	clash   *clash
}

// receiver turns what arrives into news and fences. One worker does it all, in order of arrival.
type receiver struct {
	handler Handler
	origins *origins
	roster  *roster
	log     *zap.Logger
	now     func() time.Time

	inbox   chan arrival
	dropped atomic.Bool // something did not fit into the inbox; the worker raises a fence
	clashes map[clash]bool

	stats receiverStats
}

func newReceiver(opts Options, self proto.Origin, r *roster) *receiver {
	return &receiver{
		handler: opts.Handler,
		origins: newOrigins(self),
		roster:  r,
		log:     opts.Logger,
		now:     opts.Now,
		inbox:   make(chan arrival, maxInbox),
		clashes: map[clash]bool{},
		stats:   receiverStats{fences: map[string]uint64{}},
	}
}

// enqueue never blocks, for it is called by memberlist's delegates.
func (r *receiver) enqueue(a arrival) {
	a.at = r.now()
	select {
	case r.inbox <- a:
	default:
		r.stats.dropped.Add(1)
		r.dropped.Store(true)
	}
}

func (r *receiver) message(p []byte) { r.enqueue(arrival{message: bytes.Clone(p)}) }

func (r *receiver) run(stop <-chan struct{}) {
	overdue := time.NewTimer(time.Hour)
	defer overdue.Stop()
	for {
		select {
		case <-stop:
			return
		case a := <-r.inbox:
			r.handle(a)
		case <-overdue.C:
			// What waits in the inbox may be what is missing, and may have arrived in time.
			if len(r.inbox) == 0 {
				r.expire(r.now())
			}
		}
		if r.dropped.Swap(false) {
			r.fence(FenceDropped)
		}
		if next, ok := r.origins.next(); ok {
			overdue.Reset(next.Sub(r.now()))
		}
	}
}

func (r *receiver) handle(a arrival) {
	r.expire(a.at)
	switch {
	case a.gone != "":
		r.depart(a.gone)
	case a.clash != nil:
		r.report(*a.clash)
	default:
		r.receive(a.message, a.at)
	}
}

func (r *receiver) expire(now time.Time) {
	if r.origins.overdue(now) {
		r.fence(FenceGap)
	}
}

func (r *receiver) receive(p []byte, at time.Time) {
	message, err := proto.DecodeMessage(p)
	switch {
	case errors.Is(err, proto.ErrUnknownMessage):
		r.stats.unknown.Add(1)
		return
	case err != nil:
		r.stats.decodeErrors.Add(1)
		return
	}
	var first bool
	switch m := message.(type) {
	case proto.Batch:
		first = r.batch(m, at)
	case proto.Mark:
		first = r.origins.mark(m.Origin, m.Last, at)
	case proto.Farewell:
		first = r.origins.farewell(m.Origin, m.Last, at)
	case proto.State:
		first = r.origins.state(m.Marks, at)
	}
	if first {
		r.fence(FenceFirstContact)
	}
	// Too many gaps in one tracker are due at once.
	r.expire(at)
}

func (r *receiver) batch(b proto.Batch, at time.Time) (first bool) {
	seen, first := r.origins.batch(b.Origin, b.Seq, at)
	r.stats.batches.Add(1)
	r.stats.unknown.Add(uint64(b.Unknown))
	if seen == duplicate {
		r.stats.duplicates.Add(1)
		return false
	}
	for _, item := range b.Items {
		r.handler.Apply(b.Origin.Node, item)
	}
	r.stats.items.Add(uint64(len(b.Items)))
	return first
}

func (r *receiver) depart(name string) {
	if r.origins.depart(name) {
		r.roster.forget(name)
		r.log.Info("member left", zap.String("member", name))
		return
	}
	r.log.Warn("member vanished without farewell", zap.String("member", name))
	r.fence(FenceVanished)
}

func (r *receiver) fence(reason string) {
	gaps := r.origins.settle()
	r.stats.gaps.Add(uint64(gaps))
	r.stats.fenced(reason)
	r.log.Debug("fence raised", zap.String("reason", reason), zap.Int("gaps", gaps))
	r.handler.Fence(reason)
}

// clash is two nodes of one name.
type clash struct{ name, known, other string }

// report logs each clash once.
func (r *receiver) report(c clash) {
	const maxClashes = 64
	if r.clashes[c] || len(r.clashes) >= maxClashes {
		return
	}
	r.clashes[c] = true
	r.log.Warn("another node claims the name of a member; it is let in once that one is known to be dead. If both live, give one of them another name",
		zap.String("name", c.name), zap.String("member", c.known), zap.String("other", c.other))
}

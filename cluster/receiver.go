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
	FenceGap          = "gap"           // a number that exists has not arrived and could not be had again
	FenceDropped      = "dropped"       // news came in faster than the handler took it
	FenceVanished     = "vanished"      // a node is gone and had not said farewell
)

// maxInbox bounds the arrivals that wait for the worker.
const maxInbox = 4096

// arrival is something that waits for the worker: one of message, gone and records.
type arrival struct {
	at      time.Time
	message []byte
	gone    *proto.Origin // a boot that is no member any more, or has a successor
	records *records
}

// receiver turns what arrives into news and fences. One worker does it all, in order of arrival.
type receiver struct {
	self    proto.Origin
	handler Handler
	origins *origins
	links   *links
	roster  *roster
	ring    *ring
	courier *courier
	sender  *sender
	calls   *calls
	log     *zap.Logger
	now     func() time.Time

	inbox   chan arrival
	dropped atomic.Bool // something did not fit into the inbox; the worker raises a fence
	clashes map[proto.Origin]clash

	stats receiverStats
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
				r.mend(r.now())
			}
		}
		if r.dropped.Swap(false) {
			r.recover()
		}
		if next, ok := r.origins.next(); ok {
			overdue.Reset(next.Sub(r.now()))
		}
	}
}

func (r *receiver) handle(a arrival) {
	switch {
	case a.gone != nil:
		r.depart(*a.gone, a.at)
	case a.records != nil:
		r.present(*a.records)
	default:
		r.receive(a)
	}
	r.mend(a.at)
}

// mend asks for what is missing, or gives it up.
func (r *receiver) mend(now time.Time) {
	ask, giveUp := r.origins.due(now)
	if giveUp {
		r.fence(FenceGap)
		return
	}
	for _, wanted := range ask {
		r.ask(wanted)
	}
}

func (r *receiver) receive(a arrival) {
	message, err := proto.DecodeMessage(a.message)
	switch {
	case errors.Is(err, proto.ErrUnknownMessage):
		r.stats.unknown.Add(1)
		return
	case err != nil:
		r.stats.decodeErrors.Add(1)
		return
	}
	switch m := message.(type) {
	case proto.Batch:
		r.batch(m, a.at)
		if m.Confirm {
			r.sender.mark(m.Origin, proto.ReplyDatagram)
		}
	case proto.Mark:
		r.mark(m, a.at)
	case proto.Farewell:
		r.introduce(r.origins.farewell(m.Origin, m.Last, a.at))
	case proto.State:
		r.state(m, a.at)
	case proto.RepairRequest:
		r.repairPeer(m)
	case proto.RepairReply:
		r.repaired(m, a.at)
	case proto.Request:
		r.calls.request(m)
	case proto.Reply:
		r.calls.reply(m)
	}
	r.links.progress(r.origins.contiguous)
}

// batch applies news before it counts as arrived, since peers are told what has.
func (r *receiver) batch(b proto.Batch, at time.Time) {
	r.stats.batches.Add(1)
	r.stats.unknown.Add(uint64(b.Unknown))
	if b.Origin == r.self {
		return
	}
	if r.origins.has(b.Origin, b.Seq) {
		r.stats.duplicates.Add(1)
		return
	}
	if r.origins.wasAsked(b.Origin, b.Seq) {
		r.stats.repairs.Add(1)
	}
	for _, item := range b.Items {
		r.handler.Apply(b.Origin.Node, item)
	}
	r.stats.items.Add(uint64(len(b.Items)))
	r.introduce(r.origins.batch(b.Origin, b.Seq, at))
}

func (r *receiver) mark(m proto.Mark, at time.Time) {
	if m.Origin == r.self {
		return
	}
	r.introduce(r.origins.mark(m.Origin, m.Last, at))
	if m.To != r.self.Boot {
		return
	}
	r.links.answer(m, at)
	if m.Reply != proto.NoReply {
		r.sender.mark(m.Origin, m.Reply)
	}
	r.watchName(m.Origin)
}

func (r *receiver) state(m proto.State, at time.Time) {
	if len(m.Points) > 0 && m.Points[0].Origin != r.self {
		for _, item := range m.Items {
			r.handler.Apply(m.Points[0].Origin.Node, item)
		}
	}
	r.introduce(r.origins.state(m.Points, at))
}

// introduce raises the fence for an origin that was not known before.
func (r *receiver) introduce(first bool) {
	if first {
		r.fence(FenceFirstContact)
	}
}

func (r *receiver) depart(origin proto.Origin, at time.Time) {
	if r.roster.find(origin) != nil {
		return // it has come back meanwhile
	}
	replaced := origin.Node == r.self.Node || r.roster.named(origin.Node) != nil
	farewell, again := r.origins.depart(origin)
	r.links.depart(origin, !farewell && !replaced, at)
	switch {
	case again:
	case farewell:
		r.roster.forget(origin)
		r.log.Info("member left", zap.String("member", origin.Node))
	case replaced:
		r.log.Info("member restarted without farewell", zap.String("member", origin.Node))
		r.fence(FenceVanished)
	default:
		r.log.Warn("member vanished without farewell", zap.String("member", origin.Node))
		r.fence(FenceVanished)
	}
}

func (r *receiver) present(seen records) {
	if r.links.lapsed(seen) {
		r.fence(FenceVanished)
	}
	r.links.present(seen, func(o proto.Origin) bool {
		return o.Node == r.self.Node || r.origins.left(o) || r.roster.named(o.Node) != nil
	})
}

func (r *receiver) fence(reason string) {
	r.handler.Fence(reason)
	gaps := r.origins.settle()
	r.links.progress(r.origins.contiguous)
	r.stats.gaps.Add(uint64(gaps))
	r.stats.fences.add(reason)
	r.log.Debug("fence raised", zap.String("reason", reason), zap.Int("gaps", gaps))
}

// recover makes up for arrivals that were dropped: the news among them is behind the fence, and of the departures
// the roster knows.
func (r *receiver) recover() {
	r.fence(FenceDropped)
	for _, origin := range r.links.peers() {
		if r.roster.find(origin) == nil {
			r.depart(origin, r.now())
		}
	}
}

// clash is a boot that a later one of its name has replaced, and that was heard thereafter.
type clash struct {
	since    time.Time
	reported bool
}

// watchName reports once if a boot that a later one has replaced goes on speaking: then two nodes of one name live.
// What it had sent just before it was killed and restarted does not count.
func (r *receiver) watchName(from proto.Origin) {
	const maxClashes, underWay = 64, time.Second
	other := r.roster.named(from.Node)
	if from.Node != r.self.Node && (other == nil || other.origin == from) {
		return
	}
	c, heard := r.clashes[from]
	switch {
	case !heard:
		if len(r.clashes) >= maxClashes {
			clear(r.clashes)
		}
		r.clashes[from] = clash{since: r.now()}
	case heard && !c.reported && r.now().Sub(c.since) > underWay:
		r.clashes[from] = clash{reported: true}
		r.log.Warn("two nodes of one name are alive; the one started last counts. Give one of them another name",
			zap.String("name", from.Node))
	}
}

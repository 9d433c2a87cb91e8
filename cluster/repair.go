package cluster

import (
	"time"

	"klatch/proto"
)

const (
	// maxReplyBytes bounds one reply to a request for repair, so that it fits into a socket's buffers.
	maxReplyBytes = 64 << 10
	// maxBurstBytes bounds the datagrams that answer one. The rest is asked for again.
	maxBurstBytes = 16 << 10
	// fewMissing is how many batches may be missing for a repair by datagrams.
	fewMissing = 16
)

// ask asks an origin for what has not arrived from it: by a datagram at first, if that can help, since to open a stream
// costs a second when one of its first packets is lost as well; by a stream too once that was in vain.
func (r *receiver) ask(wanted repair) {
	to := r.roster.find(wanted.of)
	if to == nil {
		return // not yet a member, or no more: its gap is given up in time
	}
	r.stats.repairsAsked.Add(1)
	request := proto.RepairRequest{From: r.self, To: to.origin.Boot, Missing: wanted.missing}
	few := wanted.numbers() <= fewMissing
	if few {
		request.Reply = proto.ReplyDatagram
		r.sender.send(to, proto.EncodeMessage(request))
	}
	if !few || wanted.again {
		request.Reply = proto.ReplyStream
		r.courier.send(to, proto.EncodeMessage(request), nil)
	}
}

// numbers returns how many there are.
func (w repair) numbers() (n uint64) {
	for _, m := range w.missing {
		n += m.Last - m.First + 1
	}
	return n
}

// repairPeer answers a peer that misses something.
func (r *receiver) repairPeer(m proto.RepairRequest) {
	to := r.roster.find(m.From)
	if to == nil || m.To != r.self.Boot {
		return
	}
	limit := maxReplyBytes
	if m.Reply == proto.ReplyDatagram {
		limit = maxBurstBytes
	}
	batches, gone := r.ring.collect(m.Missing, limit)
	if len(batches) == 0 && len(gone) == 0 {
		return
	}
	if m.Reply != proto.ReplyDatagram {
		r.courier.send(to, proto.EncodeMessage(proto.RepairReply{Origin: r.self, Batches: batches, Gone: gone}), nil)
		return
	}
	for _, batch := range batches {
		r.sender.send(to, batch)
	}
	if len(gone) > 0 {
		r.sender.send(to, proto.EncodeMessage(proto.RepairReply{Origin: r.self, Gone: gone}))
	}
}

// repaired takes in what an origin has sent again. What is gone a fence must cover.
func (r *receiver) repaired(m proto.RepairReply, at time.Time) {
	for _, message := range m.Batches {
		decoded, err := proto.DecodeMessage(message)
		batch, ok := decoded.(proto.Batch)
		if err != nil || !ok || batch.Origin != m.Origin {
			r.stats.decodeErrors.Add(1)
			continue
		}
		r.batch(batch, at)
	}
	for _, gone := range m.Gone {
		if r.origins.misses(m.Origin, gone) {
			r.fence(FenceGap)
			return
		}
	}
}

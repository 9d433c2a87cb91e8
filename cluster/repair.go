package cluster

import (
	"time"

	"klatch/proto"
)

// maxReplyBytes bounds one reply to a request for repair, so that it fits into a socket's buffers.
const maxReplyBytes = 64 << 10

// ask asks an origin for what has not arrived from it.
func (r *receiver) ask(wanted repair) {
	to := r.roster.find(wanted.of)
	if to == nil {
		return // not yet a member, or no more: its gap is given up in time
	}
	r.stats.repairsAsked.Add(1)
	r.courier.send(to, proto.EncodeMessage(proto.RepairRequest{From: r.self, To: to.origin.Boot, Missing: wanted.missing}), nil)
}

// repairPeer answers a peer that misses something.
func (r *receiver) repairPeer(m proto.RepairRequest) {
	to := r.roster.find(m.From)
	if to == nil || m.To != r.self.Boot {
		return
	}
	batches, gone := r.ring.collect(m.Missing, maxReplyBytes)
	if len(batches) == 0 && len(gone) == 0 {
		return
	}
	r.courier.send(to, proto.EncodeMessage(proto.RepairReply{Origin: r.self, Batches: batches, Gone: gone}), nil)
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
		if !r.origins.has(batch.Origin, batch.Seq) {
			r.stats.repairs.Add(1)
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

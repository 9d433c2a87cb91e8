package cluster

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Stats count what a cluster's bus has done since its start.
type Stats struct {
	BatchesSent, ItemsSent         uint64 // each once, however many peers it went to
	BatchesReceived, ItemsReceived uint64

	MarksSent    uint64            // datagrams and streams
	SendErrors   uint64            // datagrams and streams that the network refused
	SendDrops    uint64            // items that did not fit into the queue; the peers see a gap
	ReceiveDrops uint64            // arrivals that did not fit into the inbox
	Gaps         uint64            // ranges of missing numbers that a fence covered
	RepairsAsked uint64            // times that an origin was asked for batches that had not arrived
	Repairs      uint64            // batches that came after that
	Duplicates   uint64            // batches that came again
	Unknown      uint64            // messages and items of kinds that this release does not know
	DecodeErrors uint64            // messages that could not be read
	Fences       map[string]uint64 // by reason
	Strangers    map[string]uint64 // messages that were refused as those of no member, by reason

	// Staleness is how old the knowledge of the peer heard least is, and Trusted whether copies may be used
	// without a look at the store. Bypassed is for how long they might not in all.
	Staleness time.Duration
	Trusted   bool
	Bypassed  time.Duration
	// Propagation is how long messages take to peers: half of the way there and back, measured by marks.
	Propagation Delays
}

type senderStats struct {
	batches, items, marks, errors, dropped atomic.Uint64
}

type receiverStats struct {
	batches, items, dropped, gaps, duplicates, unknown, decodeErrors, repairs, repairsAsked atomic.Uint64

	fences tally // by reason
}

// tally counts by name.
type tally struct {
	mu sync.Mutex // guards n
	n  map[string]uint64
}

func (t *tally) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = map[string]uint64{}
	}
	t.n[name]++
}

func (t *tally) counts() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.n)
}

// Stats returns the counts so far.
func (c *Cluster) Stats() Stats {
	out, in := &c.sender.stats, &c.receiver.stats
	now := c.now()
	c.links.account(now)
	staleness, trusted := c.links.staleness(now)
	bypassed, propagation := c.links.measured()
	return Stats{
		Staleness:       staleness,
		Trusted:         trusted,
		Bypassed:        bypassed,
		Propagation:     propagation,
		MarksSent:       out.marks.Load(),
		RepairsAsked:    in.repairsAsked.Load(),
		Repairs:         in.repairs.Load(),
		BatchesSent:     out.batches.Load(),
		ItemsSent:       out.items.Load(),
		BatchesReceived: in.batches.Load(),
		ItemsReceived:   in.items.Load(),
		SendErrors:      out.errors.Load() + c.courier.errors.Load(),
		SendDrops:       out.dropped.Load(),
		ReceiveDrops:    in.dropped.Load(),
		Gaps:            in.gaps.Load(),
		Duplicates:      in.duplicates.Load(),
		Unknown:         in.unknown.Load(),
		DecodeErrors:    in.decodeErrors.Load(),
		Fences:          in.fences.counts(),
		Strangers:       c.memberLog.strangers.counts(),
	}
}

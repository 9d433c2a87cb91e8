package cluster

import (
	"sync"

	"klatch/proto"
)

const (
	// maxRecent and maxRecentBytes bound what is kept for repair: what a node sends in several seconds under
	// load. What is older is gone, and a peer that misses it raises its fence.
	maxRecent      = 4096
	maxRecentBytes = 4 << 20
)

// ring gives out the numbers of a node's batches and keeps the last of these.
type ring struct {
	origin proto.Origin

	mu     sync.Mutex // guards all below
	last   uint64     // the last number given out
	oldest uint64     // nothing below it is kept; newest+1 if nothing is
	newest uint64     // the last number that a batch has; those above it have none
	bytes  int
	slots  [maxRecent]numbered
}

type numbered struct {
	seq     uint64
	message []byte
}

func newRing(origin proto.Origin) *ring { return &ring{origin: origin, oldest: 1} }

// number returns the last number given out.
func (r *ring) number() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// skip uses up a number. It stands for news that was sent to nobody: whoever hears of the number and asks for it
// is told that it is gone.
func (r *ring) skip() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
}

// pack makes the next batch out of as many leading items as fit.
func (r *ring) pack(items [][]byte, confirm bool) (message []byte, packed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	message, packed = proto.PackBatch(r.origin, r.last, items, confirm, proto.MaxMessageBytes)
	for r.oldest <= r.newest && (r.oldest+maxRecent <= r.last || r.bytes+len(message) > maxRecentBytes) {
		r.evict(r.oldest)
	}
	if r.oldest > r.newest {
		r.oldest = r.last
	}
	r.newest = r.last
	r.slots[r.last%maxRecent] = numbered{r.last, message}
	r.bytes += len(message)
	return message, packed
}

func (r *ring) evict(seq uint64) {
	if slot := &r.slots[seq%maxRecent]; slot.seq == seq {
		r.bytes -= len(slot.message)
		*slot = numbered{}
	}
	r.oldest = seq + 1
}

// collect returns the batches of the ranges that fit into limit bytes, at least one, and the numbers that have
// none. It looks at no more numbers than it keeps batches.
func (r *ring) collect(ranges []proto.Range, limit int) (batches [][]byte, gone []proto.Range) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := func(first, last uint64) {
		if first > last {
			return
		}
		if n := len(gone); n > 0 && gone[n-1].Last+1 == first {
			gone[n-1].Last = last
			return
		}
		gone = append(gone, proto.Range{First: first, Last: last})
	}
	size := 0
	for _, wanted := range ranges {
		first, last := max(wanted.First, 1), min(wanted.Last, r.last)
		lost(first, min(last, r.oldest-1))
		for seq := max(first, r.oldest); seq <= min(last, r.newest); seq++ {
			slot := &r.slots[seq%maxRecent]
			if slot.seq != seq {
				lost(seq, seq)
				continue
			}
			if size += len(slot.message); size > limit && len(batches) > 0 {
				return batches, gone
			}
			batches = append(batches, slot.message)
		}
		lost(max(first, r.newest+1), last)
	}
	return batches, gone
}

package stamps

import "sync/atomic"

// Stats count what a register has done since its start.
type Stats struct {
	Raised  uint64 // scopes stamped here
	Applied uint64 // stamps that came from peers and were new
	Reads   uint64 // reads of a tenant's record because stamps may have been missed
	Folds   uint64 // times the older half of a tenant's stamps became one of the whole tenant
}

type counters struct {
	raised, applied, reads, folds atomic.Uint64
}

// Stats returns the counts so far.
func (r *Register) Stats() Stats {
	s := &r.stats
	return Stats{Raised: s.raised.Load(), Applied: s.applied.Load(), Reads: s.reads.Load(), Folds: s.folds.Load()}
}

package near

import "sync/atomic"

type counters struct {
	hits, misses, joins, unkept, invalidated, fences atomic.Uint64
}

// Stats count what a cache has done since its start.
type Stats struct {
	Hits        uint64 // reads answered from memory
	Misses      uint64 // reads that needed the store
	Joins       uint64 // misses that shared a read under way
	Unkept      uint64 // results not kept because of news or an expired record
	Invalidated uint64 // copies dropped by news
	Fences      uint64 // times the fence was raised
	Bytes       uint64 // memory of all copies
	Copies      int    // number of copies, roughly
}

// Stats returns the counts so far.
func (c *Cache[V]) Stats() Stats {
	return Stats{
		Hits:        c.stats.hits.Load(),
		Misses:      c.stats.misses.Load(),
		Joins:       c.stats.joins.Load(),
		Unkept:      c.stats.unkept.Load(),
		Invalidated: c.stats.invalidated.Load(),
		Fences:      c.stats.fences.Load(),
		Bytes:       c.copies.WeightedSize(),
		Copies:      c.copies.EstimatedSize(),
	}
}

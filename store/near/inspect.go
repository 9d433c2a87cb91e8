package near

import (
	"math/rand/v2"

	"klatch/proto"
)

// Sample returns the keys of up to n copies, drawn at random from all. It looks at each copy's key once, and disturbs
// neither readers nor the choice of what is evicted.
func (c *Cache[V]) Sample(n int) []proto.Key {
	sample := make([]proto.Key, 0, min(n, c.copies.EstimatedSize()))
	seen := 0
	for key := range c.copies.Keys() {
		seen++
		if len(sample) < n {
			sample = append(sample, key)
		} else if i := rand.IntN(seen); i < n {
			sample[i] = key
		}
	}
	return sample
}

// Served returns the content's version of the copy that a reader at level Local would be given from memory now, and
// false if such a reader would ask the store. It counts as no read.
func (c *Cache[V]) Served(key proto.Key) (changed proto.Version, ok bool) {
	entry, ok := c.copies.GetEntryQuietly(key)
	if !ok || !c.usable(entry.Value, Want{Level: Local}, c.opts.Now()) {
		return 0, false
	}
	_, changed = entry.Value.Value.Stamps()
	return changed, true
}

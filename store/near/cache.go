package near

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"klatch/internal/clock"
	"klatch/internal/task"
	"klatch/proto"
	"klatch/store"
)

// Publisher tells peers what changed.
type Publisher interface {
	// Publish must not block.
	Publish(items ...proto.Item)
	// Confirm is Publish that waits, for a bounded time, until every peer has applied the items. It returns the
	// names of the nodes that may not have: within a bound that the publisher knows, these check every read.
	Confirm(ctx context.Context, items ...proto.Item) (unconfirmed []string)
}

// Options configure a [Cache]. Store, Decode and News are required.
type Options[V Value] struct {
	Store  store.Store
	Decode func(key proto.Key, value []byte) (V, error)
	News   Publisher

	// MaxBytes bounds the memory of all copies together. Default 256 MiB.
	MaxBytes uint64
	// MaxAge is how old a copy may grow before its next use asks the store: the staleness bound in the
	// worst case, a writer that died between its commit and its news. Default 60 s.
	MaxAge time.Duration
	// Outage is for how long beyond MaxAge a copy still answers while the store cannot be reached. Default 5 m.
	Outage time.Duration
	// Trusted reports whether what peers have published so far is known here, so that copies may be used. While it
	// is not, every read asks the store. It is called for every read. Default: it always is.
	Trusted func(now time.Time) bool
	// ReadTimeout bounds one store read that fills the cache. Default 5 s.
	ReadTimeout time.Duration
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Cache is the near cache of one kind of record. It is safe for concurrent use.
type Cache[V Value] struct {
	opts   Options[V]
	copies *otter.Cache[proto.Key, *Copy[V]]
	fills  *fills[V]
	fence  atomic.Pointer[time.Time]
	stats  counters

	life  context.Context // ends with Close; reads run under it, not under their first requester
	end   context.CancelFunc
	reads task.Group
}

// New returns an empty cache. Close ends it.
func New[V Value](opts Options[V]) (*Cache[V], error) {
	if opts.Store == nil || opts.Decode == nil || opts.News == nil {
		return nil, errors.New("near cache: Store, Decode and News are required")
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 256 << 20
	}
	if opts.MaxAge == 0 {
		opts.MaxAge = time.Minute
	}
	if opts.Outage == 0 {
		opts.Outage = 5 * time.Minute
	}
	if opts.ReadTimeout == 0 {
		opts.ReadTimeout = 5 * time.Second
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	copies, err := otter.New(&otter.Options[proto.Key, *Copy[V]]{
		MaximumWeight: opts.MaxBytes,
		Weigher: func(key proto.Key, c *Copy[V]) uint32 {
			return uint32(min(len(key.Tenant)+len(key.ID)+c.Value.Size()+copyOverhead, 1<<31))
		},
	})
	if err != nil {
		return nil, fmt.Errorf("near cache: %w", err)
	}
	life, end := context.WithCancel(context.Background())
	return &Cache[V]{opts: opts, copies: copies, fills: newFills[V](), life: life, end: end}, nil
}

// copyOverhead is roughly what one entry costs beside its key and value.
const copyOverhead = 200

// Close ends the reads under way and waits for them.
func (c *Cache[V]) Close() {
	c.end()
	c.reads.Close()
	c.copies.StopAllGoroutines()
}

// Get returns a copy that meets want, from memory if one is usable, else from the store. While the store cannot
// be reached, a copy that is only too old still answers for a while. Its errors are those of store.Get and of
// Decode. The copy may have expired by its own record; that is for the caller to see.
func (c *Cache[V]) Get(ctx context.Context, key proto.Key, want Want) (*Copy[V], error) {
	arrived := want.Arrived
	if arrived.IsZero() {
		arrived = c.opts.Now()
	}
	if want.Level != Latest {
		if copy, ok := c.copies.GetIfPresent(key); ok && c.usable(copy, want, arrived) {
			c.stats.hits.Add(1)
			return copy, nil
		}
	}
	c.stats.misses.Add(1)

	f, joined := c.read(key, want.Level, arrived)
	if err := wait(ctx, f.done); err != nil {
		return nil, err
	}
	if joined && want.Level == Session && f.below(want.After) {
		// The read that was joined may have begun before the write that the token speaks of. The answer
		// of one that began now is final.
		f, _ = c.read(key, Latest, c.opts.Now())
		if err := wait(ctx, f.done); err != nil {
			return nil, err
		}
	}
	if errors.Is(f.err, store.ErrUnavailable) && want.Level != Latest {
		if copy, ok := c.copies.GetIfPresent(key); ok && c.within(copy, want, c.opts.Now(), c.opts.MaxAge+c.opts.Outage) {
			return copy, nil
		}
	}
	return f.copy, f.err
}

// Peek returns the copy in memory, usable or not.
func (c *Cache[V]) Peek(key proto.Key) (*Copy[V], bool) { return c.copies.GetIfPresent(key) }

func (c *Cache[V]) usable(copy *Copy[V], want Want, now time.Time) bool {
	return c.within(copy, want, now, c.opts.MaxAge)
}

// within reports whether a copy up to that age may answer.
func (c *Cache[V]) within(copy *Copy[V], want Want, now time.Time, maxAge time.Duration) bool {
	if fence := c.fence.Load(); fence != nil && !copy.began.After(*fence) {
		return false
	}
	if clock.Elapsed(copy.began, now) > maxAge || copy.Value.Expired(now) {
		return false
	}
	if c.opts.Trusted != nil && !c.opts.Trusted(now) {
		return false
	}
	_, changed := copy.Value.Stamps()
	return want.Level == Local || changed >= want.After
}

// below reports whether the result of a joined read may be older than what the token has seen.
func (f *fill[V]) below(after proto.Version) bool {
	if errors.Is(f.err, store.ErrNotFound) {
		return after > 0
	}
	if f.err != nil {
		return false
	}
	_, changed := f.copy.Value.Stamps()
	return changed < after
}

// read joins an open read of the key or begins one. A reader at level Latest joins none, since all that are
// open began before it arrived.
func (c *Cache[V]) read(key proto.Key, level Level, arrived time.Time) (f *fill[V], joined bool) {
	shard := c.fills.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if level != Latest {
		if f := shard.join(key, c.fence.Load()); f != nil {
			c.stats.joins.Add(1)
			return f, true
		}
	}
	f = shard.begin(key, arrived, true)
	started := c.reads.Go(func() {
		ctx, cancel := context.WithTimeout(c.life, c.opts.ReadTimeout)
		defer cancel()
		f.copy, f.err = c.load(ctx, key, f.began)
		c.settle(key, f)
		close(f.done)
	})
	if !started {
		shard.end(key, f)
		f.err = fmt.Errorf("%w: the near cache is closed", store.ErrUnavailable)
		close(f.done)
	}
	return f, false
}

// load reads and decodes a record. A panic of the decoder becomes an error, so that it releases those who wait.
func (c *Cache[V]) load(ctx context.Context, key proto.Key, began time.Time) (copy *Copy[V], err error) {
	defer func() {
		if p := recover(); p != nil {
			copy, err = nil, fmt.Errorf("%w: decoding %s: panic: %v", proto.ErrCorrupt, key, p)
		}
	}()
	record, err := c.opts.Store.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	value, err := c.opts.Decode(key, record.Value)
	if err != nil {
		return nil, err
	}
	return &Copy[V]{Value: value, CAS: record.CAS, began: began}, nil
}

// settle ends a fill and keeps its result if no news forbids it.
func (c *Cache[V]) settle(key proto.Key, f *fill[V]) {
	shard := c.fills.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	keep := shard.end(key, f)
	if f.copy == nil {
		return
	}
	old, ok := c.copies.GetIfPresent(key)
	switch {
	case ok && !f.copy.newerThan(old):
	case keep && !f.copy.Value.Expired(c.opts.Now()):
		c.copies.Set(key, f.copy)
	default:
		c.copies.Invalidate(key) // whatever is there is older still
		c.stats.unkept.Add(1)
	}
}

func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: gave up waiting for the store: %w", store.ErrUnavailable, context.Cause(ctx))
	}
}

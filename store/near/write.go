package near

import (
	"context"
	"errors"

	"klatch/proto"
	"klatch/store"
)

// Put writes value to the store, keeps it as the copy and tells the peers: by news, or, where that is nil,
// by an Invalidate of its version. encoded is the value's stored form. Its errors are those of store.Put; on
// ErrConflict, and wherever the write may have been applied, the copy in memory is dropped.
func (c *Cache[V]) Put(ctx context.Context, key proto.Key, value V, encoded []byte, opts store.PutOptions, news proto.Item) (*Copy[V], error) {
	version, _ := value.Stamps()
	if news == nil {
		news = proto.Invalidate{Key: key, Version: version}
	}
	shard := c.fills.shard(key)
	shard.mu.Lock()
	f := shard.begin(key, c.opts.Now(), false)
	shard.mu.Unlock()

	cas, err := c.opts.Store.Put(ctx, key, encoded, opts)
	if err == nil {
		f.copy = &Copy[V]{Value: value, CAS: cas, began: f.began}
	}
	shard.mu.Lock()
	if err == nil || errors.Is(err, store.ErrAmbiguous) {
		shard.note(key, version, false, f)
	}
	if err != nil && !errors.Is(err, store.ErrUnavailable) {
		c.copies.Invalidate(key)
	}
	shard.mu.Unlock()
	c.settle(key, f)

	if err == nil || errors.Is(err, store.ErrAmbiguous) {
		c.opts.News.Publish(news)
	}
	return f.copy, err
}

// Delete removes the record from the store and from memory, and tells the peers that it is gone for ever.
// Where the outcome is unknown it does the same: the news of a delete that did not happen costs a read.
func (c *Cache[V]) Delete(ctx context.Context, key proto.Key, cas store.CAS) error {
	err := c.opts.Store.Delete(ctx, key, cas)
	if c.gone(key, err) {
		c.opts.News.Publish(proto.Invalidate{Key: key, Dead: true})
	}
	return err
}

// DeleteConfirmed is Delete that also waits, for a bounded time, until every peer has dropped its copy, where the
// record is certainly gone. It returns the names of the nodes that may not have.
func (c *Cache[V]) DeleteConfirmed(ctx context.Context, key proto.Key, cas store.CAS) (unconfirmed []string, err error) {
	err = c.opts.Store.Delete(ctx, key, cas)
	news := proto.Invalidate{Key: key, Dead: true}
	switch {
	case !c.gone(key, err):
	case errors.Is(err, store.ErrAmbiguous):
		c.opts.News.Publish(news)
	default:
		unconfirmed = c.opts.News.Confirm(ctx, news)
	}
	return unconfirmed, err
}

// gone drops the copy of a record whose deletion has ended so, and reports whether it may be gone from the store.
func (c *Cache[V]) gone(key proto.Key, err error) bool {
	switch {
	case err == nil, errors.Is(err, store.ErrAmbiguous), errors.Is(err, store.ErrNotFound):
		c.Apply(proto.Invalidate{Key: key, Dead: true})
		return true
	case errors.Is(err, store.ErrConflict):
		c.copies.Invalidate(key)
	}
	return false
}

// Apply takes news: the copy goes if it is older, and the open fills are marked.
func (c *Cache[V]) Apply(news proto.Invalidate) {
	shard := c.fills.shard(news.Key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.note(news.Key, news.Version, news.Dead, nil)
	copy, ok := c.copies.GetIfPresent(news.Key)
	if !ok {
		return
	}
	if version, _ := copy.Value.Stamps(); news.Dead || version < news.Version {
		c.copies.Invalidate(news.Key)
		c.stats.invalidated.Add(1)
	}
}

// Fence makes every copy whose store operation began before now be checked against the store before its
// next use. It costs one number: no scan, no flush.
func (c *Cache[V]) Fence() {
	now := c.opts.Now()
	for old := c.fence.Load(); old == nil || now.After(*old); old = c.fence.Load() {
		if c.fence.CompareAndSwap(old, &now) {
			break
		}
	}
	c.stats.fences.Add(1)
}

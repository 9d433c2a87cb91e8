package near

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"klatch/proto"
)

// fill is one store operation under way whose result may be kept.
type fill[V Value] struct {
	began    time.Time
	joinable bool // a read, which later readers may share

	// Guarded by the lock of the key's shard.
	mark proto.Version // the highest version that news told of while the fill was open
	dead bool          // news told that the record is gone

	// Set before done is closed, and not changed after it.
	copy *Copy[V]
	err  error
	done chan struct{}
}

// fills holds the open fills by key, in shards so that keys do not wait for each other.
type fills[V Value] struct {
	seed   maphash.Seed
	shards [64]shard[V]
}

type shard[V Value] struct {
	mu   sync.Mutex // guards open, the marks of its fills, and which copy of its keys is kept
	open map[proto.Key][]*fill[V]
}

func newFills[V Value]() *fills[V] {
	f := &fills[V]{seed: maphash.MakeSeed()}
	for i := range f.shards {
		f.shards[i].open = map[proto.Key][]*fill[V]{}
	}
	return f
}

func (f *fills[V]) shard(key proto.Key) *shard[V] {
	return &f.shards[maphash.Comparable(f.seed, key)%uint64(len(f.shards))]
}

// begin opens a fill. The caller holds the lock.
func (s *shard[V]) begin(key proto.Key, began time.Time, joinable bool) *fill[V] {
	f := &fill[V]{began: began, joinable: joinable, done: make(chan struct{})}
	s.open[key] = append(s.open[key], f)
	return f
}

// join returns an open read that a reader of now may share: unmarked, and begun after the fence, if any.
// The caller holds the lock.
func (s *shard[V]) join(key proto.Key, fence *time.Time) *fill[V] {
	for _, f := range s.open[key] {
		if f.joinable && f.mark == 0 && !f.dead && (fence == nil || f.began.After(*fence)) {
			return f
		}
	}
	return nil
}

// end closes a fill and reports whether its result may be kept. The caller holds the lock.
func (s *shard[V]) end(key proto.Key, f *fill[V]) bool {
	others := slices.DeleteFunc(s.open[key], func(o *fill[V]) bool { return o == f })
	if len(others) == 0 {
		delete(s.open, key)
	} else {
		s.open[key] = others
	}
	if f.copy == nil || f.dead {
		return false
	}
	version, _ := f.copy.Value.Stamps()
	return version >= f.mark
}

// note marks the open fills of a key, except one's own. The caller holds the lock.
func (s *shard[V]) note(key proto.Key, version proto.Version, dead bool, except *fill[V]) {
	for _, f := range s.open[key] {
		if f != except {
			f.mark = max(f.mark, version)
			f.dead = f.dead || dead
		}
	}
}

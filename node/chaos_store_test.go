package node

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"klatch/internal/clock"
	"klatch/proto"
	"klatch/store"
)

// storeFaults are what the way between a node and its store does. They may be changed at any time.
type storeFaults struct {
	seed uint64

	mu    sync.Mutex               // guards all below
	slow  time.Duration            // up to how long each way takes
	lose  float64                  // the probability that the answer to a write is lost
	down  bool                     // nothing gets through
	count map[proto.Key]int        // operations so far
	hold  map[string]chan struct{} // reads of an id, after the store has answered, wait for this
	reads map[string]int           // of an id
}

// fate decides what becomes of the next operation on a key. It depends on the seed, the key and how many operations
// on it have been, and on nothing that the scheduler decides.
func (f *storeFaults) fate(key proto.Key, node string) (there, back time.Duration, lost, down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count = map[proto.Key]int{}
	}
	f.count[key]++
	h := fnv.New64a()
	fmt.Fprint(h, node, key.Kind, f.count[key])
	random := rand.New(rand.NewPCG(f.seed, h.Sum64()))
	if f.slow > 0 {
		there, back = time.Duration(random.Int64N(int64(f.slow))), time.Duration(random.Int64N(int64(f.slow)))
	}
	return there, back, random.Float64() < f.lose, f.down
}

func (f *storeFaults) set(slow time.Duration, lose float64, down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow, f.lose, f.down = slow, lose, down
}

// faultyStore is the store as one boot of a node sees it.
type faultyStore struct {
	store store.Store
	node  *chaosNode
	dead  atomic.Bool // the node was killed: nothing leaves it
}

// refused is nil if an operation may leave for the store.
func (s *faultyStore) refused(down bool) error {
	if down || s.dead.Load() {
		return fmt.Errorf("%w: the way to it is cut", store.ErrUnavailable)
	}
	return nil
}

// Get implements store.Store.
func (s *faultyStore) Get(ctx context.Context, key proto.Key) (store.Record, error) {
	there, back, _, down := s.node.faults.fate(key, s.node.name)
	if err := s.refused(down); err != nil {
		return store.Record{}, err
	}
	if err := clock.Sleep(ctx, there); err != nil {
		return store.Record{}, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	record, err := s.store.Get(ctx, key)
	s.node.faults.held(key)
	if late := clock.Sleep(ctx, back); late != nil {
		return store.Record{}, fmt.Errorf("%w: %w", store.ErrUnavailable, late)
	}
	return record, err
}

// Put implements store.Store.
func (s *faultyStore) Put(ctx context.Context, key proto.Key, value []byte, opts store.PutOptions) (cas store.CAS, err error) {
	err = s.change(ctx, key, func(ctx context.Context) (err error) {
		cas, err = s.store.Put(ctx, key, value, opts)
		return err
	})
	return cas, err
}

// Delete implements store.Store.
func (s *faultyStore) Delete(ctx context.Context, key proto.Key, cas store.CAS) error {
	return s.change(ctx, key, func(ctx context.Context) error { return s.store.Delete(ctx, key, cas) })
}

// change is a write. Once it has left it arrives, whether or not somebody waits for the answer.
func (s *faultyStore) change(ctx context.Context, key proto.Key, do func(context.Context) error) error {
	there, back, lost, down := s.node.faults.fate(key, s.node.name)
	if err := s.refused(down); err != nil {
		return err
	}
	time.Sleep(there)
	err := do(context.WithoutCancel(ctx))
	if late := clock.Sleep(ctx, back); late != nil {
		return fmt.Errorf("%w: %w", store.ErrAmbiguous, late)
	}
	if lost {
		return fmt.Errorf("%w: the answer was lost", store.ErrAmbiguous)
	}
	return err
}

// holdReads makes reads of an id wait, after the store has answered, until release is called.
func (f *storeFaults) holdReads(id string) (release func()) {
	gate := make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hold = map[string]chan struct{}{id: gate}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.hold, id)
		close(gate)
	}
}

func (f *storeFaults) held(key proto.Key) {
	f.mu.Lock()
	if f.reads == nil {
		f.reads = map[string]int{}
	}
	f.reads[key.ID]++
	gate := f.hold[key.ID]
	f.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

// readsOf returns how often a node has read an id.
func (f *storeFaults) readsOf(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads[id]
}

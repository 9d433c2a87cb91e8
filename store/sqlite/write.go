package sqlite

import (
	"sync/atomic"
	"time"

	"klatch/store"
)

type verb byte

const (
	verbPut verb = iota
	verbDelete
	verbSweep
)

// write is one caller's write on its way through the queue of the writer. It holds copies of what the
// caller passed in, because the caller may be gone before the writer is done.
type write struct {
	verb  verb
	key   []byte
	value []byte // never nil: that would be NULL
	cas   store.CAS
	ttl   time.Duration
	rows  []int64 // of a sweep: the rows to delete if they are still expired

	state atomic.Int32
	done  chan struct{} // holds one token once the fields below are set

	newCAS  store.CAS
	deleted int // by a sweep
	err     error
}

// A write is taken out of the queue by whoever moves it on: the writer inside a transaction, or the
// caller whose context has ended.
const (
	queued int32 = iota
	claimed
	withdrawn
)

// keptBytes bounds the buffers that are kept for the next write.
const keptBytes = 64 << 10

func newWrite() *write {
	return &write{value: make([]byte, 0, 1<<10), done: make(chan struct{}, 1)}
}

// prepare makes w a new write. Only its buffers survive.
func (w *write) prepare(verb verb, cas store.CAS) {
	w.verb, w.cas, w.ttl, w.rows = verb, cas, 0, nil
	w.key, w.value = w.key[:0], w.value[:0]
	w.newCAS, w.deleted, w.err = 0, 0, nil
	w.state.Store(queued)
}

func (w *write) claim() bool    { return w.state.CompareAndSwap(queued, claimed) }
func (w *write) withdraw() bool { return w.state.CompareAndSwap(queued, withdrawn) }

// answer tells the caller. The writer does not touch w afterwards.
func (w *write) answer() { w.done <- struct{}{} }

package sqlite

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/ncruces/go-sqlite3"
)

const (
	// maxWrites and maxBytes bound one transaction, so that nobody waits long for strangers and the log
	// stays short.
	maxWrites = 256
	maxBytes  = 8 << 20

	queueLength = 1024
)

// writer carries out all writes of the process. While it commits, which is a wait for the disk, the next
// writes queue up, and then share the next commit: the more callers, the more share.
type writer struct {
	dialer   *dialer
	file     identity
	now      func() time.Time
	queue    <-chan *write
	closing  <-chan struct{}
	counters *counters

	tx    *transaction // nil after a failure: the next transaction dials again
	batch []*write
}

// run ends when the store is closing. What is still queued then was never begun.
func (w *writer) run() {
	for {
		select {
		case first := <-w.queue:
			w.transact(first)
		case <-w.closing:
			return
		}
	}
}

func (w *writer) transact(first *write) {
	w.gather()
	err := w.begin()
	w.claim(first)
	if err == nil {
		err = w.apply()
	}
	for _, write := range w.batch {
		if err != nil {
			write.err = err
		} else {
			w.count(write)
		}
		write.answer()
	}
	clear(w.batch)
	w.batch = w.batch[:0]
}

// gather lets the callers who were just answered queue their next writes, as long as more come at once.
// It waits for nobody: a write alone is not held up.
func (w *writer) gather() {
	for n := -1; n < len(w.queue) && n < maxWrites; {
		n = len(w.queue)
		runtime.Gosched()
	}
}

// claim takes the first write and what else is queued, except what was withdrawn. It runs inside the
// transaction, so that writes can be withdrawn while it waits for another process.
func (w *writer) claim(first *write) {
	bytes := 0
	for next := first; ; {
		if next.claim() {
			w.batch = append(w.batch, next)
			bytes += len(next.value)
		}
		if len(w.batch) >= maxWrites || bytes >= maxBytes {
			return
		}
		select {
		case next = <-w.queue:
		default:
			return
		}
	}
}

func (w *writer) begin() error {
	if err := w.file.check(); err != nil {
		w.counters.failed.Add(1)
		return unavailable(err)
	}
	if w.tx == nil {
		tx, err := newTransaction(context.Background(), w.dialer)
		if err != nil {
			w.counters.failed.Add(1)
			return unavailable(err)
		}
		w.tx = tx
	}
	if err := w.tx.start(); err != nil {
		w.fail(err)
		return unavailable(err)
	}
	return nil
}

// apply carries out the batch and commits it. Its error holds for every write of the batch.
func (w *writer) apply() error {
	// Read after the batch is complete: a time to live must not count from before its write was asked for.
	w.tx.now = w.now()
	for _, write := range w.batch {
		if err := w.tx.apply(write); err != nil {
			w.fail(err)
			return unavailable(err)
		}
	}
	committing, err := w.tx.finish()
	switch {
	case err == nil && committing:
		w.counters.transactions.Add(1)
		return nil
	case err == nil:
		return nil
	case committing:
		w.fail(err)
		return commitFailed(err)
	default:
		w.fail(err)
		return unavailable(err)
	}
}

// fail ends a transaction that cannot go on. After anything but the refusal of a busy file the
// connection is given up: what state it is in is not worth finding out.
func (w *writer) fail(cause error) {
	w.counters.failed.Add(1)
	if err := w.tx.abandon(); err == nil && errors.Is(cause, sqlite3.BUSY) {
		return
	}
	_ = hangUp(w.tx.conn) // its callers are told the cause
	w.tx = nil
}

// close closes the connection; the last one to the file copies the log into it. run has ended.
func (w *writer) close() error {
	if w.tx == nil {
		return nil
	}
	return hangUp(w.tx.conn)
}

func (w *writer) count(write *write) {
	switch {
	case write.err != nil:
		w.counters.refused.Add(1)
	case write.verb == verbPut:
		w.counters.puts.Add(1)
	case write.verb == verbDelete:
		w.counters.deletes.Add(1)
	default:
		w.counters.swept.Add(uint64(write.deleted))
	}
}

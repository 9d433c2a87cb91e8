// Package sqlite is the driver behind sqlite: URLs: the store in one file on this machine, which several
// processes may share. It needs no C compiler.
//
// One goroutine carries out all writes of a process and commits together what queued up while the last
// commit waited for the disk; reads run beside it on connections of their own. The file is an SQLite
// database in write-ahead-log mode, so it must lie on a local disk, and a copy must be made with SQLite's
// own means, never of the file alone while it is open.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"klatch/store"
)

var (
	_ store.Store  = (*Store)(nil)
	_ store.Lister = (*Store)(nil)
)

// Store is an open file. It is safe for concurrent use.
type Store struct {
	opts     Options
	path     string // with symbolic links resolved
	counters counters
	writes   sync.Pool // of *write

	queue   chan *write
	readers chan *reader  // those that nobody uses now
	closing chan struct{} // closed when Close begins
	stopped chan struct{} // closed when the writer has ended: nothing in the queue will be begun

	writer     *writer
	stopSweep  context.CancelFunc
	background sync.WaitGroup // the writer and the sweeper
	close      func() error
}

// Open opens the file, creating it where it is missing. The caller must Close the store.
func Open(ctx context.Context, opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{
		opts:    opts,
		queue:   make(chan *write, queueLength),
		readers: make(chan *reader, opts.Readers),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
	}
	s.writes.New = func() any { return newWrite() }
	s.close = sync.OnceValue(s.shutDown)
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("open store %s: %w", opts.Path, err)
	}

	sweepCtx, stopSweep := context.WithCancel(context.Background())
	s.stopSweep = stopSweep
	s.background.Go(func() {
		defer close(s.stopped)
		s.writer.run()
	})
	s.background.Go(func() { s.sweep(sweepCtx) })
	return s, nil
}

// open prepares the file and opens all connections, or none.
func (s *Store) open(ctx context.Context) (err error) {
	if s.path, err = createFile(s.opts.Path); err != nil {
		return err
	}
	file, err := identify(s.path)
	if err != nil {
		return err
	}
	d := &dialer{
		path:        s.path,
		synchronous: s.opts.Synchronous,
		firstCAS:    firstCAS(s.opts.Now()),
		patience:    patience{bound: s.opts.BusyTimeout, closing: s.closing, waits: &s.counters.busyWaits},
	}
	s.writer = &writer{dialer: d, file: file, now: s.opts.Now, queue: s.queue, closing: s.closing, counters: &s.counters}
	defer func() {
		if err != nil {
			err = openFailed(ctx, errors.Join(err, s.hangUpAll(len(s.readers))))
		}
	}()
	err = d.patience.retry(ctx, func() error {
		s.writer.tx, err = newTransaction(ctx, d)
		return err
	})
	if err != nil {
		return err
	}
	for range s.opts.Readers {
		r, err := newReader(d)
		if err != nil {
			return err
		}
		s.readers <- r
	}
	return protect(s.path)
}

// Close waits for what has begun and closes the file; the last process to do so leaves no log behind. What
// is still queued, and every later verb, fails with store.ErrUnavailable.
func (s *Store) Close() error { return s.close() }

func (s *Store) shutDown() error {
	close(s.closing)
	s.stopSweep()
	s.background.Wait()
	if err := s.hangUpAll(cap(s.readers)); err != nil {
		return fmt.Errorf("close store %s: %w", s.opts.Path, err)
	}
	return nil
}

// hangUpAll closes so many readers, waiting for those in use, and then the writer: the last connection
// copies the log into the file, and a reader may not write.
func (s *Store) hangUpAll(readers int) error {
	var errs []error
	for range readers {
		errs = append(errs, hangUp((<-s.readers).conn))
	}
	return errors.Join(append(errs, s.writer.close())...)
}

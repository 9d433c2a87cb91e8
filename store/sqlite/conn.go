package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"
)

const (
	// logBytes is what the log is cut down to after a burst made it longer.
	logBytes = 64 << 20

	writerCacheKiB = 16 << 10
	readerCacheKiB = 8 << 10
)

// dialer opens connections to one file.
type dialer struct {
	path        string
	synchronous Synchronous
	firstCAS    int64 // where a new file begins to count
	patience    patience
}

// patience is how an operation waits for a file that another process holds. SQLite's own handler begins
// with naps that are longer than our whole transactions.
type patience struct {
	bound   time.Duration
	closing <-chan struct{}
	waits   *atomic.Uint64
}

const (
	firstNap   = 100 * time.Microsecond
	longestNap = 3 * time.Millisecond
)

// handler returns the busy handler of one connection.
func (p patience) handler() func(ctx context.Context, count int) bool {
	var began time.Time
	return func(ctx context.Context, count int) bool {
		if count == 0 {
			began = time.Now()
		}
		if time.Since(began) >= p.bound {
			return false
		}
		p.waits.Add(1)
		return p.nap(ctx, count) == nil
	}
}

func (p patience) nap(ctx context.Context, count int) error {
	timer := time.NewTimer(min(firstNap<<min(count, 10), longestNap))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.closing:
		return errClosed
	}
}

// retry repeats what SQLite refuses as busy without asking the busy handler, such as the change to
// write-ahead logging.
func (p patience) retry(ctx context.Context, attempt func() error) error {
	began := time.Now()
	for count := 0; ; count++ {
		err := attempt()
		if !errors.Is(err, sqlite3.BUSY) || time.Since(began) >= p.bound {
			return err
		}
		p.waits.Add(1)
		if err := p.nap(ctx, count); err != nil {
			return err
		}
	}
}

// dial opens a connection. The file exists.
func (d *dialer) dial(pragmas string) (*sqlite3.Conn, error) {
	c, err := sqlite3.OpenFlags(d.path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_NOMUTEX)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.BusyHandler(d.patience.handler()), c.Exec(pragmas)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (d *dialer) dialWriter() (*sqlite3.Conn, error) {
	return d.dial(fmt.Sprintf("PRAGMA synchronous = %s; PRAGMA cache_size = -%d; PRAGMA journal_size_limit = %d",
		d.synchronous, writerCacheKiB, logBytes))
}

func (d *dialer) dialReader() (*sqlite3.Conn, error) {
	return d.dial(fmt.Sprintf("PRAGMA query_only = ON; PRAGMA cache_size = -%d", readerCacheKiB))
}

// statements prepares what a connection runs again and again.
func statements(c *sqlite3.Conn, sql map[**sqlite3.Stmt]string) error {
	for stmt, text := range sql {
		var err error
		if *stmt, _, err = c.PrepareFlags(text, sqlite3.PREPARE_PERSISTENT); err != nil {
			return fmt.Errorf("prepare %q: %w", text, err)
		}
	}
	return nil
}

// hangUp closes a connection and its statements.
func hangUp(c *sqlite3.Conn) error {
	for _, stmt := range slices.Collect(c.Stmts()) {
		// Close repeats the failure of the last step, which its caller has been told.
		_ = stmt.Close()
	}
	return c.Close()
}

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"klatch/store"
)

var (
	// ErrForeignFile is returned by Open for a file that is no SQLite database, or one of another program.
	// It is left as it was. Choose another path.
	ErrForeignFile = errors.New("not a klatch store")

	// ErrNoAccess is returned by Open when the file or its directory cannot be created or written.
	ErrNoAccess = errors.New("store file not writable")
)

var (
	errClosed = fmt.Errorf("%w: closed", store.ErrUnavailable)

	// errWithdrawn answers a write whose context ended while it was still queued.
	errWithdrawn = fmt.Errorf("%w: withdrawn before it began", store.ErrUnavailable)

	// errInFlight answers a write whose context ended while it was being committed.
	errInFlight = fmt.Errorf("%w: the context ended during the commit", store.ErrAmbiguous)
)

// openFailed says what a failure of Open means and what to do about it.
func openFailed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return unavailable(ctx.Err())
	case errors.Is(err, ErrForeignFile), errors.Is(err, ErrNoAccess), errors.Is(err, store.ErrSchema):
		return err
	case errors.Is(err, sqlite3.NOTADB):
		return fmt.Errorf("%w: the file is no SQLite database: choose another path", ErrForeignFile)
	case errors.Is(err, sqlite3.CANTOPEN), errors.Is(err, sqlite3.READONLY), errors.Is(err, sqlite3.PERM):
		return noAccess(err)
	}
	return unavailable(err)
}

// unavailable wraps the failure of a read, or of a write that was certainly rolled back.
func unavailable(err error) error {
	if errors.Is(err, sqlite3.BUSY) {
		return fmt.Errorf("%w: other processes hold the file: %w", store.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// commitFailed decides what a failed COMMIT means for the writes in it.
//
// A transaction counts once its last frame, the commit frame, is whole in the log. A COMMIT that found
// the file busy or was interrupted wrote nothing; one that met a full disk could not write all its
// frames. After any other failure, such as a failed fsync, the whole transaction may lie in the log: it
// is rolled back now, but a crash before the log is written over would bring it to life.
func commitFailed(err error) error {
	var code sqlite3.ExtendedErrorCode
	diskFull := errors.Is(err, sqlite3.FULL) ||
		errors.As(err, &code) && code == sqlite3.IOERR_WRITE && errors.Is(err, syscall.ENOSPC)
	if diskFull || errors.Is(err, sqlite3.BUSY) || errors.Is(err, sqlite3.INTERRUPT) {
		return unavailable(err)
	}
	return fmt.Errorf("%w: commit: %w", store.ErrAmbiguous, err)
}

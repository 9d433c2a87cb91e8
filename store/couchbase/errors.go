package couchbase

import (
	"errors"
	"fmt"
	"io"

	"github.com/couchbase/gocb/v2"

	"klatch/store"
)

// What an operator must mend before the store can be used. Open returns these; where they are found later,
// Ready does, and the verbs return them within store.ErrUnavailable.
var (
	// ErrAuthentication is returned when the cluster refuses the user or the password.
	ErrAuthentication = errors.New("the cluster refuses the user or the password")

	// ErrBucket is returned when there is no such bucket, or the user has no access to it.
	ErrBucket = errors.New("no such bucket, or no access to it")

	// ErrCollection is returned when the scope or the collection is missing and could not be created.
	ErrCollection = errors.New("scope or collection missing")
)

var (
	errClosed     = fmt.Errorf("%w: closed", store.ErrUnavailable)
	errConnecting = errors.New("not connected yet")

	errNoConnection = errors.New("no connection")
)

// permanent tells whether err goes on until an operator does something.
func permanent(err error) bool {
	return errors.Is(err, ErrAuthentication) || errors.Is(err, ErrBucket) || errors.Is(err, ErrCollection)
}

// failure is an error of gocb with another text: gocb's shows the key, which may be a session id.
type failure struct {
	text  string
	cause error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

// described returns err without the key in its text.
func described(err error) error {
	var timeout *gocb.TimeoutError
	if errors.As(err, &timeout) {
		where := "waiting for a connection"
		if timeout.LastDispatchedTo != "" {
			where = "last sent to " + timeout.LastDispatchedTo
		}
		return &failure{fmt.Sprintf("%v, %d retries, %s", timeout.InnerError, timeout.RetryAttempts, where), err}
	}
	var kv *gocb.KeyValueError
	if errors.As(err, &kv) {
		return &failure{fmt.Sprintf("%v (status %#x from %s)", kv.InnerError, uint16(kv.StatusCode), kv.LastDispatchedTo), err}
	}
	return err
}

// readFailed says what a failed read means.
func readFailed(err error) error {
	if errors.Is(err, gocb.ErrDocumentNotFound) {
		return fmt.Errorf("%w: %w", store.ErrNotFound, described(err))
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, described(err))
}

// writeFailed says what a failed write means: unknown, unless the server, or gocb before it sent anything,
// has given a reason that excludes that the write was applied.
//
// A time-out that names no node is no such reason, although gocb names none for what still waits in its
// queue: it builds the error before it withdraws the request, which may be sent in between. (A test of the
// suite found such writes applied.)
func writeFailed(err error) error {
	kind := store.ErrAmbiguous
	switch {
	case errors.Is(err, gocb.ErrDocumentNotFound):
		kind = store.ErrNotFound
	case errors.Is(err, gocb.ErrDocumentExists), errors.Is(err, gocb.ErrCasMismatch):
		kind = store.ErrConflict
	case errors.Is(err, gocb.ErrValueTooLarge):
		kind = store.ErrTooLarge
	case refused(err):
		kind = store.ErrUnavailable
	}
	return fmt.Errorf("%w: %w", kind, described(err))
}

// refusals are answers that say that nothing was done.
var refusals = []error{
	gocb.ErrTemporaryFailure,
	gocb.ErrOverload,
	gocb.ErrCircuitBreakerOpen,
	gocb.ErrServiceNotAvailable,
	gocb.ErrDurabilityImpossible,           // fewer replicas are up than the level asks for
	gocb.ErrDurabilityLevelNotAvailable,    // the bucket cannot do it, such as persistence without a disk
	gocb.ErrFeatureNotAvailable,            // the cluster cannot do it
	gocb.ErrDurableWriteInProgress,         // another write of the record waits for its replicas
	gocb.ErrDurableWriteReCommitInProgress, // the same, after a fail-over
	gocb.ErrAuthenticationFailure,
	gocb.ErrBucketNotFound,
	gocb.ErrScopeNotFound,
	gocb.ErrCollectionNotFound,
}

func refused(err error) bool {
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// broken tells whether err shows that the store does not answer. A refusal is an answer.
func broken(err error) bool {
	return errors.Is(err, gocb.ErrTimeout) || errors.Is(err, io.EOF)
}

package session

import (
	"errors"
	"fmt"
	"net/http"

	"klatch/proto"
)

var (
	// ErrNotFound is returned when no live session has the id: it never existed, ended or expired.
	ErrNotFound = errors.New("no such session")

	// ErrGone is returned by a commit whose session was deleted or expired after it was loaded. Nothing
	// was written, and the id stays dead.
	ErrGone = errors.New("the session has ended")

	// ErrConflict is what a [ConflictError] wraps.
	ErrConflict = errors.New("the session has changed")

	// ErrTooLarge is returned when a session would exceed its size limit. The old revision is intact.
	ErrTooLarge = errors.New("the session would be too large")

	// ErrInvalid is returned for settings or attributes that no session can have.
	ErrInvalid = errors.New("invalid session")

	// ErrOutcomeUnknown is returned by a commit when the store's answer was lost and it could not be found
	// out whether the write was applied. Load the session again to see.
	ErrOutcomeUnknown = errors.New("it is unknown whether the change was saved")

	// ErrNoMiddleware is returned on starting a session in a request that did not pass Manager.Middleware.
	ErrNoMiddleware = errors.New("no session middleware around this handler")

	// ErrCorrupt is returned for a session whose stored record cannot be decoded. Other sessions are not
	// affected.
	ErrCorrupt = errors.New("the stored session is damaged")
)

// ConflictError says that a commit's condition was not met. Nothing was written.
type ConflictError struct {
	// Current is the version of the content that the store has now.
	Current proto.Version
	// Precondition is true when IfMatch was not met, and false when an attribute that a strict commit
	// changes had been changed by somebody else.
	Precondition bool
	// Attribute is the one that had been changed, unless Precondition.
	Attribute string
}

func (e *ConflictError) Error() string {
	if e.Precondition {
		return fmt.Sprintf("%v: it is now at version %s", ErrConflict, e.Current)
	}
	return fmt.Sprintf("%v: attribute %.64q was changed meanwhile, it is now at version %s", ErrConflict, e.Attribute, e.Current)
}

// Unwrap returns ErrConflict.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// Status returns the HTTP status that fits an error of this package.
func Status(err error) int {
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrGone):
		return http.StatusNotFound
	case errors.Is(err, ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNoMiddleware):
		return http.StatusInternalServerError
	}
	var conflict *ConflictError
	if errors.As(err, &conflict) {
		if conflict.Precondition {
			return http.StatusPreconditionFailed
		}
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable
}

func plainError(w http.ResponseWriter, _ *http.Request, err error) {
	status := Status(err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, http.StatusText(status), status)
}

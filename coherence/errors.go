package coherence

import "errors"

var (
	// ErrInvalid is returned for a plan that is out of bounds.
	ErrInvalid = errors.New("coherence check")

	// ErrBusy is returned when as many checks run as may.
	ErrBusy = errors.New("too many checks run at once; wait until one has ended")

	// ErrUnknown is returned for a check that is not, or no more, known.
	ErrUnknown = errors.New("no such check is known")
)

package store

import "errors"

// Every error of a driver is one of these and wraps its cause. Compare with errors.Is.
var (
	// ErrNotFound is returned when there is no live record under the key.
	ErrNotFound = errors.New("not found")

	// ErrConflict is returned by a write whose CAS, or Absent, is not met. Nothing was written. Read the
	// record again and decide anew.
	ErrConflict = errors.New("the record has changed")

	// ErrTooLarge is returned for a value above MaxValueBytes. Nothing was written.
	ErrTooLarge = errors.New("value too large")

	// ErrInvalid is returned for a call that no store could carry out, such as a write without a TTL.
	// Nothing was written.
	ErrInvalid = errors.New("invalid call")

	// ErrUnavailable is returned when the store cannot be reached, or was closed. A write that fails with
	// it was certainly not applied.
	ErrUnavailable = errors.New("store unavailable")

	// ErrAmbiguous is returned by a write that may or may not have been applied: the answer was lost after
	// sending, or the context ended meanwhile. It is what a driver answers for every failure of a write
	// that is not known to be harmless. Read the record back to find out.
	ErrAmbiguous = errors.New("write outcome unknown")

	// ErrSchema is returned on opening a store that a newer release has written. The cure is to upgrade
	// this node.
	ErrSchema = errors.New("store was written by a newer release")
)

package observe

import (
	"errors"

	"klatch/store"
)

type verb int

const (
	verbGet verb = iota
	verbPut
	verbDelete
	verbs
)

type outcome int

const (
	outcomeOK outcome = iota
	outcomeNotFound
	outcomeConflict
	outcomeRefused
	outcomeUnavailable
	outcomeAmbiguous
	outcomes
)

var (
	verbNames    = [verbs]string{"get", "put", "delete"}
	outcomeNames = [outcomes]string{"ok", "not_found", "conflict", "refused", "unavailable", "ambiguous"}
)

// outcomeOf names how an operation ended; refused is what was wrong in itself.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return outcomeOK
	case errors.Is(err, store.ErrNotFound):
		return outcomeNotFound
	case errors.Is(err, store.ErrConflict):
		return outcomeConflict
	case errors.Is(err, store.ErrTooLarge), errors.Is(err, store.ErrInvalid):
		return outcomeRefused
	case errors.Is(err, store.ErrAmbiguous):
		return outcomeAmbiguous
	default:
		return outcomeUnavailable
	}
}

// Count is how often a verb has ended in an outcome.
type Count struct {
	Verb    string // get, put or delete
	Outcome string // ok, not_found, conflict, refused, unavailable or ambiguous
	N       uint64
}

// Counts returns the counts so far, of every verb and outcome. The questions that the observer asks by itself
// are not among them.
func (s *Store) Counts() []Count {
	counts := make([]Count, 0, int(verbs)*int(outcomes))
	for v := range verbs {
		for o := range outcomes {
			counts = append(counts, Count{Verb: verbNames[v], Outcome: outcomeNames[o], N: s.counters[v][o].Load()})
		}
	}
	return counts
}

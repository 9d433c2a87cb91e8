package couchbase

import (
	"errors"
	"sync/atomic"

	"klatch/store"
)

// Outcomes count the operations of one verb by how they ended.
type Outcomes struct {
	OK, NotFound, Conflict, TooLarge, Invalid, Unavailable, Ambiguous uint64
}

// Total returns the sum.
func (o Outcomes) Total() uint64 {
	return o.OK + o.NotFound + o.Conflict + o.TooLarge + o.Invalid + o.Unavailable + o.Ambiguous
}

// Stats count what a Store has done since it was opened.
type Stats struct {
	Get, Put, Delete Outcomes

	KeptAway uint64 // operations answered with store.ErrUnavailable because the store was known to be gone
	Outages  uint64 // times that the store stopped answering
	Probes   uint64 // attempts to reach it, the first one included
}

// Stats returns the counters as they are now.
func (s *Store) Stats() Stats {
	return Stats{
		Get: s.gets.read(), Put: s.puts.read(), Delete: s.deletes.read(),
		KeptAway: s.breaker.kept.Load(), Outages: s.breaker.trips.Load(), Probes: s.probes.Load(),
	}
}

// outcomes are in the order of the errors below; the first is success.
type outcomes [7]atomic.Uint64

var countedErrors = [...]error{
	store.ErrNotFound, store.ErrConflict, store.ErrTooLarge, store.ErrInvalid, store.ErrUnavailable, store.ErrAmbiguous,
}

// count records how an operation ended and returns its error.
func (o *outcomes) count(err error) error {
	if err == nil {
		o[0].Add(1)
		return nil
	}
	for i, kind := range countedErrors {
		if errors.Is(err, kind) {
			o[i+1].Add(1)
			return err
		}
	}
	return err
}

func (o *outcomes) read() Outcomes {
	return Outcomes{
		OK: o[0].Load(), NotFound: o[1].Load(), Conflict: o[2].Load(), TooLarge: o[3].Load(), Invalid: o[4].Load(),
		Unavailable: o[5].Load(), Ambiguous: o[6].Load(),
	}
}

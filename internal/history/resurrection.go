package history

import (
	"slices"
	"time"
)

// NoResurrection checks that nothing that began after the answer to a delete finds the record, on any node: no
// read, whatever its level, and no write.
type NoResurrection struct {
	// Grace is how long after the answer the nodes that it named as unconfirmed may still answer reads from
	// a copy, unless these ask for latest. Default 0: they may not.
	Grace time.Duration
}

// Check implements Checker.
func (c NoResurrection) Check(h History) []Violation {
	f := &findings{promise: "no resurrection"}
	for _, key := range h.ByKey() {
		for _, deleted := range key {
			if deleted.Kind != Delete || !deleted.acknowledged() {
				continue
			}
			for _, o := range key {
				if o.Kind != Delete && o.acknowledged() && deleted.before(o) && !c.excused(deleted, o) {
					f.add([]Operation{deleted, o}, "the record was found %v after its delete had been acknowledged", o.Start-deleted.End)
					break // what follows shows the same
				}
			}
		}
	}
	return f.found
}

func (c NoResurrection) excused(deleted, o Operation) bool {
	return o.Kind == Read && o.Level != Latest && slices.Contains(deleted.Unconfirmed, o.Node) && o.Start-deleted.End <= c.Grace
}

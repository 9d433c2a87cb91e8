package near

import (
	"time"

	"klatch/proto"
	"klatch/store"
)

// Value is a decoded record. It is shared by all readers and must not change, except for what it guards
// itself.
type Value interface {
	// Stamps returns the version of the record's last write and that of the last change to its content.
	Stamps() (version, changed proto.Version)
	// Expired reports whether the record's deadline has passed.
	Expired(now time.Time) bool
	// Size returns the bytes that the value occupies in memory, roughly.
	Size() int
}

// Copy is one revision of one record in memory.
type Copy[V Value] struct {
	Value V
	CAS   store.CAS

	began time.Time // when the store operation that brought it began
}

// newerThan reports whether c replaces other.
func (c *Copy[V]) newerThan(other *Copy[V]) bool {
	mine, _ := c.Value.Stamps()
	theirs, _ := other.Value.Stamps()
	return mine > theirs || (mine == theirs && c.began.After(other.began))
}

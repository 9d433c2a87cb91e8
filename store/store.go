// Package store defines the durable truth: one compare-and-swap key/value store that all nodes share.
//
// A driver offers three verbs and nothing else, so that any store with compare-and-swap can be one. The
// driver packages are store/memory, store/sqlite and store/couchbase; store/storetest is the suite that
// every driver passes; store/near keeps copies of records in memory.
package store

import (
	"context"
	"time"

	"klatch/proto"
)

// CAS is a store's own token for one revision of one record. It is compared for equality and for nothing
// else, and never repeats for a key.
type CAS uint64

// What a write may demand of the record that it replaces, beside an exact CAS.
const (
	// Any demands nothing.
	Any CAS = 0
	// Absent demands that there is no record, or only an expired one.
	Absent CAS = 1<<64 - 1
)

// Forever is the TTL of a record that the store must keep until it is deleted.
const Forever time.Duration = -1

// MaxValueBytes bounds the value of a record in every driver: 20 MiB, the limit of Couchbase, less room
// for what a driver adds.
const MaxValueBytes = 20<<20 - 4<<10

// Record is one stored value and the token of its revision.
type Record struct {
	Value []byte
	CAS   CAS
}

// PutOptions say how a record is written.
type PutOptions struct {
	// CAS is Any, Absent or the exact token that the record must still have.
	CAS CAS

	// TTL is when the record may be collected, counted from the write. It is required, because a write
	// that forgets it would make a record immortal: zero is refused, use Forever. Drivers may round it up
	// to whole seconds. It only collects garbage: deadlines that matter live in the record.
	TTL time.Duration

	// Durable asks that the write survives the fail-over of a replicated store. Stores without replicas
	// ignore it.
	Durable bool
}

// Store is a driver. All verbs are safe for concurrent use and honour the context. Values passed in and
// out are not kept or changed by the other side after the call.
type Store interface {
	// Get returns the record of key, or ErrNotFound.
	Get(ctx context.Context, key proto.Key) (Record, error)

	// Put writes value if the record meets opts.CAS and returns the new token. With Absent it fails with
	// ErrConflict where a record exists; with an exact CAS, with ErrConflict where the record has another
	// and with ErrNotFound where there is none.
	Put(ctx context.Context, key proto.Key, value []byte, opts PutOptions) (CAS, error)

	// Delete removes the record if it meets cas, which is Any or exact. It fails with ErrNotFound where
	// there is no record and with ErrConflict where it has another CAS.
	Delete(ctx context.Context, key proto.Key, cas CAS) error
}

// Lister is what a driver offers beside Store where it can enumerate.
type Lister interface {
	// List calls visit for every live record whose key begins with the tenant and kind of prefix and whose
	// id begins with prefix.ID, in no promised order, until visit returns an error, which List returns.
	List(ctx context.Context, prefix proto.Key, visit func(proto.Key, Record) error) error
}

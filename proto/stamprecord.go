package proto

import (
	"fmt"
	"time"
)

// StampRecord holds the epoch of a tenant and the stamps that were raised in it.
type StampRecord struct {
	// Epoch counts raises. It never goes down.
	Epoch uint64
	// Floor is the epoch below which everything of the tenant is dead, whatever its scopes.
	Floor uint64
	// Stamps are those above the floor, in the order in which they were raised.
	Stamps []ScopeStamp
}

// ScopeStamp says that everything under a scope whose fetch began before Epoch is dead.
type ScopeStamp struct {
	Scope  string
	Epoch  uint64
	Raised time.Time // to the millisecond; only pruning looks at it
}

const (
	stampRecordFields = 4
	scopeStampFields  = 3
	stampSchema       = 1
)

// StampsKey is the key of a tenant's stamps.
func StampsKey(tenant string) Key { return Key{Tenant: tenant, Kind: KindStamps, ID: "stamps"} }

// Encode returns the msgpack form.
func (r StampRecord) Encode() []byte {
	e := newEncoder()
	e.array(stampRecordFields)
	e.uint(stampSchema)
	e.uint(r.Epoch)
	e.uint(r.Floor)
	e.array(len(r.Stamps))
	for _, s := range r.Stamps {
		e.array(scopeStampFields)
		e.string(s.Scope)
		e.uint(s.Epoch)
		e.time(s.Raised)
	}
	return e.buf.Bytes()
}

// DecodeStampRecord reads the msgpack form.
func DecodeStampRecord(p []byte) (StampRecord, error) {
	d := newDecoder(p)
	fields := d.array(stampRecordFields)
	d.schema(stampSchema)
	r := StampRecord{Epoch: d.uint(), Floor: d.uint()}
	n := d.array(0)
	r.Stamps = make([]ScopeStamp, 0, n)
	for range n {
		elements := d.array(scopeStampFields)
		r.Stamps = append(r.Stamps, ScopeStamp{Scope: d.string(), Epoch: d.uint(), Raised: d.time()})
		d.trailing(elements - scopeStampFields)
	}
	d.trailing(fields - stampRecordFields)
	if err := d.end(); err != nil {
		return StampRecord{}, fmt.Errorf("stamps: %w", err)
	}
	return r, nil
}

// Package storetest is the suite that every store driver passes: what store.Store promises, as tests.
//
// A driver's own tests call Run with a Harness. The suite uses keys of its own in every test, so that the
// stores that a harness opens may all be one remote store.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"klatch/proto"
	"klatch/store"
)

// Harness is how the suite gets at a driver.
type Harness struct {
	// Open returns an open store. It sees to closing it with t.Cleanup. Where the store has a method
	// Close() error, the suite may call it first.
	Open func(t *testing.T) store.Store

	// Advance moves the clock that the driver reads, for drivers whose clock the test owns. Without it
	// the suite waits for the shortest times to live and does not see the long ones end.
	Advance func(d time.Duration)

	// Rounding is the unit that the driver rounds a TTL up to. Zero means a millisecond.
	Rounding time.Duration

	// Patience bounds every wait. The default is 30 s.
	Patience time.Duration

	// RepeatsCAS is for a server that is known to give one token twice, and leaves out the part that
	// shows it. No driver for production may need it.
	RepeatsCAS bool
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Open == nil {
		t.Fatal("storetest: the harness needs Open")
	}
	if h.Patience == 0 {
		h.Patience = 30 * time.Second
	}
	parts := []part{
		{"Get", (*suite).get},
		{"PutAny", (*suite).putAny},
		{"PutAbsent", (*suite).putAbsent},
		{"PutExact", (*suite).putExact},
		{"Delete", (*suite).delete},
		{"InvalidCalls", (*suite).invalidCalls},
		{"ValuesAreNotShared", (*suite).valuesAreNotShared},
		{"Sizes", (*suite).sizes},
		{"OddKeys", (*suite).oddKeys},
		{"KeysDoNotMix", (*suite).keysDoNotMix},
		{"Expiry", (*suite).expiry},
		{"ExpiredIsAbsent", (*suite).expiredIsAbsent},
		{"WritingRenewsTTL", (*suite).writingRenewsTTL},
		{"LongTTLs", (*suite).longTTLs},
		{"OneWinnerByCAS", (*suite).oneWinnerByCAS},
		{"OneWinnerByAbsent", (*suite).oneWinnerByAbsent},
		{"OneDeleter", (*suite).oneDeleter},
		{"Increments", (*suite).increments},
		{"CancelledContext", (*suite).cancelledContext},
		{"OutcomesAreTrue", (*suite).outcomesAreTrue},
		{"Closed", (*suite).closed},
	}
	if !h.RepeatsCAS {
		parts = append(parts, part{"CASNeverRepeats", (*suite).casNeverRepeats})
	}
	if _, lists := h.Open(t).(store.Lister); lists {
		parts = append(parts, part{"List", (*suite).list}, part{"ListWhileWriting", (*suite).listWhileWriting})
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*h.Patience)
			t.Cleanup(cancel)
			s := &suite{T: t, h: h, ctx: ctx, store: h.Open(t)}
			s.tenant = fmt.Sprintf("suite-%x-%d", time.Now().UnixNano(), suites.Add(1))
			part.run(s)
		})
	}
}

// part is one test of the suite.
type part struct {
	name string
	run  func(*suite)
}

// suites keeps the tenants of all suites of a process apart.
var suites atomic.Uint64

// suite is what one test of the suite works with.
type suite struct {
	*testing.T
	h      Harness
	ctx    context.Context
	store  store.Store
	tenant string
}

func (s *suite) key(id string) proto.Key { return proto.NewKey(s.tenant, proto.KindDocument, id) }

func hourly(cas store.CAS) store.PutOptions { return store.PutOptions{CAS: cas, TTL: time.Hour} }

// put writes a value that must be accepted.
func (s *suite) put(key proto.Key, value string, opts store.PutOptions) store.CAS {
	s.Helper()
	cas, err := s.store.Put(s.ctx, key, []byte(value), opts)
	if err != nil {
		s.Fatalf("put %q: %v", value, err)
	}
	if cas == store.Any || cas == store.Absent {
		s.Fatalf("put %q returned the CAS %d, which means something else", value, cas)
	}
	return cas
}

// wants checks what the record of key is.
func (s *suite) wants(key proto.Key, value string, cas store.CAS) {
	s.Helper()
	rec, err := s.store.Get(s.ctx, key)
	switch {
	case err != nil:
		s.Fatalf("get: %v", err)
	case string(rec.Value) != value:
		s.Fatalf("the value is %.40q, want %.40q", rec.Value, value)
	case rec.CAS != cas:
		s.Fatalf("the CAS is %d, want %d", rec.CAS, cas)
	}
}

// wantsNothing checks that there is no record under key.
func (s *suite) wantsNothing(key proto.Key) {
	s.Helper()
	rec, err := s.store.Get(s.ctx, key)
	s.wantsError(err, store.ErrNotFound)
	if rec.Value != nil || rec.CAS != 0 {
		s.Errorf("a record came with the error: %+v", rec)
	}
}

// wantsError checks that err is want and none of the other causes.
func (s *suite) wantsError(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("error %v, want %q", err, want)
	}
	for _, other := range []error{store.ErrNotFound, store.ErrConflict, store.ErrTooLarge, store.ErrInvalid, store.ErrUnavailable, store.ErrAmbiguous} {
		if other != want && errors.Is(err, other) {
			s.Fatalf("error %q is both %q and %q", err, want, other)
		}
	}
}

// eventually repeats check until it holds, for what only real time brings about.
func (s *suite) eventually(what string, check func() bool) {
	s.Helper()
	for deadline := time.Now().Add(s.h.Patience); !check(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("not within %s: %s", s.h.Patience, what)
		}
	}
}

// gone waits until the record of key, which lives for ttl, has expired.
func (s *suite) gone(key proto.Key, ttl time.Duration) {
	s.Helper()
	if s.h.Advance != nil {
		s.h.Advance(ttl + s.h.Rounding)
		s.wantsNothing(key)
		return
	}
	s.eventually("the record expires", func() bool {
		_, err := s.store.Get(s.ctx, key)
		return errors.Is(err, store.ErrNotFound)
	})
}

// closer returns the store's Close, or skips the test.
func (s *suite) closer() io.Closer {
	closer, ok := s.store.(io.Closer)
	if !ok {
		s.Skip("the driver cannot be closed")
	}
	return closer
}

// ofLength returns a string of n bytes that are not all alike.
func ofLength(n int) string {
	const pattern = "0123456789abcdef-the-quick-brown-fox"
	return strings.Repeat(pattern, n/len(pattern)+1)[:n]
}

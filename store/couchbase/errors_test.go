package couchbase

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/couchbase/gocb/v2"

	"klatch/store"
)

// answer is an error as gocb makes it of a server's answer.
func answer(inner error) error {
	return &gocb.KeyValueError{InnerError: inner, DocumentID: "secret-id", LastDispatchedTo: "h:11210"}
}

func timeout(inner error, sentTo string, retries uint32) error {
	return &gocb.TimeoutError{InnerError: inner, LastDispatchedTo: sentTo, RetryAttempts: retries, OperationID: "op"}
}

func TestWhatFailuresMean(t *testing.T) {
	for name, c := range map[string]struct{ err, read, write error }{
		"not found":      {answer(gocb.ErrDocumentNotFound), store.ErrNotFound, store.ErrNotFound},
		"exists":         {answer(gocb.ErrDocumentExists), store.ErrUnavailable, store.ErrConflict},
		"CAS mismatch":   {answer(gocb.ErrCasMismatch), store.ErrUnavailable, store.ErrConflict},
		"too large":      {answer(gocb.ErrValueTooLarge), store.ErrUnavailable, store.ErrTooLarge},
		"temporary":      {answer(gocb.ErrTemporaryFailure), store.ErrUnavailable, store.ErrUnavailable},
		"overload":       {gocb.ErrOverload, store.ErrUnavailable, store.ErrUnavailable},
		"open breaker":   {gocb.ErrCircuitBreakerOpen, store.ErrUnavailable, store.ErrUnavailable},
		"no replicas":    {answer(gocb.ErrDurabilityImpossible), store.ErrUnavailable, store.ErrUnavailable},
		"no service":     {gocb.ErrServiceNotAvailable, store.ErrUnavailable, store.ErrUnavailable},
		"no such level":  {answer(gocb.ErrDurabilityLevelNotAvailable), store.ErrUnavailable, store.ErrUnavailable},
		"syncing":        {answer(gocb.ErrDurableWriteInProgress), store.ErrUnavailable, store.ErrUnavailable},
		"authentication": {answer(gocb.ErrAuthenticationFailure), store.ErrUnavailable, store.ErrUnavailable},
		"no bucket":      {gocb.ErrBucketNotFound, store.ErrUnavailable, store.ErrUnavailable},
		"no collection":  {answer(gocb.ErrCollectionNotFound), store.ErrUnavailable, store.ErrUnavailable},
		"no scope":       {answer(gocb.ErrScopeNotFound), store.ErrUnavailable, store.ErrUnavailable},

		"perhaps sent":           {timeout(gocb.ErrAmbiguousTimeout, "", 0), store.ErrUnavailable, store.ErrAmbiguous},
		"left by its caller":     {fmt.Errorf("%w: %w", errLeft, context.Canceled), store.ErrUnavailable, store.ErrAmbiguous},
		"sent":                   {timeout(gocb.ErrAmbiguousTimeout, "h:11210", 0), store.ErrUnavailable, store.ErrAmbiguous},
		"sent before":            {timeout(gocb.ErrAmbiguousTimeout, "", 1), store.ErrUnavailable, store.ErrAmbiguous},
		"unambiguous":            {timeout(gocb.ErrUnambiguousTimeout, "h:11210", 0), store.ErrUnavailable, store.ErrAmbiguous},
		"a time-out of no type":  {gocb.ErrAmbiguousTimeout, store.ErrUnavailable, store.ErrAmbiguous},
		"connection closed":      {io.EOF, store.ErrUnavailable, store.ErrAmbiguous},
		"cancelled":              {gocb.ErrRequestCanceled, store.ErrUnavailable, store.ErrAmbiguous},
		"durability unknown":     {answer(gocb.ErrDurabilityAmbiguous), store.ErrUnavailable, store.ErrAmbiguous},
		"locked":                 {answer(gocb.ErrDocumentLocked), store.ErrUnavailable, store.ErrAmbiguous},
		"closed":                 {gocb.ErrShutdown, store.ErrUnavailable, store.ErrAmbiguous},
		"something new":          {errors.New("new"), store.ErrUnavailable, store.ErrAmbiguous},
		"not found after a time": {fmt.Errorf("%w", answer(gocb.ErrDocumentNotFound)), store.ErrNotFound, store.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			wantsKind(t, readFailed(c.err), c.read, c.err)
			wantsKind(t, writeFailed(c.err), c.write, c.err)
		})
	}
}

// wantsKind checks that err is of one kind only, and shows no key.
func wantsKind(t *testing.T, err, want, cause error) {
	t.Helper()
	for _, kind := range countedErrors {
		if errors.Is(err, kind) != (kind == want) {
			t.Errorf("%v is %q: %t", err, kind, errors.Is(err, kind))
		}
	}
	if !errors.Is(err, cause) {
		t.Errorf("%v does not wrap its cause", err)
	}
	if strings.Contains(err.Error(), "secret-id") {
		t.Errorf("%v shows the key", err)
	}
}

func TestOutcomesAreCountedByKind(t *testing.T) {
	var o outcomes
	for _, err := range []error{
		nil, store.ErrNotFound, store.ErrConflict, store.ErrTooLarge, store.ErrInvalid, store.ErrUnavailable,
		writeFailed(io.EOF), writeFailed(io.EOF),
	} {
		if got := o.count(err); !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
	want := Outcomes{OK: 1, NotFound: 1, Conflict: 1, TooLarge: 1, Invalid: 1, Unavailable: 1, Ambiguous: 2}
	if got := o.read(); got != want || got.Total() != 8 {
		t.Errorf("%+v", got)
	}
}

package couchbase

import (
	"testing"

	"github.com/couchbase/gocb/v2"
)

type request struct {
	attempts   uint32
	idempotent bool
}

func (r request) RetryAttempts() uint32            { return r.attempts }
func (r request) Identifier() string               { return "op" }
func (r request) Idempotent() bool                 { return r.idempotent }
func (r request) RetryReasons() []gocb.RetryReason { return nil }

func TestWhatIsRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		reason gocb.RetryReason
		req    request
		want   bool
	}{
		"a read whose connection closed":      {gocb.SocketCloseInFlightRetryReason, request{idempotent: true}, true},
		"a write whose connection closed":     {gocb.SocketCloseInFlightRetryReason, request{}, false},
		"a write that found no connection":    {gocb.SocketNotAvailableRetryReason, request{}, true},
		"a write that was refused for now":    {gocb.KVTemporaryFailureRetryReason, request{}, true},
		"that the third time":                 {gocb.KVTemporaryFailureRetryReason, request{attempts: 2}, false},
		"a locked record":                     {gocb.KVLockedRetryReason, request{idempotent: true}, false},
		"an open breaker":                     {gocb.CircuitBreakerOpenRetryReason, request{idempotent: true}, false},
		"a durable write behind another":      {gocb.KVSyncWriteInProgressRetryReason, request{attempts: 2}, true},
		"a durable write behind an endless ?": {gocb.KVSyncWriteInProgressRetryReason, request{attempts: maxSyncWriteRetries}, false},
	} {
		if got := (retries{}).RetryAfter(c.req, c.reason).Duration() > 0; got != c.want {
			t.Errorf("%s: repeated is %t, want %t", name, got, c.want)
		}
	}
}

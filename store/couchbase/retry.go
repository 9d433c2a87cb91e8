package couchbase

import (
	"time"

	"github.com/couchbase/gocb/v2"
)

const (
	retryPause = 5 * time.Millisecond
	maxRetries = 2
	// maxSyncWriteRetries is more, because a durable write of the same record takes a few network round
	// trips and disk writes, not an instant.
	maxSyncWriteRetries = 20
)

// retries says what gocb repeats by itself: little, and only what cannot be applied twice. What has
// changed or is locked is for the caller to decide. (Some reasons never ask, such as a record that moved to
// another node.)
type retries struct{}

func (retries) RetryAfter(req gocb.RetryRequest, reason gocb.RetryReason) gocb.RetryAction {
	limit := uint32(maxRetries)
	switch reason {
	case gocb.KVLockedRetryReason, gocb.CircuitBreakerOpenRetryReason:
		limit = 0
	case gocb.KVSyncWriteInProgressRetryReason, gocb.KVSyncWriteRecommitInProgressRetryReason:
		limit = maxSyncWriteRetries
	}
	if req.RetryAttempts() >= limit || !req.Idempotent() && !reason.AllowsNonIdempotentRetry() {
		return &gocb.NoRetryRetryAction{}
	}
	return &gocb.WithDurationRetryAction{WithDuration: retryPause}
}

// failFast repeats nothing, so that a probe reports why it failed.
type failFast struct{}

func (failFast) RetryAfter(gocb.RetryRequest, gocb.RetryReason) gocb.RetryAction {
	return &gocb.NoRetryRetryAction{}
}

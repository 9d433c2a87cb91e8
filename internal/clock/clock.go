// Package clock measures how long ago something was in a way that survives a frozen process, a sleeping machine and
// a clock that is set, and waits.
package clock

import (
	"context"
	"time"
)

// Elapsed returns the larger of the monotonic and the wall time from since to now: the first stands still while a
// machine sleeps, the second jumps when it is set.
func Elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// Sleep waits for d, or until ctx ends, and then returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

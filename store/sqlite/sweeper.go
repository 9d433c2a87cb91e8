package sqlite

import (
	"context"
	"time"

	"go.uber.org/zap"
)

const (
	// sweepWindow is how many rows one look of the sweeper covers: a few milliseconds of a reader's time.
	sweepWindow = 4096

	// sweepRows bounds what one sweep adds to a transaction that other writes wait for.
	sweepRows = 128
)

// sweep deletes expired records at every tick until ctx ends.
func (s *Store) sweep(ctx context.Context) {
	ticker := time.NewTicker(s.opts.SweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if err := s.sweepOnce(ctx); err != nil && ctx.Err() == nil {
			s.opts.Logger.Warn("expired records were not swept, the next sweep tries again",
				zap.String("path", s.path), zap.Error(err))
		}
	}
}

// sweepOnce walks through the whole table in small steps, so that neither readers nor writers wait long.
func (s *Store) sweepOnce(ctx context.Context) error {
	for after, done := int64(-1<<63), false; !done; {
		var rows []int64
		err := s.read(ctx, func(r *reader) (err error) {
			rows, after, done, err = r.expiredRows(after, sweepWindow, s.opts.Now().UnixMilli(), sweepRows)
			return err
		})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			continue
		}
		w := newWrite()
		w.prepare(verbSweep, 0)
		w.rows = rows
		if _, err := s.submit(ctx, w); err != nil {
			return err
		}
	}
	s.counters.sweeps.Add(1)
	return nil
}

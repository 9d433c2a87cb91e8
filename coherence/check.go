package coherence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"klatch/internal/clock"
	"klatch/proto"
)

// Copies are what is checked.
type Copies interface {
	// Sample returns the keys of up to n copies, drawn at random.
	Sample(n int) []proto.Key
	// Served returns the version of the content that a reader would be given from memory now, and false if the
	// store would be asked, because there is no copy, or it is behind a fence, or there is no trust.
	Served(key proto.Key) (content proto.Version, ok bool)
	// Stored returns the version of the content that the store has, and false if it has none.
	Stored(ctx context.Context, key proto.Key) (content proto.Version, ok bool, err error)
}

// Plan says how a check is made.
type Plan struct {
	Samples int             `json:"samples"` // copies on each node
	After   []time.Duration `json:"after"`   // when they are looked at, ascending
}

// The defaults of a plan.
const defaultSamples = 1000

var defaultAfter = []time.Duration{time.Second, 10 * time.Second, time.Minute}

// The bounds of a plan.
const (
	maxSamples = 100_000
	maxLooks   = 8
	minAfter   = time.Millisecond
	maxAfter   = 10 * time.Minute
)

// complete fills in the defaults and refuses what is out of bounds.
func (p Plan) complete() (Plan, error) {
	if p.Samples == 0 {
		p.Samples = defaultSamples
	}
	if len(p.After) == 0 {
		p.After = defaultAfter
	}
	p.After = slices.Clone(p.After)
	slices.Sort(p.After)
	switch {
	case p.Samples < 1 || p.Samples > maxSamples:
		return p, fmt.Errorf("%w: %d samples: use 1 to %d", ErrInvalid, p.Samples, maxSamples)
	case len(p.After) > maxLooks:
		return p, fmt.Errorf("%w: %d times to look: use at most %d", ErrInvalid, len(p.After), maxLooks)
	case p.After[0] < minAfter || p.After[len(p.After)-1] > maxAfter:
		return p, fmt.Errorf("%w: times to look: use %s to %s", ErrInvalid, minAfter, maxAfter)
	}
	return p, nil
}

// lasts returns how long a check takes, the reads of the store aside.
func (p Plan) lasts() time.Duration { return p.After[len(p.After)-1] }

// Look is what was seen after a time.
type Look struct {
	After  time.Duration `json:"after"`
	Served int           `json:"served"` // copies that would be served from memory
	Stale  int           `json:"stale"`  // of these, older than the store was that long before
}

// Result is what a check has found on a node.
type Result struct {
	Sampled int    `json:"sampled"` // copies whose record was read
	Looks   []Look `json:"looks"`   // so far
	Done    bool   `json:"done"`
	Error   string `json:"error,omitempty"` // why there is no more
}

// stored is what the store had of a sampled key.
type stored struct {
	key     proto.Key
	content proto.Version // 0: nothing
}

// check makes one check, and reports after each look.
func (c *Checker) check(ctx context.Context, plan Plan, report func(Result)) {
	sample, err := c.baseline(ctx, plan.Samples)
	began := c.opts.Now()
	r := Result{Sampled: len(sample)}
	for _, after := range plan.After {
		if err != nil {
			break
		}
		if err = clock.Sleep(ctx, after-c.opts.Now().Sub(began)); err == nil {
			r.Looks = append(slices.Clone(r.Looks), c.look(sample, after))
			report(r)
		}
	}
	r.Done = true
	if err != nil {
		r.Error = err.Error()
	}
	report(r)
}

// baseline reads what the store has of some copies.
func (c *Checker) baseline(ctx context.Context, n int) ([]stored, error) {
	var sample []stored
	for _, key := range c.opts.Copies.Sample(n) {
		content, ok, err := c.opts.Copies.Stored(ctx, key)
		switch {
		case errors.Is(err, proto.ErrCorrupt), errors.Is(err, proto.ErrSchema):
			continue // nobody could be served it
		case err != nil:
			return nil, fmt.Errorf("read the store: %w", err)
		case !ok:
			content = 0
		}
		sample = append(sample, stored{key, content})
	}
	return sample, nil
}

// look counts the copies that would be served although the store had something newer, or nothing, before.
func (c *Checker) look(sample []stored, after time.Duration) Look {
	l := Look{After: after}
	for _, s := range sample {
		held, ok := c.opts.Copies.Served(s.key)
		if !ok {
			continue
		}
		l.Served++
		if s.content == 0 || held < s.content {
			l.Stale++
			if l.Stale <= maxLogged {
				c.opts.Logger.Warn("a stale copy is served", zap.Stringer("key", s.key), zap.Duration("for at least", after),
					zap.Stringer("copy", held), zap.Stringer("store", s.content))
			}
		}
	}
	c.count(l)
	return l
}

// maxLogged bounds the stale copies of one look that the log names.
const maxLogged = 5

package coherence

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"

	"klatch/cluster"
	"klatch/internal/clock"
	"klatch/internal/task"
)

// Peers are the members of the cluster.
type Peers interface {
	// AskAll asks all live members, this node among them.
	AskAll(ctx context.Context, method string, body []byte) []cluster.Reply
}

// Options configure a [Checker]. Copies and Peers are required.
type Options struct {
	Copies Copies
	Peers  Peers
	// Rate is how many copies are checked a second all the time, by the default plan. Default: none.
	Rate int

	Logger *zap.Logger      // default: none is written
	Now    func() time.Time // default time.Now
}

// Checker makes checks on one node, and asks the others for theirs. It is safe for concurrent use.
type Checker struct {
	opts Options

	ctx   context.Context // ends with Close
	end   context.CancelFunc
	tasks task.Group

	mu     sync.Mutex // guards all below
	checks map[string]*running
	counts map[time.Duration]Look
}

// running is a check on this node, while it runs and for a while after.
type running struct {
	result Result
	ended  time.Time
}

const (
	// maxRunning bounds the checks that run at once, and keptFor is how long their results are kept.
	maxRunning = 4
	keptFor    = 10 * time.Minute
	// askTimeout bounds a round to all nodes.
	askTimeout = 3 * time.Second
	// continuously is the time between two checks of those that never end. A sample needs a look at each key.
	continuously = 10 * time.Second
)

// New returns a checker and begins what Options.Rate asks for. Close ends it.
func New(opts Options) *Checker {
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	c := &Checker{opts: opts, checks: map[string]*running{}, counts: map[time.Duration]Look{}}
	c.ctx, c.end = context.WithCancel(context.Background())
	if opts.Rate > 0 {
		c.tasks.Go(c.runAlways)
	}
	return c
}

// Close ends the checks under way.
func (c *Checker) Close() {
	c.end()
	c.tasks.Close()
}

// runAlways begins a check every few seconds.
func (c *Checker) runAlways() {
	plan := Plan{Samples: c.opts.Rate * int(continuously/time.Second), After: defaultAfter}
	for clock.Sleep(c.ctx, continuously) == nil {
		c.tasks.Go(func() {
			c.check(c.ctx, plan, func(r Result) {
				if r.Error != "" && c.ctx.Err() == nil {
					c.opts.Logger.Info("a coherence check has ended early", zap.String("error", r.Error))
				}
			})
		})
	}
}

// Stats returns what all looks on this node have seen together, by the time after which they looked.
func (c *Checker) Stats() map[time.Duration]Look {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

func (c *Checker) count(l Look) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.counts[l.After]
	c.counts[l.After] = Look{After: l.After, Served: sum.Served + l.Served, Stale: sum.Stale + l.Stale}
}

// NodeResult is what a check has found on one node of the cluster.
type NodeResult struct {
	Node string `json:"node"`
	Result
}

// Begin begins a check on all live nodes. It returns its id and how long it will take, and fails with ErrInvalid, or
// with what the nodes that cannot make it say.
func (c *Checker) Begin(ctx context.Context, plan Plan) (id string, lasts time.Duration, err error) {
	if plan, err = plan.complete(); err != nil {
		return "", 0, err
	}
	id = rand.Text()
	body, err := json.Marshal(order{id, plan})
	if err != nil {
		return "", 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, r := range c.opts.Peers.AskAll(ctx, methodBegin, body) {
		err = errors.Join(err, r.Err)
	}
	return id, plan.lasts(), err
}

// Results returns what a check has found on each live node so far, by name.
func (c *Checker) Results(ctx context.Context, id string) []NodeResult {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var results []NodeResult
	for _, r := range c.opts.Peers.AskAll(ctx, methodResult, []byte(id)) {
		n := NodeResult{Node: r.Member}
		if r.Err == nil {
			r.Err = json.Unmarshal(r.Body, &n.Result)
		}
		if r.Err != nil {
			n.Result = Result{Done: true, Error: r.Err.Error()}
		}
		results = append(results, n)
	}
	return results
}

// The requests that nodes send each other.
const (
	methodBegin  = "coherence/begin"
	methodResult = "coherence/result"
)

// order asks a node for a check.
type order struct {
	ID   string `json:"id"`
	Plan Plan   `json:"plan"`
}

// Answer answers what other nodes ask of this one; handled is false if the method is none of this package.
func (c *Checker) Answer(method string, body []byte) (reply []byte, handled bool, err error) {
	switch method {
	case methodBegin:
		return nil, true, c.begin(body)
	case methodResult:
		reply, err = c.result(string(body))
		return reply, true, err
	default:
		return nil, false, nil
	}
}

// begin begins a check on this node.
func (c *Checker) begin(body []byte) error {
	var o order
	if err := json.Unmarshal(body, &o); err != nil {
		return err
	}
	plan, err := o.Plan.complete()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	active := 0
	for _, other := range c.checks {
		if !other.result.Done {
			active++
		}
	}
	if active >= maxRunning {
		return ErrBusy
	}
	r := &running{}
	c.checks[o.ID] = r
	if !c.tasks.Go(func() { c.check(c.ctx, plan, func(result Result) { c.note(r, result) }) }) {
		return fmt.Errorf("%w: the node is leaving", ErrBusy)
	}
	return nil
}

func (c *Checker) note(r *running, result Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.result = result
	if result.Done {
		r.ended = c.opts.Now()
	}
}

// forget drops old results. The caller holds the lock.
func (c *Checker) forget() {
	maps.DeleteFunc(c.checks, func(_ string, r *running) bool { return r.result.Done && c.opts.Now().Sub(r.ended) > keptFor })
}

func (c *Checker) result(id string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.checks[id]
	if !ok {
		return nil, ErrUnknown
	}
	return json.Marshal(r.result)
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"klatch/internal/task"
	"klatch/proto"
)

const (
	// maxAnswers bounds the requests of peers that are being answered; more are refused.
	maxAnswers = 32
	// maxCallBytes bounds a request's or a reply's body.
	maxCallBytes = 256 << 10
)

// Answer answers a request of a member, or of this node itself. Its error travels as text.
type Answer func(ctx context.Context, from string, method string, body []byte) ([]byte, error)

// Reply is what a member has answered.
type Reply struct {
	Member string
	Body   []byte
	Err    error // as of [Cluster.Ask]
}

// calls are questions to single nodes, and the answers to those of others. They travel by TCP.
type calls struct {
	self    proto.Origin
	roster  *roster
	courier *courier
	answer  Answer

	ctx   context.Context // ends with the cluster
	end   context.CancelFunc
	tasks task.Group
	busy  atomic.Int32
	id    atomic.Uint64

	mu      sync.Mutex // guards pending
	pending map[uint64]chan proto.Reply
}

func newCalls(self proto.Origin, r *roster, c *courier, answer Answer) *calls {
	ctx, end := context.WithCancel(context.Background())
	return &calls{self: self, roster: r, courier: c, answer: answer, ctx: ctx, end: end, pending: map[uint64]chan proto.Reply{}}
}

// Ask sends a live member, which may be this node, a request and returns its answer. Its errors: ErrUnreachable if no
// such member is known or the network refuses, ErrRefused with the member's own text, and that of ctx, which must end.
func (c *Cluster) Ask(ctx context.Context, member, method string, body []byte) ([]byte, error) {
	return c.calls.ask(ctx, member, method, body)
}

// AskAll asks all live members, this node among them, the same at once, and returns what each has answered, by name.
func (c *Cluster) AskAll(ctx context.Context, method string, body []byte) []Reply {
	var replies []Reply
	for _, m := range c.Members() {
		if m.Alive {
			replies = append(replies, Reply{Member: m.Name})
		}
	}
	var asking sync.WaitGroup
	for i := range replies {
		r := &replies[i]
		asking.Go(func() { r.Body, r.Err = c.calls.ask(ctx, r.Member, method, body) })
	}
	asking.Wait()
	return replies
}

func (c *calls) ask(ctx context.Context, member, method string, body []byte) ([]byte, error) {
	if len(body) > maxCallBytes {
		return nil, fmt.Errorf("ask %s: %d bytes are more than %d", member, len(body), maxCallBytes)
	}
	if member == c.self.Node {
		reply, err := c.serve(ctx, member, method, body)
		if err != nil {
			err = fmt.Errorf("ask %s: %w: %w", member, ErrRefused, err)
		}
		return reply, err
	}
	to := c.roster.named(member)
	if to == nil {
		return nil, fmt.Errorf("ask %s: %w: it is no live member", member, ErrUnreachable)
	}
	id := c.id.Add(1)
	replied := make(chan proto.Reply, 1)
	c.mu.Lock()
	c.pending[id] = replied
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}()
	failed := make(chan struct{}, 1)
	c.courier.send(to, proto.EncodeMessage(proto.Request{From: c.self, ID: id, Method: method, Body: body}),
		func() { failed <- struct{}{} })
	select {
	case reply := <-replied:
		if reply.Error != "" {
			return nil, fmt.Errorf("ask %s: %w: %s", member, ErrRefused, reply.Error)
		}
		return reply.Body, nil
	case <-failed:
		return nil, fmt.Errorf("ask %s: %w", member, ErrUnreachable)
	case <-ctx.Done():
		return nil, fmt.Errorf("ask %s: %w", member, ctx.Err())
	case <-c.ctx.Done():
		return nil, fmt.Errorf("ask %s: %w", member, ErrClosed)
	}
}

// request answers a peer's request, in a goroutine of its own.
func (c *calls) request(m proto.Request) {
	to := c.roster.find(m.From)
	if to == nil {
		return
	}
	reply := func(body []byte, err error) {
		r := proto.Reply{From: c.self, ID: m.ID, Body: body}
		if err != nil {
			r.Body, r.Error = nil, err.Error()
		}
		c.courier.send(to, proto.EncodeMessage(r), nil)
	}
	switch {
	case c.busy.Add(1) > maxAnswers:
		c.busy.Add(-1)
		reply(nil, errors.New("busy: too many requests at once"))
	default:
		if !c.tasks.Go(func() {
			defer c.busy.Add(-1)
			reply(c.serve(c.ctx, m.From.Node, m.Method, m.Body))
		}) {
			c.busy.Add(-1)
		}
	}
}

// serve answers a request.
func (c *calls) serve(ctx context.Context, from, method string, body []byte) ([]byte, error) {
	switch {
	case method == forgetMethod:
		return nil, c.roster.forgetVanished(string(body))
	case c.answer == nil:
		return nil, errors.New("this node answers no requests")
	default:
		return c.answer(ctx, from, method, body)
	}
}

func (c *calls) reply(m proto.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if replied, ok := c.pending[m.ID]; ok {
		select {
		case replied <- m:
		default: // it came twice
		}
	}
}

func (c *calls) close() {
	c.end()
	c.tasks.Close()
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// maxNodes bounds how many nodes one demo starts in its life.
const maxNodes = 64

var (
	errNoSuchNode = errors.New("no such node runs: klatch demo nodes lists them")
	errNoMore     = fmt.Errorf("a demo starts at most %d nodes: end it and start another", maxNodes)
	errStopping   = errors.New("the demo is stopping")
)

// supervisor starts the node processes, watches over them and ends them.
type supervisor struct {
	opts     Options
	dir      string
	pool     *pool
	console  *console
	lifeline *os.File // read end of a pipe, which every child inherits
	pulse    *os.File // its write end, which only this process holds: see WatchParent
	watchers sync.WaitGroup

	mu       sync.Mutex // guards the rest
	children []*child
	last     int // the number of the node that was started last
	stopping bool
}

func newSupervisor(opts Options, dir string, p *pool, c *console) (*supervisor, error) {
	lifeline, pulse, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &supervisor{opts: opts, dir: dir, pool: p, console: c, lifeline: lifeline, pulse: pulse}, nil
}

// startFirst starts the first nodes at once and waits until all of them are ready.
func (s *supervisor) startFirst(ctx context.Context) error {
	var seeds []string
	for number := range s.opts.Nodes {
		at := layoutOf(s.opts.BasePort, number+1)
		if err := at.free(); err != nil {
			return err
		}
		seeds = append(seeds, at.gossip)
	}
	var started []*child
	for range s.opts.Nodes {
		c, err := s.start(seeds)
		if err != nil {
			return err
		}
		started = append(started, c)
	}
	for _, c := range started {
		if err := s.admit(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// add starts one more node. It joins those that live now.
func (s *supervisor) add(ctx context.Context) (NodeInfo, error) {
	var seeds []string
	for _, n := range s.nodes() {
		seeds = append(seeds, n.Gossip)
	}
	c, err := s.start(seeds)
	if err != nil {
		return NodeInfo{}, err
	}
	if err := s.admit(ctx, c); err != nil {
		return NodeInfo{}, errors.Join(err, c.kill())
	}
	s.console.say("%s has joined: %s\n", c.info.Name, c.info.App)
	return c.info, nil
}

// start starts the next node.
func (s *supervisor) start(seeds []string) (*child, error) {
	s.mu.Lock()
	number := s.last + 1
	if s.stopping || number > maxNodes {
		defer s.mu.Unlock()
		if s.stopping {
			return nil, errStopping
		}
		return nil, errNoMore
	}
	s.last = number
	s.mu.Unlock()

	at := layoutOf(s.opts.BasePort, number)
	if err := at.free(); err != nil {
		return nil, err
	}
	if len(seeds) == 0 {
		seeds = []string{at.gossip} // all others are gone: a cluster of one
	}
	c, err := spawn(s.opts.Binary, s.dir, number, at, seeds, s.lifeline)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	stopping := s.stopping
	if !stopping {
		s.children = append(s.children, c)
		s.watchers.Go(func() { s.watch(c) })
	}
	s.mu.Unlock()
	if stopping {
		return nil, errors.Join(errStopping, c.kill())
	}
	return c, nil
}

// admit puts a node before the balancers once it is ready.
func (s *supervisor) admit(ctx context.Context, c *child) error {
	if err := c.waitReady(ctx, s.opts.ReadyWait); err != nil {
		return err
	}
	if err := s.pool.add(c.info.Name, c.info.App); err != nil {
		return err
	}
	select {
	case <-c.ended: // perhaps before it came into the pool, and then watch did not take it out
		s.pool.remove(c.info.Name)
	default:
	}
	return nil
}

// watch forgets a node that has ended, and tells of one that was not told to or that did not end well.
func (s *supervisor) watch(c *child) {
	<-c.ended
	s.pool.remove(c.info.Name)
	s.forget(c)
	switch {
	case !c.expected.Load():
		s.console.say("%s has ended by itself (%s); its log is %s\n", c.info.Name, c.howItEnded(), c.logPath)
	case c.process.ProcessState.ExitCode() > 0:
		s.console.say("%s has ended with an error (%s)%s\n", c.info.Name, c.howItEnded(), c.lastWords())
	}
}

func (s *supervisor) forget(c *child) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.children = slices.DeleteFunc(s.children, func(o *child) bool { return o == c })
}

// kill ends a node as a crash would.
func (s *supervisor) kill(name string) error {
	c, err := s.find(name)
	if err != nil {
		return err
	}
	if err := c.kill(); err != nil {
		return err
	}
	s.forget(c)
	s.console.say("%s was killed\n", name)
	return nil
}

// drain tells a node to leave on purpose, and does not wait for it.
func (s *supervisor) drain(name string) error {
	c, err := s.find(name)
	if err != nil {
		return err
	}
	if err := c.drain(); err != nil {
		return err
	}
	s.console.say("%s drains\n", name)
	return nil
}

func (s *supervisor) find(name string) (*child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.children {
		if c.info.Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("%.40q: %w", name, errNoSuchNode)
}

// nodes returns the nodes that run.
func (s *supervisor) nodes() []NodeInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	infos := make([]NodeInfo, 0, len(s.children))
	for _, c := range s.children {
		infos = append(infos, c.info)
	}
	return infos
}

// stop drains all nodes at once, kills those that take too long, and starts no more.
func (s *supervisor) stop() error {
	s.mu.Lock()
	s.stopping = true
	children := slices.Clone(s.children)
	s.mu.Unlock()
	failures := make([]error, len(children))
	var ending sync.WaitGroup
	for i, c := range children {
		ending.Go(func() { failures[i] = c.stop(s.opts.StopWait) })
	}
	ending.Wait()
	s.watchers.Wait()
	return errors.Join(append(failures, s.pulse.Close(), s.lifeline.Close())...)
}

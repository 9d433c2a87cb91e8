package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"

	"klatch/proto"
)

// Cluster is one node's membership and bus. It is safe for concurrent use.
type Cluster struct {
	log        *zap.Logger
	resolver   Resolver
	memberlist *memberlist.Memberlist
	delegate   *delegate
	ring       *ring
	links      *links
	origins    *origins
	roster     *roster
	sender     *sender
	receiver   *receiver
	courier    *courier
	calls      *calls
	keyring    *Keyring
	memberLog  *logWriter
	now        func() time.Time

	searched    chan struct{}      // closed after the first attempt to join all seeds
	stopSearch  context.CancelFunc // ends the search for seeds and vanished members
	searching   sync.WaitGroup
	stopWorkers chan struct{} // closed by Close; ends sender and receiver
	working     sync.WaitGroup

	update sync.Mutex // serialises announcements of the own state, which memberlist does not
	leave  sync.Mutex // held while leaving or closing

	mu     sync.Mutex // guards closed, and that no join begins after it
	closed bool
	joins  sync.WaitGroup
}

const (
	// streamTimeout bounds each step of an exchange over TCP: a dead address costs no more.
	streamTimeout = 2 * time.Second
	// leaveTimeout bounds the wait until members have heard that this one leaves.
	leaveTimeout = 3 * time.Second
	// confirmWithin is how long Confirm waits.
	confirmWithin = time.Second
)

// Start makes this node a cluster of one and begins to join the seeds in the background: it does not wait
// for them. ctx is for the start only; Leave or Close ends the cluster.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	self := proto.Origin{Node: opts.Name, Boot: opts.Boot}
	c := newCluster(opts, self)

	conf, err := c.configure(opts)
	if err != nil {
		return nil, err
	}
	if c.memberlist, err = memberlist.Create(conf); err != nil {
		return nil, errors.Join(fmt.Errorf("start membership: %w", err), conf.Transport.Shutdown())
	}
	c.sender.transmit, c.courier.transmit = c.memberlist.SendBestEffort, c.memberlist.SendReliable
	c.working.Go(func() { c.sender.run(c.stopWorkers) })
	c.working.Go(func() { c.receiver.run(c.stopWorkers) })
	c.search(context.WithoutCancel(ctx), opts)
	c.log.Info("cluster started", zap.String("name", opts.Name), zap.String("label", opts.Label),
		zap.String("address", c.memberlist.LocalNode().Address()), zap.Bool("encrypted", len(opts.Keys) > 0))
	return c, nil
}

// newCluster makes the parts and shows them to each other.
func newCluster(opts Options, self proto.Origin) *Cluster {
	c := &Cluster{
		log:         opts.Logger,
		now:         opts.Now,
		resolver:    opts.Resolver,
		ring:        newRing(self),
		links:       newLinks(opts.Records, opts.Now()),
		origins:     newOrigins(self),
		roster:      newRoster(self, opts.Now),
		courier:     newCourier(),
		memberLog:   newLogWriter(opts.Logger, opts.Now),
		searched:    make(chan struct{}),
		stopWorkers: make(chan struct{}),
	}
	c.calls = newCalls(self, c.roster, c.courier, opts.Answer)
	c.sender = &sender{
		origin:  self,
		now:     opts.Now,
		roster:  c.roster,
		links:   c.links,
		origins: c.origins,
		ring:    c.ring,
		courier: c.courier,
		wake:    make(chan struct{}, 1),
		marks:   map[proto.Origin]proto.ReplyPath{},
	}
	c.receiver = &receiver{
		self:    self,
		handler: opts.Handler,
		origins: c.origins,
		links:   c.links,
		roster:  c.roster,
		ring:    c.ring,
		courier: c.courier,
		sender:  c.sender,
		calls:   c.calls,
		log:     opts.Logger,
		now:     opts.Now,
		inbox:   make(chan arrival, maxInbox),
		clashes: map[proto.Origin]clash{},
	}
	meta := opts.Meta
	meta.Started = uint64(opts.Now().UnixMilli())
	c.delegate = &delegate{
		self:     self,
		now:      opts.Now,
		ring:     c.ring,
		origins:  c.origins,
		links:    c.links,
		roster:   c.roster,
		sender:   c.sender,
		receiver: c.receiver,
		recent:   opts.Recent,
		meta:     meta,
	}
	return c
}

// configure makes memberlist's configuration and opens the transport.
func (c *Cluster) configure(opts Options) (*memberlist.Config, error) {
	var err error
	if c.keyring, err = newKeyring(opts.Keys); err != nil {
		return nil, err
	}
	conf := memberlist.DefaultLANConfig()
	conf.Name = bootName(c.delegate.self)
	conf.Label = opts.Label
	conf.Keyring = c.keyring.ring
	conf.EnableCompression = false
	conf.TCPTimeout = streamTimeout
	conf.PushPullInterval = opts.SyncInterval
	conf.ProbeInterval = opts.ProbeInterval
	conf.ProbeTimeout = opts.ProbeInterval / 2
	conf.Delegate, conf.Events, conf.Alive = c.delegate, c.delegate, c.delegate
	conf.DelegateProtocolVersion = delegateProtocolMax
	conf.DelegateProtocolMin, conf.DelegateProtocolMax = delegateProtocolMin, delegateProtocolMax
	conf.Logger = c.memberLog.logger()

	if opts.Transport != nil {
		conf.Transport = boundedTransport{opts.Transport}
		if opts.Advertise == "" {
			return conf, nil
		}
	}
	bind, err := parseBind(opts.Bind)
	if err != nil {
		return nil, err
	}
	addr, err := advertised(bind, opts.Advertise, hostInterfaces)
	if err != nil {
		return nil, err
	}
	conf.AdvertiseAddr, conf.AdvertisePort = addr.Addr().String(), int(addr.Port())
	if conf.Transport == nil {
		transport, err := listen(bind, conf.Logger)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", bind, err)
		}
		conf.Transport = boundedTransport{transport}
		conf.BindPort = transport.port()
		conf.AdvertisePort = orDefault(conf.AdvertisePort, conf.BindPort)
	}
	return conf, nil
}

// search begins to look for seeds and vanished members, until Leave or Close.
func (c *Cluster) search(ctx context.Context, opts Options) {
	ctx, c.stopSearch = context.WithCancel(ctx)
	j := &joiner{
		seeds:    opts.Seeds,
		interval: opts.RejoinInterval,
		resolver: opts.Resolver,
		rand:     rand.New(opts.Rand),
		roster:   c.roster,
		log:      opts.Logger,
		join:     c.join,
		outcomes: map[string]string{},
		searched: c.searched,
	}
	c.searching.Go(func() { j.run(ctx) })
}

// Publish tells all live peers the items, and never blocks. A peer that an item has not reached learns that there
// was one, and has it sent again or raises its fence. Call it after the commit that the items speak of.
func (c *Cluster) Publish(items ...proto.Item) { c.sender.publish(items, nil) }

// Confirm is Publish that waits until every live peer has applied the items or raised its fence since, but not
// longer than ctx or one second. It returns the names of the nodes that may not have: a live one among them checks
// every read against the store within three seconds of having heard this node last.
func (c *Cluster) Confirm(ctx context.Context, items ...proto.Item) (unconfirmed []string) {
	ctx, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	w := newWaiter()
	c.sender.publish(items, w)
	select {
	case <-w.done:
	case <-ctx.Done():
	case <-c.stopWorkers:
	}
	return c.links.give(w)
}

// Trusted reports whether copies in memory may be used now: everything is known that any node which may be writing
// had published up to three seconds ago. Otherwise every read is to be checked against the store. It costs a few
// nanoseconds.
func (c *Cluster) Trusted(now time.Time) bool { return c.links.trusted(now) }

// Present tells the cluster which nodes the store knew to be alive at a look that began at a time. With
// [Options.Records] there is no trust before the first call.
func (c *Cluster) Present(at time.Time, alive []proto.Origin) {
	c.receiver.enqueue(arrival{records: &records{at, alive}})
}

// Searched is closed when each seed has been tried once, whether or not it was there.
func (c *Cluster) Searched() <-chan struct{} { return c.searched }

// Heard returns the boot under which a node is a live member, and false if it is none.
func (c *Cluster) Heard(name string) (boot uint64, ok bool) {
	if p := c.roster.named(name); p != nil {
		return p.origin.Boot, true
	}
	return 0, false
}

// Address returns the address of this node's bus, IP:port, as other members are told.
func (c *Cluster) Address() string { return c.memberlist.LocalNode().Address() }

// Members returns all members by name, this node and those that vanished lately among them.
func (c *Cluster) Members() []Member { return c.roster.members() }

// SetState tells the members a new state of this node. It does not wait until they know.
func (c *Cluster) SetState(state proto.NodeState) {
	c.update.Lock()
	defer c.update.Unlock()
	if c.delegate.setState(state) {
		// The announcement is queued at once. The error only says that it is not yet out, and should it
		// be lost, the next exchange of states makes up for it.
		_ = c.memberlist.UpdateNode(time.Nanosecond)
	}
}

// Join joins the members at the addresses, host:port each, now, and returns how many there are. Its error
// is nil if there is any. An exchange under way is not interrupted by ctx, but is bounded.
func (c *Cluster) Join(ctx context.Context, addrs ...string) (int, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0, ErrClosed
	}
	c.joins.Add(1)
	c.mu.Unlock()
	defer c.joins.Done()

	joined := 0
	var failed error
	for _, a := range addrs {
		resolved, err := resolve(ctx, c.resolver, a)
		failed = errors.Join(failed, err)
		for _, addr := range resolved {
			if err := ctx.Err(); err != nil {
				return joined, err
			}
			if err := c.join(addr); err != nil {
				failed = errors.Join(failed, err)
			} else {
				joined++
			}
		}
	}
	if joined > 0 {
		return joined, nil
	}
	return 0, failed
}

func (c *Cluster) join(addr netip.AddrPort) error {
	if _, err := c.memberlist.Join([]string{addr.String()}); err != nil {
		return joinError(addr, err)
	}
	return nil
}

// Leave sends what is queued and the farewell, leaves the membership, and closes, whether or not the others
// could be told before ctx or three seconds ended.
func (c *Cluster) Leave(ctx context.Context) error {
	c.leave.Lock()
	defer c.leave.Unlock()
	if !c.close() {
		return ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	c.endSearch()
	err := c.sender.farewell(ctx)
	wait := time.Duration(1) // 0 would be for ever
	if deadline, _ := ctx.Deadline(); ctx.Err() == nil {
		wait = max(wait, time.Until(deadline))
	}
	if err = errors.Join(err, c.memberlist.Leave(wait)); err != nil {
		err = fmt.Errorf("leave: not all members may have heard it: %w", err)
	}
	return errors.Join(err, c.end())
}

// Close ends the bus and the membership without a word, as a crash would, and waits for their end.
func (c *Cluster) Close() error {
	c.leave.Lock()
	defer c.leave.Unlock()
	if !c.close() {
		return nil
	}
	c.endSearch()
	return c.end()
}

// close reports whether it is the first to do so.
func (c *Cluster) close() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.closed
	c.closed = true
	return first
}

func (c *Cluster) endSearch() {
	c.stopSearch()
	c.searching.Wait()
	c.joins.Wait()
}

func (c *Cluster) end() error {
	close(c.stopWorkers)
	c.working.Wait()
	c.calls.close()
	c.courier.tasks.Close()
	err := c.memberlist.Shutdown()
	c.memberLog.closed.Store(true)
	return err
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"log"
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
	sender     *sender
	receiver   *receiver
	roster     *roster
	memberLog  *logWriter

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
	// reclaimAfter lets a restarted node take its name back from its dead self as soon as that is known to
	// be dead, also under another address.
	reclaimAfter = time.Millisecond
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
	c := &Cluster{
		log:         opts.Logger,
		resolver:    opts.Resolver,
		roster:      newRoster(opts.Name, opts.Now),
		memberLog:   newLogWriter(opts.Logger, opts.Now),
		stopWorkers: make(chan struct{}),
	}
	c.sender = newSender(self, c.roster)
	c.receiver = newReceiver(opts, self, c.roster)
	c.delegate = &delegate{sender: c.sender, receiver: c.receiver, roster: c.roster, self: self, meta: opts.Meta}

	conf, err := c.configure(opts)
	if err != nil {
		return nil, err
	}
	if c.memberlist, err = memberlist.Create(conf); err != nil {
		return nil, errors.Join(fmt.Errorf("start membership: %w", err), conf.Transport.Shutdown())
	}
	c.sender.transmit = c.memberlist.SendBestEffort
	c.working.Go(func() { c.sender.run(c.stopWorkers) })
	c.working.Go(func() { c.receiver.run(c.stopWorkers) })
	c.search(context.WithoutCancel(ctx), opts)
	c.log.Info("cluster started", zap.String("name", opts.Name), zap.String("label", opts.Label),
		zap.String("address", c.memberlist.LocalNode().Address()), zap.Bool("encrypted", len(opts.Keys) > 0))
	return c, nil
}

// configure makes memberlist's configuration and opens the transport.
func (c *Cluster) configure(opts Options) (*memberlist.Config, error) {
	keyring, err := newKeyring(opts.Keys)
	if err != nil {
		return nil, err
	}
	conf := memberlist.DefaultLANConfig()
	conf.Name = opts.Name
	conf.Label = opts.Label
	conf.Keyring = keyring
	conf.EnableCompression = false
	conf.TCPTimeout = streamTimeout
	conf.PushPullInterval = opts.SyncInterval
	conf.ProbeInterval = opts.ProbeInterval
	conf.ProbeTimeout = opts.ProbeInterval / 2
	conf.DeadNodeReclaimTime = reclaimAfter
	conf.Delegate, conf.Events, conf.Conflict = c.delegate, c.delegate, c.delegate
	conf.DelegateProtocolVersion = delegateProtocolMax
	conf.DelegateProtocolMin, conf.DelegateProtocolMax = delegateProtocolMin, delegateProtocolMax
	conf.Logger = c.memberLog.logger()

	if conf.Transport = opts.Transport; conf.Transport != nil && opts.Advertise == "" {
		return conf, nil
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
		conf.Transport = transport
		conf.BindPort = transport.GetAutoBindPort()
		conf.AdvertisePort = orDefault(conf.AdvertisePort, conf.BindPort)
	}
	return conf, nil
}

// listen opens the bus's sockets. It is not left to memberlist, which would keep them open when it fails.
func listen(bind netip.AddrPort, logger *log.Logger) (*memberlist.NetTransport, error) {
	// A free TCP port need not be free for UDP.
	attempts := 1
	if bind.Port() == 0 {
		attempts = 10
	}
	var errs error
	for range attempts {
		transport, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{bind.Addr().String()},
			BindPort:  int(bind.Port()),
			Logger:    logger,
		})
		if err == nil {
			return transport, nil
		}
		errs = errors.Join(errs, err)
	}
	return nil, errs
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
	}
	c.searching.Go(func() { j.run(ctx) })
}

// Publish tells all live peers the items, and never blocks. Every peer learns of an item that could not be
// sent to it that there was one, and raises its fence. Call it after the commit that the items speak of.
func (c *Cluster) Publish(items ...proto.Item) { c.sender.publish(items) }

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
	err := c.memberlist.Shutdown()
	c.memberLog.closed.Store(true)
	return err
}

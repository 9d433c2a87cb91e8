package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"klatch/proto"
	"klatch/server/api"
	"klatch/server/app"
	"klatch/session"
	"klatch/store/observe"
)

// shutdownTimeout bounds how long requests under way may take to end.
const shutdownTimeout = 10 * time.Second

// Node is one running member of a cluster.
type Node struct {
	config Config
	logger *zap.Logger

	store    driver
	observed *observe.Store
	engine
	listeners []*listener
	api       *api.API

	state    atomic.Uint32 // a proto.NodeState
	clockOff atomic.Bool
	leaving  chan departure
	serving  sync.WaitGroup // the listeners, and who waits for the store

	stopWaiting context.CancelFunc // for the store's first answer
	stopOnce    sync.Once
	stopped     error
}

// departure is a wish of the API that the node leaves.
type departure struct{ waitForBalancers bool }

// Start brings a node up: store, sessions, listeners, cluster. What had been started is ended if it fails.
func Start(ctx context.Context, config Config, release string, logger *zap.Logger) (*Node, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	n := &Node{config: config, logger: logger, leaving: make(chan departure, 1)}
	n.setState(proto.Joining)
	if err := n.start(ctx, release); err != nil {
		n.logger = zap.NewNop() // the caller reports why; how the rest was undone adds nothing
		_ = n.stop(ctx)
		return nil, err
	}
	return n, nil
}

func (n *Node) start(ctx context.Context, release string) error {
	keys, err := keyFile(n.config.GossipKeyFile).Load()
	if err != nil {
		return err
	}
	token, err := readAPIToken(n.config.APITokenFile)
	if err != nil {
		return err
	}
	if err := n.bind(); err != nil {
		return err
	}
	if n.store, err = openStore(ctx, &n.config, now, n.logger); err != nil {
		return err
	}
	n.observed = observe.New(observe.Options{
		Store:  n.store,
		Probe:  proto.NewKey(session.DefaultTenant, proto.KindNode, n.config.Name),
		Now:    now,
		Logger: n.logger,
	})
	if err := n.engine.start(ctx, engineOptions{
		config:  &n.config,
		boot:    rand.Uint64() | 1, // never zero
		keys:    keys,
		meta:    proto.NodeMeta{Release: release, HTTP: n.address("http"), Admin: n.address("admin"), State: proto.Joining},
		store:   n.observed,
		records: n.store,
		now:     now,
		logger:  n.logger,
	}); err != nil {
		return err
	}

	options := api.Options{
		Sessions: n.sessions, Stamps: n.stamps, Keys: n.keys, Checker: n.checker,
		Node: n, Membership: n.cluster, Metrics: n.metrics(), Logger: n.logger,
	}
	if token != "" {
		options.Token = api.NewToken(token)
	}
	n.api = api.New(options)
	n.serve()
	n.logger.Info("serving",
		zap.String("http", n.address("http")), zap.String("admin", n.address("admin")), zap.String("app", n.address("app")),
		zap.String("gossip", n.config.Gossip), zap.String("store", RedactURL(n.config.Store)))
	if n.config.Insecure {
		n.logger.Warn("--insecure: listeners beyond loopback may lack TLS, an API token or a gossip key")
	}
	n.becomeReady()
	return nil
}

// becomeReady makes the node ready when its store has answered, its seeds have been tried, and it has looked who else
// lives. A node starts, joins and waits without a store.
func (n *Node) becomeReady() {
	ctx, cancel := context.WithCancel(context.Background())
	n.stopWaiting = cancel
	n.serving.Go(func() {
		for _, done := range []<-chan struct{}{n.observed.Up(), n.cluster.Searched(), n.presence.Looked()} {
			select {
			case <-done:
			case <-ctx.Done():
				return
			}
		}
		if n.state.CompareAndSwap(uint32(proto.Joining), uint32(proto.Ready)) {
			n.cluster.SetState(proto.Ready)
			if s := proto.NodeState(n.state.Load()); s != proto.Ready { // it began to drain meanwhile
				n.cluster.SetState(s)
				return
			}
			n.logger.Info("ready")
		}
	})
}

// bind takes all HTTP addresses before anything else is started.
func (n *Node) bind() error {
	tlsConfig, err := newTLSConfig(n.config.TLSCert, n.config.TLSKey)
	if err != nil {
		return err
	}
	for _, l := range n.config.httpListeners() {
		bound, err := listen(l.key, l.address, tlsConfig, n.logger)
		if err != nil {
			return err
		}
		n.listeners = append(n.listeners, bound)
	}
	return nil
}

func (n *Node) serve() {
	handlers := map[string]http.Handler{
		"http":  n.api.Public(),
		"admin": n.api.Admin(),
		"app": n.api.WithHealth(app.New(app.Options{
			Sessions:  n.sessions,
			Node:      n.config.Name,
			PlainHTTP: n.config.TLSCert == "",
			Logger:    n.logger,
		})),
	}
	for _, l := range n.listeners {
		l.serve(n.closeWhileDraining(handlers[l.key]), &n.serving, n.logger)
	}
}

// closeWhileDraining asks clients to give their connections up with the next answer, so that none is in use
// when the listeners close.
func (n *Node) closeWhileDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if proto.NodeState(n.state.Load()) == proto.Draining {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// address returns where a listener is bound, or the empty string if it is not there.
func (n *Node) address(key string) string {
	for _, l := range n.listeners {
		if l.key == key {
			return l.address()
		}
	}
	return ""
}

// Name implements api.Node.
func (n *Node) Name() string { return n.config.Name }

// Ready implements api.Node.
func (n *Node) Ready() (ready bool, state string) {
	s := proto.NodeState(n.state.Load())
	if s == proto.Ready && n.clockIsOff() {
		return false, "clock-off"
	}
	return s == proto.Ready, s.String()
}

// maxClockError is how far the clock may be off the others' median. Deadlines are compared with it, and versions are
// made of it.
const maxClockError = time.Second

// clockIsOff reports whether this node's clock is wrong, and logs each change of that.
func (n *Node) clockIsOff() bool {
	ahead, known := n.cluster.Clock()
	off := known && ahead.Abs() > maxClockError
	if n.clockOff.Swap(off) != off {
		if off {
			n.logger.Error("not ready: the clock of this node is off that of the others; set it", zap.Duration("ahead", ahead))
		} else {
			n.logger.Info("the clock agrees with that of the others again", zap.Duration("ahead", ahead))
		}
	}
	return off
}

// Degraded implements api.Node.
func (n *Node) Degraded() string {
	if n.observed.Down() {
		return "store"
	}
	return ""
}

// Drain implements api.Node: it makes Run leave on purpose.
func (n *Node) Drain(waitForBalancers bool) {
	select {
	case n.leaving <- departure{waitForBalancers}:
	default: // it is leaving already
	}
}

// Run serves until ctx ends or the API says to drain or leave, then drains and stops. It returns nil if
// everything ended as it should.
func (n *Node) Run(ctx context.Context) error {
	wish := departure{waitForBalancers: true}
	select {
	case <-ctx.Done():
	case wish = <-n.leaving:
	}
	n.setState(proto.Draining)
	n.cluster.SetState(proto.Draining)
	if wish.waitForBalancers && n.config.DrainGrace > 0 {
		n.logger.Info("draining: not ready any more, serving on until balancers have noticed", zap.Duration("grace", n.config.DrainGrace))
		select {
		case <-time.After(n.config.DrainGrace):
		case <-n.leaving: // asked again: do not wait longer
		}
	}
	return n.stop(context.WithoutCancel(ctx))
}

// stop ends everything in the order opposite to its start.
func (n *Node) stop(ctx context.Context) error {
	n.stopOnce.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
		defer cancel()
		var failures []error
		for _, l := range n.listeners {
			failures = append(failures, l.shutdown(ctx))
		}
		if n.stopWaiting != nil {
			n.stopWaiting()
		}
		n.serving.Wait()
		failures = append(failures, n.leave(n.logger), n.engine.close())
		if n.observed != nil {
			n.observed.Close()
		}
		if n.store != nil {
			failures = append(failures, n.store.Close())
		}
		if n.stopped = errors.Join(failures...); n.stopped != nil {
			n.stopped = fmt.Errorf("stopping: %w", n.stopped)
		}
	})
	return n.stopped
}

func (n *Node) setState(s proto.NodeState) { n.state.Store(uint32(s)) }

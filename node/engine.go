package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"

	"klatch/cluster"
	"klatch/coherence"
	"klatch/keyring"
	"klatch/presence"
	"klatch/proto"
	"klatch/session"
	"klatch/stamps"
	"klatch/store"
)

var _ coherence.Copies = (*session.Manager)(nil)

// engine is what a node is without its listeners: sessions and stamps over a store, and the cluster that tells their
// changes.
type engine struct {
	sessions *session.Manager
	stamps   *stamps.Register
	news     *news
	cluster  *cluster.Cluster
	presence *presence.Presence
	keys     *keyring.Rotation
	checker  *coherence.Checker

	answering chan struct{} // closed once requests of peers can be answered
	finished  bool
}

type engineOptions struct {
	config    *Config
	boot      uint64
	keys      [][]byte
	meta      proto.NodeMeta
	store     store.Store          // of sessions and stamps
	records   store.Store          // of the node's own record; it may be the same
	transport memberlist.Transport // nil: the network
	now       func() time.Time
	logger    *zap.Logger
}

// start begins everything. What had been begun is left to stop when it fails.
func (e *engine) start(ctx context.Context, o engineOptions) error {
	e.news, e.answering = &news{}, make(chan struct{})
	sessions, err := session.New(session.Options{
		Store:    o.store,
		News:     e.news,
		Node:     o.config.Name,
		Writer:   o.boot,
		Idle:     o.config.Session.Idle,
		Absolute: o.config.Session.Absolute,
		Conflict: o.config.Session.Conflict,
		MaxBytes: o.config.Session.MaxBytes,
		Near:     session.Near{MaxBytes: o.config.Near.MaxBytes, MaxAge: o.config.Near.MaxAge},
		Trusted:  e.news.Trusted,
		Now:      o.now,
	})
	if err != nil {
		return err
	}
	e.sessions = sessions
	e.stamps, err = stamps.New(stamps.Options{Store: o.store, News: e.news, Trusted: e.news.Trusted, MaxAge: o.config.Near.MaxAge, Now: o.now})
	if err != nil {
		return err
	}
	joined, err := cluster.Start(ctx, cluster.Options{
		Name:      o.config.Name,
		Label:     o.config.Cluster,
		Bind:      o.config.Gossip,
		Advertise: o.config.Advertise,
		Seeds:     o.config.Join,
		Keys:      o.keys,
		Boot:      o.boot,
		Meta:      o.meta,
		Records:   true,
		Handler:   receiver{e.sessions, e.stamps},
		Recent:    e.stamps.Recent,
		Answer:    e.answer,
		Transport: o.transport,
		Now:       o.now,
		Logger:    o.logger.Named("cluster"),
	})
	if errors.Is(err, cluster.ErrInvalid) || errors.Is(err, cluster.ErrAdvertise) {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err != nil {
		return err
	}
	e.cluster = joined
	e.keys = keyring.New(keyring.Options{Ring: joined.Keyring(), Peers: joined, Keeper: keyFile(o.config.GossipKeyFile)})
	e.checker = coherence.New(coherence.Options{
		Copies: e.sessions, Peers: joined, Rate: o.config.Coherence.Rate, Now: o.now, Logger: o.logger.Named("coherence"),
	})
	close(e.answering)
	if gossip {
		e.news.cluster.Store(joined)
	}
	e.presence, err = presence.Start(presence.Options{
		Store:   o.records,
		Tenant:  session.DefaultTenant,
		Self:    proto.Origin{Node: o.config.Name, Boot: o.boot},
		Address: joined.Address(),
		Heard:   joined.Heard,
		Report:  joined.Present,
		Now:     o.now,
		Logger:  o.logger.Named("presence"),
	})
	return err
}

// answer answers the requests of members.
func (e *engine) answer(ctx context.Context, _ string, method string, body []byte) ([]byte, error) {
	select {
	case <-e.answering:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if reply, handled, err := e.keys.Answer(ctx, method, body); handled {
		return reply, err
	}
	if reply, handled, err := e.checker.Answer(method, body); handled {
		return reply, err
	}
	return nil, fmt.Errorf("the request %.40q is not known; the release may be older", method)
}

// leaveTimeout bounds the farewell. It is not part of what requests under way may use up: without a farewell the
// others would take this node for dead.
const leaveTimeout = 5 * time.Second

// leave finishes what is under way and says farewell: to the store first, while members still hear this node by gossip.
func (e *engine) leave(logger *zap.Logger) error {
	failed := e.finish()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if e.presence != nil {
		failed = errors.Join(failed, e.presence.Leave(ctx))
	}
	if e.cluster == nil {
		return failed
	}
	if err := e.cluster.Leave(ctx); err != nil {
		logger.Info("left the cluster; members that have not heard it find out by themselves", zap.Error(err))
	}
	return failed
}

// finish ends what needs the store and the cluster for itself. Its error says what the store has not taken.
func (e *engine) finish() (unsaved error) {
	if e.checker != nil {
		e.checker.Close()
	}
	if e.sessions != nil && !e.finished {
		unsaved = e.sessions.Close()
	}
	if e.stamps != nil {
		e.stamps.Close()
	}
	e.finished = true
	return unsaved
}

// close ends what is left, as a crash would where leave was not called.
func (e *engine) close() error {
	if e.presence != nil {
		e.presence.Close()
	}
	failed := e.finish()
	if e.cluster != nil {
		failed = errors.Join(failed, e.cluster.Close())
	}
	return failed
}

// Package presence keeps a node's record in the store and looks for the records of nodes that gossip does not reach.
//
// A member that gossip has lost may be dead, or it may live on the other side of a split and write to the same store.
// Only the store can tell the two apart: every live node renews a record there, n/NAME, and a record that is not
// renewed lapses. One more record lists the names, so that nodes which never met find each other too. Looking costs
// one read a second while everybody hears everybody.
package presence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"klatch/internal/task"
	"klatch/proto"
	"klatch/store"
)

const (
	// renewEvery is how often a node renews its record, and lapseAfter how long one that is not renewed counts.
	renewEvery = 3 * time.Second
	lapseAfter = 10 * time.Second
	// lookEvery is the time between two looks at the records of others.
	lookEvery = time.Second
	// forgetAfter is how long a name without a record stays listed.
	forgetAfter = time.Minute
	// storeTimeout bounds one operation on the store.
	storeTimeout = 2 * time.Second
)

// Options configure a [Presence]. All but Logger and Now are required.
type Options struct {
	Store   store.Store
	Tenant  string       // under which the records are kept
	Self    proto.Origin // this node
	Address string       // of its bus
	// Heard returns the boot under which a node is a live member, and false if it is none. Its record is not
	// looked at then.
	Heard func(name string) (boot uint64, ok bool)
	// Report is told which nodes have a live record or are heard, at each look that succeeded, and when it began.
	Report func(at time.Time, alive []proto.Origin)

	Logger *zap.Logger      // default: none is written
	Now    func() time.Time // default time.Now
}

// Presence is one node's record and its view of those of others. It is safe for concurrent use.
type Presence struct {
	opts Options

	ctx    context.Context // ends with Close
	end    context.CancelFunc
	tasks  task.Group
	looked chan struct{} // closed after the first look that succeeded

	leaving sync.Mutex // guards gone, and the record against being renewed after it was deleted
	gone    bool

	// Only the goroutine of run uses these.
	renewed time.Time            // when the record was last put
	seen    map[string]sighting  // records of nodes that are not heard
	missing map[string]time.Time // since when a listed name has had no record
	failing string               // the last error, to log changes only
}

// sighting is one revision of a record, and when it was first seen. A record that does not change is not renewed,
// whether or not the store has collected it.
type sighting struct {
	cas   store.CAS
	since time.Time
}

// Start begins to keep the record and to look. It does not wait for the store.
func Start(opts Options) (*Presence, error) {
	if opts.Store == nil || opts.Tenant == "" || opts.Self.Node == "" || opts.Self.Boot == 0 || opts.Heard == nil || opts.Report == nil {
		return nil, errors.New("presence: Store, Tenant, Self, Heard and Report are required")
	}
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	p := &Presence{
		opts:    opts,
		looked:  make(chan struct{}),
		seen:    map[string]sighting{},
		missing: map[string]time.Time{},
	}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.tasks.Go(p.run)
	return p, nil
}

// Looked is closed once this node's record is in the store and those of others have been looked at.
func (p *Presence) Looked() <-chan struct{} { return p.looked }

// Leave takes this node's record and its name out of the store. Call it before the farewell: members still hear
// the node by gossip then. Its error says that others will believe the node alive until its record lapses.
func (p *Presence) Leave(ctx context.Context) error {
	p.leaving.Lock()
	defer p.leaving.Unlock()
	p.gone = true
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	key := proto.NodeKey(p.opts.Tenant, p.opts.Self.Node)
	err := p.opts.Store.Delete(ctx, key, store.Any)
	if err == nil || errors.Is(err, store.ErrNotFound) {
		err = p.edit(ctx, func(names []string) []string { return without(names, p.opts.Self.Node) })
	}
	if err != nil {
		return fmt.Errorf("take the record of node %s out of the store: %w; others believe it alive for up to %v", p.opts.Self.Node, err, lapseAfter)
	}
	return nil
}

// Close ends the looks without a word, as a crash would.
func (p *Presence) Close() {
	p.end()
	p.tasks.Close()
}

func (p *Presence) run() {
	first := true
	for {
		err := p.renew()
		if err == nil {
			err = p.look()
		}
		p.report(err)
		if err == nil && first {
			first = false
			close(p.looked)
		}
		wait := time.NewTimer(lookEvery)
		select {
		case <-p.ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// report logs that the store does not answer, once, and that it does again.
func (p *Presence) report(err error) {
	if p.ctx.Err() != nil {
		return
	}
	was := p.failing
	p.failing = ""
	if err != nil {
		p.failing = "store"
		if was == "" {
			p.opts.Logger.Warn("node records cannot be kept or read; nodes that gossip has lost count as alive meanwhile", zap.Error(err))
		}
	} else if was != "" {
		p.opts.Logger.Info("node records can be kept and read again")
	}
}

// renew puts this node's record if it is time to.
func (p *Presence) renew() error {
	p.leaving.Lock()
	defer p.leaving.Unlock()
	now := p.opts.Now()
	if p.gone || !p.renewed.IsZero() && now.Sub(p.renewed) < renewEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, storeTimeout)
	defer cancel()
	key := proto.NodeKey(p.opts.Tenant, p.opts.Self.Node)
	record := proto.NodeRecord{Boot: p.opts.Self.Boot, Address: p.opts.Address}
	if _, err := p.opts.Store.Put(ctx, key, record.Encode(), store.PutOptions{CAS: store.Any, TTL: lapseAfter}); err != nil {
		return fmt.Errorf("renew the record of node %s: %w", p.opts.Self.Node, err)
	}
	p.renewed = now
	return nil
}

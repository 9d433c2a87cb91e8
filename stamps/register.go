package stamps

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"klatch/internal/clock"
	"klatch/internal/task"
	"klatch/proto"
	"klatch/store"
)

// News tells peers what was stamped.
type News interface {
	// Confirm tells all live peers the items and waits, for a bounded time, until they have applied them. It returns
	// the names of the nodes that may not have.
	Confirm(ctx context.Context, items ...proto.Item) (unconfirmed []string)
}

// Options configure a [Register]. Store and News are required.
type Options struct {
	Store store.Store
	News  News
	// Trusted reports whether what peers have published so far is known here. While it is not, every call of Current
	// asks the store. Default: it always is.
	Trusted func(now time.Time) bool

	// Lifetime is the longest that any object may be used after its fetch: stamps older than that are dropped.
	// Default 30 days.
	Lifetime time.Duration
	// MaxStamps is how many scopes of a tenant may be stamped at a time. With more, the older half is folded into
	// one stamp of the whole tenant, which costs fetches and nothing else. Default 4096.
	MaxStamps int
	// MaxAge is how old what is known may grow before the store is asked again. Default 60 s.
	MaxAge time.Duration
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

const (
	// storeTimeout bounds one read of a tenant's record, and one raise with all its attempts.
	storeTimeout = 5 * time.Second
	// joinWithin is how long after its start a read may be joined: while the bus is not trusted it is the only source
	// of stamps, and what it finds is as old as its start.
	joinWithin = 100 * time.Millisecond
)

// Register knows the stamps of all tenants on one node. It is safe for concurrent use.
type Register struct {
	opts  Options
	fence atomic.Pointer[time.Time]
	stats counters

	life  context.Context // ends with Close
	end   context.CancelFunc
	tasks task.Group

	mu      sync.RWMutex // guards tenants
	tenants map[string]*tenant
	recent  recent
}

// New returns a register that knows nothing yet. Close ends it.
func New(opts Options) (*Register, error) {
	if opts.Store == nil || opts.News == nil {
		return nil, errors.New("stamps: Store and News are required")
	}
	if opts.Trusted == nil {
		opts.Trusted = func(time.Time) bool { return true }
	}
	if opts.Lifetime == 0 {
		opts.Lifetime = 30 * 24 * time.Hour
	}
	if opts.MaxStamps == 0 {
		opts.MaxStamps = 4096
	}
	if opts.MaxAge == 0 {
		opts.MaxAge = time.Minute
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	life, end := context.WithCancel(context.Background())
	return &Register{opts: opts, life: life, end: end, tenants: map[string]*tenant{}}, nil
}

// Close ends the reads and raises under way and waits for them.
func (r *Register) Close() {
	r.end()
	r.tasks.Close()
}

// Current makes sure that this node knows all stamps that it should, and returns the tenant's epoch: that of whatever
// is fetched from now on. It costs a store read only where news may have been missed. Its errors are those of store.Get
// and of a damaged record; nothing cached may be used then.
func (r *Register) Current(ctx context.Context, tenant string) (epoch uint64, err error) {
	now := r.opts.Now()
	t := r.tenant(tenant)
	epoch, looked := t.known()
	if r.usable(looked, now) {
		return epoch, nil
	}
	if err := r.look(ctx, t, now); err != nil {
		return 0, err
	}
	epoch, _ = t.known()
	return epoch, nil
}

// usable reports whether what was read from the store at a time, with the news since, is enough.
func (r *Register) usable(looked, now time.Time) bool {
	if looked.IsZero() || clock.Elapsed(looked, now) > r.opts.MaxAge {
		return false
	}
	if fence := r.fence.Load(); fence != nil && !looked.After(*fence) {
		return false
	}
	return r.opts.Trusted(now)
}

// Alive reports whether an object whose fetch began at an epoch may be used under all its scopes, by what this node
// knows: call Current first. It neither allocates nor waits for the store.
func (r *Register) Alive(tenant string, epoch uint64, scopes ...string) bool {
	return r.tenant(tenant).alive(epoch, scopes)
}

// Apply takes news from a peer. News that is no stamp is ignored, and so is that of a tenant which nobody has asked
// for here: whoever does reads the store first.
func (r *Register) Apply(item proto.Item) {
	stamp, ok := item.(proto.Stamp)
	if !ok {
		return
	}
	r.mu.RLock()
	t := r.tenants[stamp.Tenant]
	r.mu.RUnlock()
	if t == nil || !t.apply(r.opts.MaxStamps, stamp) {
		return
	}
	r.stats.applied.Add(1)
	r.recent.add(stamp)
}

// Fence makes the next use of each tenant's stamps read the store first.
func (r *Register) Fence() {
	now := r.opts.Now()
	for old := r.fence.Load(); old == nil || now.After(*old); old = r.fence.Load() {
		if r.fence.CompareAndSwap(old, &now) {
			return
		}
	}
}

// Recent returns the latest stamps that this node has raised or heard, for peers that it meets.
func (r *Register) Recent() []proto.Item { return r.recent.items() }

// tenant returns what is known of a tenant. The caller vouches that there is one of that name.
func (r *Register) tenant(name string) *tenant {
	r.mu.RLock()
	t := r.tenants[name]
	r.mu.RUnlock()
	if t != nil {
		return t
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t = r.tenants[name]; t == nil {
		t = &tenant{name: name, scopes: map[string]uint64{}}
		r.tenants[name] = t
	}
	return t
}

// look reads the tenant's record, or waits for a read under way that may be joined.
func (r *Register) look(ctx context.Context, t *tenant, now time.Time) error {
	l := t.join(r.fence.Load(), now)
	if l.first {
		read := func() {
			l.err = r.read(t, l.began)
			t.endLook(l.look)
		}
		if !r.tasks.Go(read) {
			l.err = ErrClosed
			t.endLook(l.look)
		}
	}
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return errors.Join(store.ErrUnavailable, ctx.Err())
	}
}

func (r *Register) read(t *tenant, began time.Time) error {
	ctx, cancel := context.WithTimeout(r.life, storeTimeout)
	defer cancel()
	r.stats.reads.Add(1)
	known, _ := t.known()
	record, _, err := r.load(ctx, t.name)
	if err != nil {
		return err
	}
	t.merge(record, began)
	if record.Epoch < known {
		// The store has gone back behind what it had acknowledged: it was restored, or has failed over without its last
		// writes. Its epochs must not be given out again, and nobody knows what is missing.
		r.tasks.Go(func() { _, _ = r.Raise(r.life, t.name, whole) }) // else the next read tries again
	}
	return nil
}

// load returns a tenant's record, an empty one if there is none.
func (r *Register) load(ctx context.Context, tenant string) (proto.StampRecord, store.CAS, error) {
	stored, err := r.opts.Store.Get(ctx, proto.StampsKey(tenant))
	if errors.Is(err, store.ErrNotFound) {
		return proto.StampRecord{}, store.Absent, nil
	}
	if err != nil {
		return proto.StampRecord{}, 0, err
	}
	record, err := proto.DecodeStampRecord(stored.Value)
	return record, stored.CAS, err
}

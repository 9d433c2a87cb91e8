package stamps

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"klatch/internal/clock"
	"klatch/proto"
	"klatch/store"
)

const (
	// MaxScopes bounds the scopes of one raise, and MaxScopeBytes each of them.
	MaxScopes     = 1024
	MaxScopeBytes = 128

	// maxWaiting bounds the raises of a tenant that wait for the store.
	maxWaiting = 1024
	// conflictPause is about how long a raise that lost its compare-and-swap waits before the next attempt.
	conflictPause = 2 * time.Millisecond
)

// Receipt says how far a raise has come.
type Receipt struct {
	// Epoch is that of the stamps: everything under the scopes whose fetch began before it is dead.
	Epoch uint64
	// Unconfirmed names the nodes that may not know the stamps yet. A live one among them checks every use against the
	// store once it has not heard this node for the lag limit of the bus.
	Unconfirmed []string
}

// raise is a caller that waits for its scopes to be stamped.
type raise struct {
	scopes  []string
	receipt Receipt
	err     error
	done    chan struct{}
}

// Raise kills everything of the tenant under the scopes whose fetch began before now; the empty scope stands for all
// that the tenant has. It returns once the stamps are in the store and every live node has confirmed them, or after the
// bound of News.Confirm. Those who raise at one time share one write. Its errors are ErrInvalid, ErrBusy, ErrClosed and
// those of the store; with store.ErrAmbiguous, and when ctx ends early, the stamps may be in the store or come there,
// and to raise them again is right.
func (r *Register) Raise(ctx context.Context, tenant string, scopes ...string) (Receipt, error) {
	if len(scopes) == 0 || len(scopes) > MaxScopes {
		return Receipt{}, fmt.Errorf("%w: %d are given, 1 to %d are possible", ErrInvalid, len(scopes), MaxScopes)
	}
	for _, scope := range scopes {
		if len(scope) > MaxScopeBytes {
			return Receipt{}, fmt.Errorf("%w: %.32q... is longer than %d bytes", ErrInvalid, scope, MaxScopeBytes)
		}
	}
	t := r.tenant(tenant)
	one := &raise{scopes: scopes, done: make(chan struct{})}
	first, err := t.enqueue(one)
	if err != nil {
		return Receipt{}, err
	}
	if first && !r.tasks.Go(func() { r.commit(t) }) {
		t.fail(ErrClosed)
	}
	select {
	case <-one.done:
		return one.receipt, one.err
	case <-ctx.Done():
		return Receipt{}, fmt.Errorf("raise stamps: %w: %w", store.ErrAmbiguous, ctx.Err())
	}
}

// enqueue reports whether the caller is to see to the queue.
func (t *tenant) enqueue(one *raise) (first bool, err error) {
	t.raising.Lock()
	defer t.raising.Unlock()
	if len(t.queue) >= maxWaiting {
		return false, ErrBusy
	}
	t.queue = append(t.queue, one)
	first = !t.busy
	t.busy = true
	return first, nil
}

// group takes raises from the queue whose scopes fit into one write. Nil ends the caller's care of it.
func (t *tenant) group() (group []*raise) {
	t.raising.Lock()
	defer t.raising.Unlock()
	scopes := 0
	for _, one := range t.queue {
		if scopes += len(one.scopes); scopes > MaxScopes {
			break
		}
		group = append(group, one)
	}
	t.queue = slices.Delete(t.queue, 0, len(group))
	t.busy = len(group) > 0
	return group
}

func (t *tenant) fail(err error) {
	for group := t.group(); group != nil; group = t.group() {
		for _, one := range group {
			one.err = err
			close(one.done)
		}
	}
}

// commit writes what waits, group by group. While one group waits to be confirmed the next is written.
func (r *Register) commit(t *tenant) {
	for group := t.group(); group != nil; group = t.group() {
		var scopes []string
		for _, one := range group {
			scopes = append(scopes, one.scopes...)
		}
		slices.Sort(scopes)
		items, epoch, err := r.write(t, slices.Compact(scopes))
		confirm := func() {
			var unconfirmed []string
			if err == nil {
				unconfirmed = r.opts.News.Confirm(r.life, items...)
			}
			for _, one := range group {
				one.receipt, one.err = Receipt{epoch, unconfirmed}, err
				close(one.done)
			}
		}
		if !r.tasks.Go(confirm) {
			confirm() // its context has ended: it does not wait
		}
	}
}

// write stamps the scopes in the store and here, and returns what the peers are to hear. Raising is idempotent but for
// the number, so a write whose outcome is unknown is simply done again. News of it goes out only when one is certain:
// an epoch that is not in the store will be given out again, for other scopes.
func (r *Register) write(t *tenant, scopes []string) (items []proto.Item, epoch uint64, err error) {
	ctx, cancel := context.WithTimeout(r.life, storeTimeout)
	defer cancel()
	unknown := false // whether an earlier attempt has succeeded
	for {
		before, err := r.current(ctx, t)
		if err != nil {
			return nil, 0, refusal(err, unknown)
		}
		next := r.stamped(before.record, t, scopes)
		cas, err := r.opts.Store.Put(ctx, proto.StampsKey(t.name), next.Encode(), store.PutOptions{CAS: before.cas, TTL: store.Forever, Durable: true})
		if err == nil {
			t.last = &revision{next, cas}
			t.merge(next, time.Time{})
			r.stats.raised.Add(uint64(len(scopes)))
			return r.announce(t.name, before.record.Floor, next, scopes), next.Epoch, nil
		}
		t.last = nil
		unknown = unknown || errors.Is(err, store.ErrAmbiguous)
		again := errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrAmbiguous)
		if !again || clock.Sleep(ctx, conflictPause+rand.N(conflictPause)) != nil {
			return nil, 0, refusal(err, unknown)
		}
	}
}

// refusal says what a raise that failed may have done.
func refusal(err error, unknown bool) error {
	switch {
	case unknown:
		return fmt.Errorf("raise stamps: %w: %v", store.ErrAmbiguous, err)
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("raise stamps: %w: too many others raise some: %v", store.ErrUnavailable, err)
	default:
		return fmt.Errorf("raise stamps: %w", err)
	}
}

// current returns the revision to build on.
func (r *Register) current(ctx context.Context, t *tenant) (*revision, error) {
	if t.last == nil {
		record, cas, err := r.load(ctx, t.name)
		if err != nil {
			return nil, err
		}
		t.last = &revision{record, cas}
	}
	return t.last, nil
}

// stamped returns the record after the scopes were stamped, without what nothing needs any more.
func (r *Register) stamped(record proto.StampRecord, t *tenant, scopes []string) proto.StampRecord {
	known, _ := t.known()
	next := proto.StampRecord{Epoch: max(record.Epoch, known) + 1, Floor: record.Floor}
	_, all := slices.BinarySearch(scopes, whole)
	if all || record.Epoch < known { // or stamps were lost
		next.Floor = next.Epoch
		return next
	}
	now := r.opts.Now()
	for _, s := range record.Stamps {
		_, again := slices.BinarySearch(scopes, s.Scope)
		if !again && now.Sub(s.Raised) <= r.opts.Lifetime {
			next.Stamps = append(next.Stamps, s)
		}
	}
	for _, scope := range scopes {
		next.Stamps = append(next.Stamps, proto.ScopeStamp{Scope: scope, Epoch: next.Epoch, Raised: now})
	}
	if len(next.Stamps) > r.opts.MaxStamps {
		next.Floor = next.Stamps[len(next.Stamps)/2].Epoch
		next.Stamps = slices.DeleteFunc(next.Stamps, func(s proto.ScopeStamp) bool { return s.Epoch <= next.Floor })
		r.stats.folds.Add(1)
	}
	return next
}

func (r *Register) announce(tenant string, floor uint64, next proto.StampRecord, scopes []string) (items []proto.Item) {
	if next.Floor > floor {
		items = append(items, proto.Stamp{Tenant: tenant, Scope: whole, Epoch: next.Floor})
	}
	if next.Floor < next.Epoch {
		for _, scope := range scopes {
			items = append(items, proto.Stamp{Tenant: tenant, Scope: scope, Epoch: next.Epoch})
		}
	}
	for _, item := range items {
		r.recent.add(item.(proto.Stamp))
	}
	return items
}

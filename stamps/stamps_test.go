package stamps

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"klatch/proto"
	"klatch/store"
	"klatch/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const shop = "shop"

// peers are registers over one store that tell each other what they stamp.
type peers struct {
	t         *testing.T
	store     *faulty
	registers []*Register
	deaf      atomic.Bool // news reaches nobody
	untrusted atomic.Bool
}

// line is the way from one register to the others.
type line struct {
	peers *peers
	from  int
}

func (l line) Confirm(_ context.Context, items ...proto.Item) (unconfirmed []string) {
	for i, to := range l.peers.registers {
		switch {
		case i == l.from:
		case l.peers.deaf.Load():
			unconfirmed = append(unconfirmed, fmt.Sprint("n", i))
		default:
			for _, item := range items {
				to.Apply(item)
			}
		}
	}
	return unconfirmed
}

// faulty is a store in which a test can do things before an operation and change its outcome.
type faulty struct {
	store.Store
	gets      atomic.Int64
	beforeGet atomic.Pointer[func() error]
	afterPut  atomic.Pointer[func(error) error]
}

func (f *faulty) Get(ctx context.Context, key proto.Key) (store.Record, error) {
	f.gets.Add(1)
	if before := f.beforeGet.Load(); before != nil {
		if err := (*before)(); err != nil {
			return store.Record{}, err
		}
	}
	return f.Store.Get(ctx, key)
}

func (f *faulty) Put(ctx context.Context, key proto.Key, value []byte, opts store.PutOptions) (store.CAS, error) {
	cas, err := f.Store.Put(ctx, key, value, opts)
	if after := f.afterPut.Load(); after != nil {
		err = (*after)(err)
	}
	return cas, err
}

func newPeers(t *testing.T, n int, change ...func(*Options)) *peers {
	t.Helper()
	p := &peers{t: t, store: &faulty{Store: memory.New(memory.Options{})}}
	for i := range n {
		p.add(i, change...)
	}
	return p
}

func (p *peers) add(i int, change ...func(*Options)) *Register {
	p.t.Helper()
	opts := Options{Store: p.store, News: line{p, i}, Trusted: func(time.Time) bool { return !p.untrusted.Load() }}
	for _, f := range change {
		f(&opts)
	}
	r, err := New(opts)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(r.Close)
	p.registers = append(p.registers, r)
	return r
}

func (p *peers) current(i int) (epoch uint64) {
	p.t.Helper()
	epoch, err := p.registers[i].Current(p.t.Context(), shop)
	if err != nil {
		p.t.Fatal(err)
	}
	return epoch
}

func (p *peers) raise(i int, scopes ...string) Receipt {
	p.t.Helper()
	receipt, err := p.registers[i].Raise(p.t.Context(), shop, scopes...)
	if err != nil {
		p.t.Fatal(err)
	}
	return receipt
}

// alive says what a node does with an object: it asks for the current state first.
func (p *peers) alive(i int, epoch uint64, scopes ...string) bool {
	p.t.Helper()
	p.current(i)
	return p.registers[i].Alive(shop, epoch, scopes...)
}

func (p *peers) wants(alive bool, epoch uint64, scopes ...string) {
	p.t.Helper()
	for i := range p.registers {
		if got := p.alive(i, epoch, scopes...); got != alive {
			p.t.Errorf("on n%d an object of epoch %d under %q is alive: %v, want %v", i, epoch, scopes, got, alive)
		}
	}
}

func TestRaiseKillsWhatWasFetchedBefore(t *testing.T) {
	p := newPeers(t, 3)
	before := p.current(0)
	p.wants(true, before, "tag:red", "url:/a")

	receipt := p.raise(1, "tag:red", "tag:green")
	if len(receipt.Unconfirmed) > 0 || receipt.Epoch <= before {
		t.Errorf("receipt %+v after epoch %d", receipt, before)
	}
	p.wants(false, before, "url:/a", "tag:red")
	p.wants(false, before, "tag:green")
	p.wants(true, before, "url:/a", "tag:blue")
	p.wants(true, receipt.Epoch, "url:/a", "tag:red")
	if other := p.registers[0].Alive("another tenant", 0, "tag:red"); !other {
		t.Error("the stamp crossed into another tenant")
	}

	p.raise(2, whole)
	p.wants(false, receipt.Epoch, "url:/a")
	p.wants(false, receipt.Epoch)
	p.wants(true, p.current(0), "tag:red")
}

func TestRaiseKillsAFetchUnderWayOnEveryNode(t *testing.T) {
	p := newPeers(t, 2)
	began := p.current(1)            // the fetch begins
	p.raise(0, "tag:red")            // the origin has changed after it answered
	p.wants(false, began, "tag:red") // the answer arrives and is kept
}

func TestANodeThatIsNotHeardKnowsAfterAFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, 2)
		before := p.current(1)
		p.deaf.Store(true)
		if receipt := p.raise(0, "tag:red"); !slices.Equal(receipt.Unconfirmed, []string{"n1"}) {
			t.Errorf("receipt %+v, want one without n1", receipt)
		}
		if !p.alive(1, before, "tag:red") {
			t.Fatal("n1 knows already, so nothing was lost")
		}
		time.Sleep(time.Nanosecond)
		p.registers[1].Fence()
		time.Sleep(time.Nanosecond) // what begins at the moment of the fence counts as before it
		if p.alive(1, before, "tag:red") {
			t.Error("behind the fence an object that was killed is used")
		}
		gets := p.store.gets.Load()
		p.current(1)
		if p.store.gets.Load() != gets {
			t.Error("the fence costs more than one read")
		}

		p.raise(0, "tag:green")
		p.untrusted.Store(true)
		if p.alive(1, before, "tag:green") {
			t.Error("without trust an object that was killed is used")
		}
	})
}

func TestWhatIsKnownAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, 2)
		before := p.current(1)
		p.deaf.Store(true)
		p.raise(0, "tag:red")
		time.Sleep(time.Minute)
		if !p.alive(1, before, "tag:red") {
			t.Fatal("n1 knows already, so nothing was lost")
		}
		time.Sleep(time.Nanosecond)
		if p.alive(1, before, "tag:red") {
			t.Error("after the maximum age an object that was killed is used")
		}
	})
}

// While nobody is trusted a read may be joined only for as long as its age does not matter.
func TestAnOldReadIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, 2)
		before := p.current(1)
		p.untrusted.Store(true)
		p.deaf.Store(true)

		release := make(chan struct{})
		hold := func() error { <-release; return errors.New("no answer") }
		p.store.beforeGet.Store(&hold)
		var slow sync.WaitGroup
		slow.Go(func() { _, _ = p.registers[1].Current(t.Context(), shop) })
		synctest.Wait()
		p.store.beforeGet.Store(nil)

		p.raise(0, "tag:red")
		time.Sleep(joinWithin + 1)
		if p.alive(1, before, "tag:red") {
			t.Error("an object that was killed is used")
		}
		close(release)
		slow.Wait()
	})
}

func TestManyReadersShareOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, 1)
		release := make(chan struct{})
		hold := func() error { <-release; return nil }
		p.store.beforeGet.Store(&hold)
		var readers sync.WaitGroup
		for range 200 {
			readers.Go(func() { p.current(0) })
		}
		synctest.Wait()
		close(release)
		readers.Wait()
		if n := p.store.gets.Load(); n != 1 {
			t.Errorf("%d reads of the record", n)
		}
	})
}

// Whatever order raises, news and reads of the record come in, all registers end with the same.
func TestNewsInAnyOrderAddsUp(t *testing.T) {
	p := newPeers(t, 1)
	random := rand.New(rand.NewPCG(1, 0))
	var news []proto.Item
	for range 300 {
		scope := fmt.Sprint("tag:", random.IntN(20))
		if random.IntN(50) == 0 {
			scope = whole
		}
		news = append(news, proto.Stamp{Tenant: shop, Scope: scope, Epoch: p.raise(0, scope).Epoch})
	}
	for range 20 {
		other := p.add(1)
		readAt := random.IntN(len(news))
		for i, n := range random.Perm(len(news)) {
			if i == readAt {
				p.current(1)
			}
			other.Apply(news[n])
			other.Apply(news[n/2])
		}
		for epoch := range p.current(0) + 2 {
			for tag := range 20 {
				scope := fmt.Sprint("tag:", tag)
				if a, b := p.alive(0, epoch, scope), p.alive(1, epoch, scope); a != b {
					t.Fatalf("epoch %d of %s is alive: %v here, %v there", epoch, scope, a, b)
				}
			}
		}
		p.registers = p.registers[:1]
	}
}

func TestConcurrentRaisesOnManyNodesAllCount(t *testing.T) {
	p := newPeers(t, 4)
	const each = 100
	var raisers sync.WaitGroup
	var mu sync.Mutex
	epochs := map[uint64][]string{}
	for i := range p.registers {
		for n := range each {
			raisers.Go(func() {
				scope := fmt.Sprintf("tag:%d-%d", i, n)
				before := p.current(i)
				receipt := p.raise(i, scope)
				if receipt.Epoch <= before {
					t.Errorf("epoch %d after %d", receipt.Epoch, before)
				}
				p.wants(false, before, scope)
				p.wants(true, receipt.Epoch, scope)
				mu.Lock()
				defer mu.Unlock()
				epochs[receipt.Epoch] = append(epochs[receipt.Epoch], fmt.Sprint(i))
			})
		}
	}
	raisers.Wait()
	for epoch, by := range epochs {
		if slices.Sort(by); len(slices.Compact(by)) != 1 {
			t.Errorf("epoch %d was given out by several nodes: %v", epoch, by)
		}
	}
	if len(epochs) >= 4*each {
		t.Errorf("%d writes for %d raises: those of one time did not share any", len(epochs), 4*each)
	}
}

// An answer that was lost must neither lose the raise nor let two raises share an epoch.
func TestAnAmbiguousWriteIsMadeAgain(t *testing.T) {
	p := newPeers(t, 2)
	before := p.current(1)
	var times atomic.Int32
	lose := func(err error) error {
		if times.Add(1) == 1 {
			return store.ErrAmbiguous
		}
		return err
	}
	p.store.afterPut.Store(&lose)
	first := p.raise(0, "tag:red")
	p.wants(false, before, "tag:red")
	if second := p.raise(1, "tag:green"); second.Epoch <= first.Epoch || times.Load() != 3 {
		t.Errorf("epochs %d and %d after %d writes", first.Epoch, second.Epoch, times.Load())
	}
}

func TestRaiseWithoutAStore(t *testing.T) {
	p := newPeers(t, 2)
	before := p.current(1)
	down := func() error { return store.ErrUnavailable }
	p.store.beforeGet.Store(&down)
	if _, err := p.registers[0].Raise(t.Context(), shop, "tag:red"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	if !p.alive(1, before, "tag:red") {
		t.Error("what was not stored was told")
	}
	p.untrusted.Store(true)
	if _, err := p.registers[1].Current(t.Context(), shop); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	p.store.beforeGet.Store(nil)
	p.raise(0, "tag:red")
	p.wants(false, before, "tag:red")
}

// What an attempt whose answer was lost has done stays unknown, however clear the failure of the next one is.
func TestARaiseThatMayHaveSucceededSaysSo(t *testing.T) {
	p := newPeers(t, 1)
	down := func() error { return store.ErrUnavailable }
	lose := func(error) error {
		p.store.beforeGet.Store(&down)
		return store.ErrAmbiguous
	}
	p.store.afterPut.Store(&lose)
	if _, err := p.registers[0].Raise(t.Context(), shop, "tag:red"); !errors.Is(err, store.ErrAmbiguous) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}

func TestARaiseThatAlwaysLosesIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, 1)
		lose := func(error) error { return store.ErrConflict }
		p.store.afterPut.Store(&lose)
		if _, err := p.registers[0].Raise(t.Context(), shop, "tag:red"); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
	})
}

// A store that was restored from yesterday must not give epochs out again, nor let live what has been killed since.
func TestAStoreThatWentBackKillsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, 2)
		p.raise(0, "tag:red")
		yesterday, err := p.store.Get(t.Context(), proto.StampsKey(shop))
		if err != nil {
			t.Fatal(err)
		}
		before := p.current(1)
		last := p.raise(0, "tag:green").Epoch
		if _, err := p.store.Put(t.Context(), proto.StampsKey(shop), yesterday.Value, store.PutOptions{CAS: store.Any, TTL: store.Forever}); err != nil {
			t.Fatal(err)
		}

		time.Sleep(2 * time.Minute) // until somebody looks
		p.current(1)
		synctest.Wait()
		p.wants(false, before, "tag:green")
		p.wants(false, before, "tag:blue")
		fresh := p.add(2)
		p.current(2)
		if fresh.Alive(shop, before, "tag:green") || p.current(2) <= last {
			t.Errorf("a new node knows epoch %d after %d", p.current(2), last)
		}
	})
}

func TestStampsAreDroppedWhenNothingOlderCanLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, 2, func(o *Options) { o.Lifetime, o.MaxAge = time.Hour, 24*time.Hour })
		p.current(1)
		p.raise(0, "tag:old")
		time.Sleep(time.Hour + time.Millisecond)
		p.raise(0, "tag:new")
		stored, err := p.store.Get(t.Context(), proto.StampsKey(shop))
		if err != nil {
			t.Fatal(err)
		}
		record, err := proto.DecodeStampRecord(stored.Value)
		if err != nil || len(record.Stamps) != 1 || record.Stamps[0].Scope != "tag:new" || record.Floor != 0 {
			t.Errorf("record %+v, error %v", record, err)
		}
		p.registers[1].Fence()
		p.wants(true, 0, "tag:old")
		p.wants(false, 0, "tag:new")
	})
}

func TestTooManyStampsBecomeOneOfTheTenant(t *testing.T) {
	p := newPeers(t, 2, func(o *Options) { o.MaxStamps = 10 })
	p.current(1)
	var epochs []uint64
	for n := range 11 {
		epochs = append(epochs, p.raise(0, fmt.Sprint("tag:", n)).Epoch)
	}
	p.wants(false, epochs[4], "never stamped") // under the floor
	p.wants(true, epochs[5], "never stamped")
	p.wants(true, epochs[10], "never stamped")
	for n := range 11 {
		p.wants(false, epochs[n]-1, fmt.Sprint("tag:", n))
	}
	if folds := p.registers[0].Stats().Folds; folds != 1 {
		t.Errorf("%d folds", folds)
	}

	// News alone must not fill the memory either.
	known := p.current(1)
	for n := range uint64(1000) {
		p.registers[1].Apply(proto.Stamp{Tenant: shop, Scope: fmt.Sprint("flood:", n), Epoch: known + 1 + n})
	}
	if n := len(p.registers[1].tenants[shop].scopes); n > 20 {
		t.Errorf("%d scopes are kept", n)
	}
	if p.registers[1].Alive(shop, known, "flood:0") {
		t.Error("what was folded is alive")
	}
}

func TestRecentStampsTellANewNode(t *testing.T) {
	p := newPeers(t, 3)
	late := p.registers[2]
	before := p.current(2)
	p.current(1)
	p.registers = p.registers[:2] // late hears nothing
	p.raise(0, "tag:red")
	for _, from := range p.registers { // both who raised it and who heard it
		p.add(2)
		p.current(2)
		items := from.Recent()
		if len(items) != 1 {
			t.Fatalf("%d recent items", len(items))
		}
		late.Apply(items[0])
		if late.Alive(shop, before, "tag:red") {
			t.Error("what is recent does not kill")
		}
		p.registers = p.registers[:2]
	}
	for n := range maxRecent * 2 {
		p.raise(0, fmt.Sprint("tag:", n))
	}
	recent := p.registers[0].Recent()
	if len(recent) != maxRecent || !slices.Contains(recent, proto.Item(proto.Stamp{Tenant: shop, Scope: fmt.Sprint("tag:", maxRecent*2-1), Epoch: p.current(0)})) {
		t.Errorf("%d recent stamps, or not the last", len(recent))
	}
}

func TestRaiseRefuses(t *testing.T) {
	p := newPeers(t, 1)
	r := p.registers[0]
	for name, scopes := range map[string][]string{
		"no scope":  nil,
		"too many":  make([]string, MaxScopes+1),
		"too long":  {string(make([]byte, MaxScopeBytes+1))},
		"one of it": {"tag:red", string(make([]byte, MaxScopeBytes+1))},
	} {
		if _, err := r.Raise(t.Context(), shop, scopes...); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	r.Close()
	if _, err := r.Raise(t.Context(), shop, "tag:red"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: error %v", err)
	}
	if _, err := r.Current(t.Context(), "unknown"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: error %v", err)
	}
}

func TestRaisesThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, 1)
		release := make(chan struct{})
		hold := func() error { <-release; return nil }
		p.store.beforeGet.Store(&hold)
		var raisers sync.WaitGroup
		var busy atomic.Int32
		for n := range maxWaiting + 10 {
			raisers.Go(func() {
				_, err := p.registers[0].Raise(t.Context(), shop, fmt.Sprint("tag:", n))
				if errors.Is(err, ErrBusy) {
					busy.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // the first is taken from the queue before the others come
		}
		close(release)
		raisers.Wait()
		if busy.Load() != 9 {
			t.Errorf("%d were refused, want 9: one is being written and %d wait", busy.Load(), maxWaiting)
		}
	})
}

func TestUseDoesNotAllocate(t *testing.T) {
	p := newPeers(t, 1)
	p.raise(0, "tag:red")
	p.current(0)
	scopes := []string{"url:/a", "tag:red"}
	if allocs := testing.AllocsPerRun(100, func() {
		epoch, err := p.registers[0].Current(t.Context(), shop)
		if err != nil || !p.registers[0].Alive(shop, epoch, scopes...) {
			t.Error("dead")
		}
	}); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkUse(b *testing.B) {
	r, err := New(Options{Store: memory.New(memory.Options{}), News: line{&peers{}, 0}})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	scopes := []string{"url:/a", "tag:red", "tag:green"}
	for b.Loop() {
		epoch, err := r.Current(b.Context(), shop)
		if err != nil || !r.Alive(shop, epoch, scopes...) {
			b.Fatal("dead")
		}
	}
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"

	"klatch/proto"
)

func TestLostBatchIsRepaired(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		next string // said after what was lost; nothing: the marks must tell
	}{
		{"with news after it", "next"},
		{"the last one", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			network := newFaultyTransport(t)
			rarely := func(o *Options) { o.SyncInterval = time.Hour }
			a := startNode(t, "a", func(o *Options) { rarely(o); o.Transport = network })
			b := startNode(t, "b", func(o *Options) { rarely(o); seeds(a)(o) })
			introduced(t, a, b)

			network.loseNext("s/lost")
			a.say("lost")
			eventually(t, "the batch is sent", func() bool { return a.Stats().BatchesSent == 1 })
			if tt.next != "" {
				a.say(tt.next)
			}
			eventually(t, "b hears what was lost", func() bool { return b.heard("a", "lost") })
			if stats := b.Stats(); stats.Repairs != 1 || b.fenced(FenceGap) != 0 {
				t.Errorf("%d repairs and fences %v, want one repair and no fence", stats.Repairs, b.allFences())
			}
		})
	}
}

func TestLostLastBatchBeforeTheFarewellIsRepairedOrBehindTheFence(t *testing.T) {
	t.Parallel()
	network := newFaultyTransport(t)
	a := startNode(t, "a", func(o *Options) { o.Transport = network; o.SyncInterval = time.Hour })
	b := startNode(t, "b", func(o *Options) { seeds(a)(o); o.SyncInterval = time.Hour })
	introduced(t, a, b)

	network.loseNext("s/lost")
	a.say("lost")
	if err := a.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "b has it again or raises the fence", func() bool { return b.heard("a", "lost") || b.fenced(FenceGap) == 1 })
}

func TestOverflowingQueueMakesPeersRaiseTheFence(t *testing.T) {
	t.Parallel()
	network := newFaultyTransport(t)
	a := startNode(t, "a", func(o *Options) { o.Transport = network })
	b := startNode(t, "b", seeds(a))
	introduced(t, a, b)

	items := make([]proto.Item, maxQueued)
	for i := range items {
		items[i] = invalidate("x")
	}
	network.hold.Lock()
	a.say("held up")
	eventually(t, "the sender is under way", func() bool {
		a.sender.mu.Lock()
		defer a.sender.mu.Unlock()
		return len(a.sender.queue) == 0
	})
	a.Publish(items...)
	a.say("one too many")
	network.hold.Unlock()

	eventually(t, "b raises the fence", func() bool { return b.fenced(FenceGap) > 0 })
	if drops := a.Stats().SendDrops; drops != 1 {
		t.Errorf("%d items were dropped, want 1", drops)
	}
}

// quietReceiver is one whose worker does not run: the test does its work.
func quietReceiver(handler Handler) *receiver {
	opts := Options{Handler: handler, Logger: zap.NewNop(), Now: func() time.Time { return start }}
	r := newCluster(opts, self).receiver
	r.sender.transmit = func(*memberlist.Node, []byte) error { return nil }
	return r
}

func TestFullInboxRaisesTheFence(t *testing.T) {
	rec := &recorder{news: map[string]int{}}
	r := quietReceiver(rec)
	farewell := proto.EncodeMessage(proto.Mark{Origin: alice, Last: 1})
	for range maxInbox + 1 {
		r.message(farewell)
	}

	stop, done := make(chan struct{}), make(chan struct{})
	go func() { r.run(stop); close(done) }()
	eventually(t, "the fence is raised", func() bool { return rec.fenced(FenceDropped) == 1 })
	close(stop)
	<-done
	if got := r.stats.dropped.Load(); got != 1 {
		t.Errorf("%d arrivals were dropped, want 1", got)
	}
}

func batchOf(from proto.Origin, seq uint64, id string) []byte {
	message, _ := proto.PackBatch(from, seq, [][]byte{proto.EncodeItem(invalidate(id))}, false, proto.MaxMessageBytes)
	return message
}

func TestNewsIsAppliedOnArrivalAndDuplicatesAreNot(t *testing.T) {
	rec := &recorder{news: map[string]int{}}
	r := quietReceiver(rec)
	for _, n := range []uint64{7, 9, 8, 9, 3} {
		r.receive(arrival{at: start, message: batchOf(alice, n, fmt.Sprint(n))})
	}
	for id, times := range map[string]int{"7": 1, "9": 1, "8": 1, "3": 1} {
		if got := rec.news["alice "+id]; got != times {
			t.Errorf("batch %s was applied %d times, want %d", id, got, times)
		}
	}
	if got := r.stats.duplicates.Load(); got != 1 {
		t.Errorf("%d duplicates were counted, want 1", got)
	}
}

func TestWhatArrivedInTimeIsNotMissed(t *testing.T) {
	// The worker is late; the times of arrival count.
	tests := []struct {
		name   string
		filled time.Duration // after the gap was known
		asked  uint64
		fences int
	}{
		{"in time", grace - 1, 0, 0},
		{"late", grace, 1, 0},
		{"too late", repairWithin, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rec := &recorder{news: map[string]int{}}
			r := quietReceiver(rec)
			r.courier.tasks.Close()
			r.roster.put(&peer{origin: alice, node: &memberlist.Node{}})
			r.handle(arrival{at: start, message: batchOf(alice, 1, "1")})
			r.handle(arrival{at: start, message: batchOf(alice, 3, "3")})
			r.mend(start.Add(tt.filled))
			r.handle(arrival{at: start.Add(tt.filled), message: batchOf(alice, 2, "2")})
			r.mend(start.Add(repairWithin))
			r.mend(start.Add(time.Hour))
			if got := r.stats.repairsAsked.Load(); got != tt.asked && tt.fences == 0 {
				t.Errorf("asked %d times, want %d", got, tt.asked)
			}
			if got := rec.fenced(FenceGap); got != tt.fences {
				t.Errorf("%d fences for the gap, want %d", got, tt.fences)
			}
			if rec.news["alice 2"] != 1 {
				t.Error("late news was not applied")
			}
		})
	}
}

func TestWhatCannotBeReadIsCounted(t *testing.T) {
	r := quietReceiver(&recorder{news: map[string]int{}})
	r.receive(arrival{at: start, message: []byte{proto.WireVersion, 0x92, 0x63, 0xc0}}) // kind 99
	r.receive(arrival{at: start, message: []byte{proto.WireVersion + 1}})
	r.receive(arrival{at: start, message: []byte("gossip")})
	r.receive(arrival{at: start, message: nil})
	if unknown, broken := r.stats.unknown.Load(), r.stats.decodeErrors.Load(); unknown != 1 || broken != 3 {
		t.Errorf("%d unknown and %d unreadable, want 1 and 3", unknown, broken)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(batchOf(alice, 1, "1"))
	f.Add(proto.EncodeMessage(proto.Mark{Origin: alice, Last: 1 << 63}))
	f.Add(proto.EncodeMessage(proto.Farewell{Origin: self, Last: 3}))
	f.Add(proto.EncodeMessage(proto.State{Points: []proto.Point{{Origin: alice, Last: 1}, {Origin: bob, Last: 2}}}))
	f.Add(proto.EncodeMessage(proto.Mark{Origin: alice, Last: 7, To: self.Boot, Sent: 5, Reply: proto.ReplyStream}))
	f.Add(proto.EncodeMessage(proto.RepairRequest{From: alice, To: self.Boot, Missing: []proto.Range{{First: 0, Last: 1 << 63}}}))
	f.Add(proto.EncodeMessage(proto.RepairReply{Origin: alice, Batches: [][]byte{batchOf(alice, 6, "6")}, Gone: []proto.Range{{First: 7, Last: 7}}}))
	f.Add(proto.EncodeMessage(proto.Request{From: alice, ID: 1, Method: "none"}))
	f.Add([]byte{proto.WireVersion, 0x92, 0x63, 0xc0})
	f.Fuzz(func(t *testing.T, p []byte) {
		r := quietReceiver(discard{})
		r.courier.tasks.Close()
		r.roster.put(&peer{origin: alice, node: &memberlist.Node{}})
		r.handle(arrival{at: start, message: batchOf(alice, 5, "5")})
		r.handle(arrival{at: start, message: p})
		r.handle(arrival{at: start.Add(time.Second), message: p})
		r.handle(arrival{at: start.Add(2 * time.Second), gone: &alice})
		r.origins.points()
	})
}

type discard struct{}

func (discard) Apply(string, proto.Item) {}
func (discard) Fence(string)             {}

func TestConfirmWaitsForEveryPeerAndNamesThoseThatAreSilent(t *testing.T) {
	t.Parallel()
	a := startNode(t, "a", nil)
	b := startNode(t, "b", seeds(a))
	network := newFaultyTransport(t)
	c := startNode(t, "c", func(o *Options) { seeds(a)(o); o.Transport = network })
	introduced(t, a, b, c)

	if unconfirmed := a.Confirm(t.Context(), invalidate("1")); len(unconfirmed) != 0 {
		t.Fatalf("unconfirmed by %v, want nobody", unconfirmed)
	}
	if !b.heard("a", "1") || !c.heard("a", "1") {
		t.Error("confirmed by a peer that has not applied it")
	}

	network.hold.Lock() // what c says is held up
	unconfirmed := a.Confirm(t.Context(), invalidate("2"))
	network.hold.Unlock()
	if !slices.Equal(unconfirmed, []string{"c"}) {
		t.Errorf("unconfirmed by %v, want c", unconfirmed)
	}
}

func TestConfirmedBatchThatWasLostIsRepairedMeanwhile(t *testing.T) {
	t.Parallel()
	network := newFaultyTransport(t)
	a := startNode(t, "a", func(o *Options) { o.Transport = network; o.SyncInterval = time.Hour })
	b := startNode(t, "b", func(o *Options) { seeds(a)(o); o.SyncInterval = time.Hour })
	introduced(t, a, b)

	network.loseNext("s/lost")
	if unconfirmed := a.Confirm(t.Context(), invalidate("lost")); len(unconfirmed) != 0 || !b.heard("a", "lost") {
		t.Errorf("unconfirmed by %v; b has heard it: %v", unconfirmed, b.heard("a", "lost"))
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	a := startNode(t, "a", nil)
	b := startNode(t, "b", func(o *Options) {
		seeds(a)(o)
		o.Answer = func(ctx context.Context, from, method string, body []byte) ([]byte, error) {
			switch method {
			case "echo":
				return append([]byte(from+" says "), body...), nil
			case "hang":
				<-ctx.Done()
				return nil, ctx.Err()
			default:
				return nil, fmt.Errorf("unknown method %q", method)
			}
		}
	})
	introduced(t, a, b)

	if got, err := a.Ask(t.Context(), "b", "echo", []byte("hello")); err != nil || string(got) != "a says hello" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := a.Ask(t.Context(), "b", "sing", nil); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), `unknown method "sing"`) {
		t.Errorf("an unknown method: %v", err)
	}
	if _, err := b.Ask(t.Context(), "a", "echo", nil); !errors.Is(err, ErrRefused) {
		t.Errorf("a node that answers nothing: %v", err)
	}
	if _, err := a.Ask(t.Context(), "c", "echo", nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a member that is not there: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := a.Ask(ctx, "b", "hang", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a member that does not answer: %v", err)
	}
}

func TestFullExchangeCarriesWhatMustReachEverybody(t *testing.T) {
	t.Parallel()
	a := startNode(t, "a", func(o *Options) { o.Recent = func() []proto.Item { return []proto.Item{invalidate("long ago")} } })
	b := startNode(t, "b", seeds(a))
	eventually(t, "b hears it", func() bool { return b.heard("a", "long ago") })
}

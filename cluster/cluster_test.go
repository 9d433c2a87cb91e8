package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"klatch/proto"
)

func TestOneNodeIsAWorkingCluster(t *testing.T) {
	t.Parallel()
	a := startNode(t, "a", nil)
	a.say("nobody hears this")
	members := a.Members()
	if len(members) != 1 || !members[0].Self || !members[0].Alive || members[0].Meta.State != proto.Joining {
		t.Errorf("members are %+v", members)
	}
	if err := a.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNewsReachesEveryoneInBothDirections(t *testing.T) {
	t.Parallel()
	for _, keys := range [][][]byte{nil, {[]byte("0123456789abcdef")}} {
		t.Run(fmt.Sprintf("keys=%d", len(keys)), func(t *testing.T) {
			t.Parallel()
			encrypted := func(o *Options) { o.Keys = keys }
			a := startNode(t, "a", encrypted)
			b := startNode(t, "b", func(o *Options) { encrypted(o); seeds(a)(o) })
			c := startNode(t, "c", func(o *Options) { encrypted(o); seeds(b)(o) })
			nodes := []*testNode{a, b, c}
			introduced(t, nodes...)

			for _, from := range nodes {
				from.say("by " + from.name)
			}
			for _, n := range nodes {
				for _, from := range nodes {
					if n != from {
						eventually(t, n.name+" hears "+from.name, func() bool { return n.heard(from.name, "by "+from.name) })
					}
				}
				if n.heard(n.name, "by "+n.name) {
					t.Errorf("%s heard itself", n.name)
				}
			}
		})
	}
}

func TestNewsThatDoesNotFitOneDatagramComesInSeveral(t *testing.T) {
	t.Parallel()
	a := startNode(t, "a", nil)
	b := startNode(t, "b", seeds(a))
	introduced(t, a, b)

	items := make([]proto.Item, 200)
	for i := range items {
		items[i] = invalidate(fmt.Sprintf("%0100d", i))
	}
	a.Publish(items...)
	for i := range items {
		eventually(t, "all items arrive", func() bool { return b.heard("a", fmt.Sprintf("%0100d", i)) })
	}
	if sent := a.Stats().BatchesSent; sent < 10 {
		t.Errorf("%d items went out in %d datagrams; that many do not fit", len(items), sent)
	}
}

func TestFirstContactRaisesTheFenceOnce(t *testing.T) {
	t.Parallel()
	a := startNode(t, "a", nil)
	a.say("before b was there")
	b := startNode(t, "b", seeds(a))
	introduced(t, a, b)
	for i := range 20 {
		a.say(fmt.Sprint(i))
		b.say(fmt.Sprint(i))
	}
	eventually(t, "the last news arrives", func() bool { return a.heard("b", "19") && b.heard("a", "19") })

	for _, n := range []*testNode{a, b} {
		if got := n.allFences(); !slices.Equal(got, []string{FenceFirstContact}) {
			t.Errorf("%s raised fences %v, want one first contact", n.name, got)
		}
	}
}

func TestMembersThatHaveNotExchangedStatesGreetEachOther(t *testing.T) {
	t.Parallel()
	rarely := func(o *Options) { o.SyncInterval = time.Hour }
	a := startNode(t, "a", rarely)
	b := startNode(t, "b", func(o *Options) { rarely(o); seeds(a)(o) })
	introduced(t, a, b)
	c := startNode(t, "c", func(o *Options) { rarely(o); seeds(b)(o) })
	introduced(t, a, b, c)
	if got := a.fenced(FenceFirstContact); got != 2 {
		t.Errorf("a raised %d fences for first contacts, want one for each peer", got)
	}
}

func TestStateSpreads(t *testing.T) {
	t.Parallel()
	a := startNode(t, "a", nil)
	b := startNode(t, "b", seeds(a))
	introduced(t, a, b)

	a.SetState(proto.Draining)
	for _, n := range []*testNode{a, b} {
		eventually(t, n.name+" sees a draining", func() bool {
			m, ok := n.sees("a")
			return ok && m.Meta == proto.NodeMeta{Release: "test", HTTP: "127.0.0.1:7070", State: proto.Draining, Started: m.Meta.Started}
		})
	}
}

func TestLeaveRaisesNoFence(t *testing.T) {
	t.Parallel()
	a := startNode(t, "a", nil)
	b := startNode(t, "b", seeds(a))
	introduced(t, a, b)

	b.say("the last thing")
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a no longer lists b", func() bool { return len(a.Members()) == 1 })
	if !a.heard("b", "the last thing") {
		t.Error("what was queued before the leave did not arrive")
	}
	if got := a.allFences(); !slices.Equal(got, []string{FenceFirstContact}) {
		t.Errorf("a raised fences %v, want none for the leave", got)
	}
	if _, err := b.Join(t.Context(), a.address()); !errors.Is(err, ErrClosed) {
		t.Errorf("join after leave: %v, want ErrClosed", err)
	}
}

func TestVanishedMemberRaisesTheFence(t *testing.T) {
	t.Parallel()
	a := startNode(t, "a", nil)
	b := startNode(t, "b", seeds(a))
	introduced(t, a, b)

	b.Close()
	eventually(t, "a raises the fence", func() bool { return a.fenced(FenceVanished) == 1 })
	if _, alive := a.sees("b"); alive || len(a.Members()) != 2 {
		t.Errorf("members are %+v, want b among them, not alive", a.Members())
	}
}

func TestRestartedNodeComesBackUnderANewAddress(t *testing.T) {
	t.Parallel()
	a := startNode(t, "a", nil)
	b := startNode(t, "b", seeds(a))
	introduced(t, a, b)
	old, fences := b.address(), len(a.allFences())

	b.Close()
	b = startNode(t, "b", seeds(a))
	eventually(t, "a sees b at its new address, and b sees a", func() bool {
		m, ok := a.sees("b")
		_, seen := b.sees("a")
		return ok && seen && m.Address == b.address() && m.Address != old
	})
	b.say("back")
	eventually(t, "a hears b", func() bool { return a.heard("b", "back") })
	a.say("welcome")
	eventually(t, "b hears a", func() bool { return b.heard("a", "welcome") })
	// For the death of the old b or the first contact with the new one, whichever comes first.
	eventually(t, "a raises the fence", func() bool { return len(a.allFences()) > fences })
}

func TestSecondNodeOfOneNameIsReportedOnce(t *testing.T) {
	t.Parallel()
	a := startNode(t, "a", nil)
	b := startNode(t, "b", seeds(a))
	introduced(t, a, b)
	second := startNode(t, "b", seeds(a))

	clashes := func() int { return a.logs.FilterMessageSnippet("two nodes of one name").Len() }
	eventually(t, "a reports the clash", func() bool { return clashes() > 0 })
	for range 5 {
		if _, err := second.Join(t.Context(), a.address()); err != nil {
			t.Fatal(err)
		}
	}
	if clashes() != 1 {
		t.Errorf("a reported the clash %d times", clashes())
	}
	if m, _ := a.sees("b"); m.Address != second.address() {
		t.Errorf("b is at %s, want the one that started last, at %s", m.Address, second.address())
	}
}

func TestStrangersDoNotMerge(t *testing.T) {
	t.Parallel()
	key := func(k string) func(*Options) { return func(o *Options) { o.Keys = [][]byte{[]byte(k)} } }
	label := func(l string) func(*Options) { return func(o *Options) { o.Label = l } }
	tests := []struct {
		name       string
		a, b       func(*Options)
		want       error
		byStream   string // why the seed refuses what comes by TCP
		byDatagram string
	}{
		{"other label", label("one"), label("two"), ErrOtherCluster, StrangerLabel, StrangerLabel},
		{"other key", key("0123456789abcdef"), key("fedcba9876543210"), ErrOtherKey, StrangerKey, StrangerKey},
		{"only the seed has a key", key("0123456789abcdef"), label("klatch"), ErrOtherKey, StrangerKey, StrangerKey},
		{"the seed has no key", label("klatch"), key("0123456789abcdef"), ErrOtherKey, StrangerKey, StrangerUnreadable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := startNode(t, "a", tt.a)
			b := startNode(t, "b", func(o *Options) { tt.b(o); seeds(a)(o) })

			refusals := func() int { return b.logs.FilterMessageSnippet("seed not joined").Len() }
			eventually(t, "b says that its seed was not joined", func() bool { return refusals() > 0 })
			for range 3 {
				if n, err := b.Join(t.Context(), a.address()); n != 0 || !errors.Is(err, tt.want) {
					t.Errorf("joined %d, %v; want %v", n, err, tt.want)
				}
			}
			for _, n := range []*testNode{a, b} {
				if len(n.Members()) != 1 {
					t.Errorf("%s has members %+v", n.name, n.Members())
				}
			}
			if refusals() != 1 {
				t.Errorf("b said %d times that its seed was not joined", refusals())
			}

			before, streams := a.Stats().Strangers[tt.byDatagram], a.Stats().Strangers[tt.byStream]
			if streams < 3 {
				t.Errorf("a counts %d strangers by stream for %s, want at least the three joins", streams, tt.byStream)
			}
			const datagrams = 50
			to := memberlist.Address{Addr: a.address()}
			for range datagrams {
				if err := b.memberlist.SendToAddress(to, []byte("hello")); err != nil {
					t.Fatal(err)
				}
			}
			counted := uint64(datagrams)
			if tt.byDatagram == StrangerUnreadable {
				counted = 1 // some noise can be read
			}
			eventually(t, "a counts the datagrams", func() bool { return a.Stats().Strangers[tt.byDatagram] >= before+counted })
			lines := map[string]int{}
			for _, line := range a.logs.FilterMessageSnippet("stranger").All() {
				lines[line.ContextMap()["reason"].(string)]++
			}
			want := map[string]int{tt.byStream: 1, tt.byDatagram: 1}
			if !maps.Equal(lines, want) {
				t.Errorf("a logged strangers %v, want once each: %v", lines, want)
			}
		})
	}
}

func TestStartRefusesWhatCannotWork(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Options)
		want   error
	}{
		{"no name", func(o *Options) { o.Name = "" }, ErrInvalid},
		{"bad name", func(o *Options) { o.Name = "Node_1" }, ErrInvalid},
		{"long name", func(o *Options) { o.Name = strings.Repeat("a", 33) }, ErrInvalid},
		{"no boot", func(o *Options) { o.Boot = 0 }, ErrInvalid},
		{"no handler", func(o *Options) { o.Handler = nil }, ErrInvalid},
		{"long label", func(o *Options) { o.Label = strings.Repeat("a", 65) }, ErrInvalid},
		{"short key", func(o *Options) { o.Keys = [][]byte{[]byte("short")} }, ErrInvalid},
		{"seed without port", func(o *Options) { o.Seeds = []string{"node-1"} }, ErrInvalid},
		{"bind to a name", func(o *Options) { o.Bind = "localhost:7946" }, ErrInvalid},
		{"advertise a name", func(o *Options) { o.Advertise = "node-1:7946" }, ErrAdvertise},
		{"advertise everything", func(o *Options) { o.Advertise = "0.0.0.0:7946" }, ErrAdvertise},
		{"too much meta", func(o *Options) { o.Meta.HTTP = strings.Repeat("a", 600) }, ErrInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			opts := Options{Name: "a", Boot: 1, Bind: "127.0.0.1:0", Handler: &recorder{}}
			tt.change(&opts)
			c, err := Start(t.Context(), opts)
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if c != nil {
				c.Close()
			}
		})
	}
}

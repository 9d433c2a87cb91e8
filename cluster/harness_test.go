package cluster

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"klatch/proto"
)

// TestMain fails if a goroutine is left. memberlist does not wait for its own: a probe under way when it is
// shut down ends by its time-out only, which a struggling node lengthens.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		var leak error
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
			if leak = goleak.Find(); leak == nil {
				break
			}
		}
		if leak != nil {
			fmt.Fprintln(os.Stderr, leak)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is how long a test waits for what must come. It is never waited for in vain.
const patience = 30 * time.Second

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

// recorder is a Handler that remembers.
type recorder struct {
	mu     sync.Mutex // guards all below
	news   map[string]int
	fences []string
}

func (r *recorder) Apply(from string, item proto.Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news[from+" "+item.(proto.Invalidate).Key.ID]++
}

func (r *recorder) Fence(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fences = append(r.fences, reason)
}

func (r *recorder) heard(from, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.news[from+" "+id] > 0
}

func (r *recorder) fenced(reason string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, f := range r.fences {
		if f == reason {
			n++
		}
	}
	return n
}

func (r *recorder) allFences() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.fences)
}

type testNode struct {
	*Cluster
	*recorder
	name string
	logs *observer.ObservedLogs
}

func (n *testNode) address() string {
	for _, m := range n.Members() {
		if m.Self {
			return m.Address
		}
	}
	return ""
}

func (n *testNode) say(id string) { n.Publish(invalidate(id)) }

func invalidate(id string) proto.Invalidate {
	return proto.Invalidate{Key: proto.NewKey("t", proto.KindSession, id), Version: 1}
}

// startNode starts a node on loopback. Its timers are short, so that what is due comes soon; no test relies
// on how soon.
func startNode(t testing.TB, name string, change func(*Options)) *testNode {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	n := &testNode{recorder: &recorder{news: map[string]int{}}, name: name, logs: logs}
	opts := Options{
		Name:           name,
		Boot:           uint64(time.Now().UnixNano()),
		Bind:           "127.0.0.1:0",
		Handler:        n.recorder,
		Logger:         zap.New(core),
		Meta:           proto.NodeMeta{Release: "test", HTTP: "127.0.0.1:7070"},
		RejoinInterval: 200 * time.Millisecond,
		SyncInterval:   500 * time.Millisecond,
		ProbeInterval:  200 * time.Millisecond,
	}
	if change != nil {
		change(&opts)
	}
	c, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	n.Cluster = c
	t.Cleanup(func() { c.Close() })
	return n
}

func seeds(of ...*testNode) func(*Options) {
	return func(o *Options) {
		for _, n := range of {
			o.Seeds = append(o.Seeds, n.address())
		}
	}
}

func (n *testNode) sees(name string) (Member, bool) {
	members := n.Members()
	i := slices.IndexFunc(members, func(m Member) bool { return m.Name == name && m.Alive })
	if i < 0 {
		return Member{}, false
	}
	return members[i], true
}

// introduced waits until the nodes are members of each other and have had their first contacts, and thus
// the fences that those cost.
func introduced(t testing.TB, nodes ...*testNode) {
	t.Helper()
	for _, n := range nodes {
		for _, peer := range nodes {
			if n == peer {
				continue
			}
			eventually(t, n.name+" knows "+peer.name, func() bool {
				_, ok := n.sees(peer.name)
				return ok && n.receiver.origins.knowsNodeNow(peer.name)
			})
		}
	}
}

func (o *origins) knowsNodeNow(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.knowsNode(name)
}

// faultyTransport is the real network with faults: it loses the packets that lose says, and holds all up
// while hold is locked.
type faultyTransport struct {
	*memberlist.NetTransport
	mu   sync.Mutex // guards lose
	lose func(packet []byte) bool
	hold sync.RWMutex
}

func newFaultyTransport(t testing.TB) *faultyTransport {
	t.Helper()
	transport, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
		BindAddrs: []string{"127.0.0.1"},
		Logger:    log.New(&bytes.Buffer{}, "", 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &faultyTransport{NetTransport: transport}
}

func (f *faultyTransport) loseNext(content string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lose = func(packet []byte) bool { return bytes.Contains(packet, []byte(content)) }
}

func (f *faultyTransport) WriteToAddress(p []byte, to memberlist.Address) (time.Time, error) {
	f.hold.RLock()
	defer f.hold.RUnlock()
	f.mu.Lock()
	lost := f.lose != nil && f.lose(p)
	f.mu.Unlock()
	if lost {
		return time.Now(), nil
	}
	return f.NetTransport.WriteToAddress(p, to)
}

package netsim_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"klatch/cluster"
	"klatch/cluster/netsim"
	"klatch/proto"
)

var (
	scalingNodes = flag.String("scaling.nodes", "5", "sizes of the clusters that TestScaling simulates, with commas between them")
	scalingTable = flag.String("scaling.table", "", "file to which TestScaling writes its table")
)

// measureFor is how long each write rate lasts, in virtual time.
const measureFor = 10 * time.Second

// TestScaling simulates whole clusters in virtual time and shows what their size costs: messages, bytes, how long news
// takes, how old the knowledge of nodes is. Processor time is not part of it.
func TestScaling(t *testing.T) {
	rows := []string{
		"| nodes | loss | writes/s | datagrams/s per node | KiB/s per node | to a peer: p50 | p99 | by a fence | bound: p50 | highest | no trust |",
		"|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
	}
	for size := range strings.SplitSeq(*scalingNodes, ",") {
		nodes, err := strconv.Atoi(size)
		if err != nil {
			t.Fatal(err)
		}
		for _, loss := range []float64{0, 0.2} {
			const seed = 1
			opts := netsim.Options{Seed: seed, Conditions: netsim.Conditions{Delay: 100 * time.Microsecond, Jitter: 200 * time.Microsecond}}
			simulate(t, opts, func(t *testing.T, network *netsim.Network) {
				s := newScaled(t, network, nodes)
				defer s.stop()
				opts.Conditions.Loss = loss
				network.SetConditions(opts.Conditions)
				for _, rate := range []int{0, 10, 100, 1000} {
					m := s.measure(rate)
					rows = append(rows, m.row(nodes, loss, rate))
					t.Log(rows[len(rows)-1])
					if m.open > 0 || loss == 0 && (m.fenced > 0 || m.untrusted > 0) {
						t.Errorf("%d nodes, loss %v, %d writes a second: of %d deliveries %d by a fence, %d more missed; no trust in %d of %d samples",
							nodes, loss, rate, len(m.took), m.fenced, m.open, m.untrusted, len(m.bounds))
					}
				}
			})
		}
	}
	table := strings.Join(rows, "\n") + "\n"
	t.Log("\n" + table)
	if *scalingTable != "" {
		if err := os.WriteFile(*scalingTable, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// witness is a cluster.Handler that notes how long it took until a node had no use for what news was about: because the
// news came, or a fence. The version of an item is when it was published.
type witness struct {
	mu     sync.Mutex // guards all below
	due    map[proto.Version]bool
	took   []time.Duration
	fenced int // of these, by a fence
}

func (w *witness) expect(v proto.Version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due[v] = true
}

// Apply implements cluster.Handler.
func (w *witness) Apply(_ string, item proto.Item) {
	v := item.(proto.Invalidate).Version
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.due[v] {
		delete(w.due, v)
		w.took = append(w.took, age(v))
	}
}

// Fence implements cluster.Handler.
func (w *witness) Fence(string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for v := range w.due {
		w.took = append(w.took, age(v))
		w.fenced++
	}
	clear(w.due)
}

func age(v proto.Version) time.Duration { return time.Since(time.Unix(0, int64(v))) }

// take returns what has been seen since the last call, and how much has not come to an end.
func (w *witness) take() (took []time.Duration, fenced, open int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	took, fenced, open = w.took, w.fenced, len(w.due)
	w.took, w.fenced = nil, 0
	clear(w.due)
	return took, fenced, open
}

// scaled is a simulated cluster.
type scaled struct {
	t        *testing.T
	network  *netsim.Network
	clusters []*cluster.Cluster
	news     []*witness // by node
	rand     *rand.Rand
}

func newScaled(t *testing.T, network *netsim.Network, nodes int) *scaled {
	t.Helper()
	s := &scaled{t: t, network: network, rand: rand.New(rand.NewPCG(1, 1))}
	for i := range nodes {
		transport, err := network.Transport(netsim.Addr(i + 1))
		if err != nil {
			t.Fatal(err)
		}
		w := &witness{due: map[proto.Version]bool{}}
		s.news = append(s.news, w)
		c, err := cluster.Start(t.Context(), cluster.Options{
			Name:      fmt.Sprint("n", i+1),
			Boot:      uint64(i + 1),
			Handler:   w,
			Transport: transport,
			Seeds:     []string{netsim.Addr(1).String()},
			Meta:      proto.NodeMeta{Release: "test"},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.clusters = append(s.clusters, c)
		time.Sleep(10 * time.Millisecond)
	}
	await(t, 2*time.Minute, "all are members and trust each other", func() bool {
		for _, c := range s.clusters {
			if len(c.Members()) != nodes || !c.Trusted(time.Now()) {
				return false
			}
		}
		return true
	})
	return s
}

func (s *scaled) stop() {
	for _, c := range s.clusters {
		c.Close()
	}
	time.Sleep(time.Minute)
}

// measured is what one write rate has shown.
type measured struct {
	nodes        int
	sent         netsim.Counts
	took         []time.Duration // of each item and peer
	fenced, open int             // of these, by a fence; and those without an end
	bounds       []time.Duration // the staleness bounds of nodes, sampled
	untrusted    int             // samples without trust
}

// measure publishes so many items a second, each on a node drawn at random, and watches.
func (s *scaled) measure(rate int) (m measured) {
	time.Sleep(3 * time.Second)
	before := s.network.Total()
	m.nodes = len(s.clusters)
	const tick = time.Millisecond
	written := 0
	for i := range int(measureFor / tick) {
		for ; written < rate*i/int(time.Second/tick); written++ {
			s.publish(s.rand.IntN(m.nodes), proto.Version(time.Now().UnixNano()+int64(written%1000)))
		}
		if i%250 == 0 {
			s.sample(&m)
		}
		time.Sleep(tick)
	}
	m.sent = difference(s.network.Total(), before)
	time.Sleep(6 * time.Second) // for what is repaired: also the loss of a last batch, and of the marks after it, is found
	for _, w := range s.news {
		took, fenced, open := w.take()
		m.took, m.fenced, m.open = append(m.took, took...), m.fenced+fenced, m.open+open
	}
	slices.Sort(m.took)
	slices.Sort(m.bounds)
	return m
}

// publish publishes an item on a node.
func (s *scaled) publish(node int, v proto.Version) {
	for i, w := range s.news {
		if i != node {
			w.expect(v)
		}
	}
	s.clusters[node].Publish(proto.Invalidate{Key: proto.NewKey("tenant", proto.KindSession, "0123456789abcdefghijklmnopqrstu"), Version: v})
}

// sample looks at the staleness bound of each node.
func (s *scaled) sample(m *measured) {
	for _, c := range s.clusters {
		stats := c.Stats()
		m.bounds = append(m.bounds, stats.Staleness)
		if !stats.Trusted {
			m.untrusted++
		}
	}
}

func difference(after, before netsim.Counts) netsim.Counts {
	return netsim.Counts{
		PacketsSent:     after.PacketsSent - before.PacketsSent,
		PacketBytesSent: after.PacketBytesSent - before.PacketBytesSent,
		StreamBytesSent: after.StreamBytesSent - before.StreamBytesSent,
	}
}

// row is a line of the table. A datagram has 28 bytes of headers on the wire beside its content.
func (m measured) row(nodes int, loss float64, rate int) string {
	perNode := float64(m.nodes) * measureFor.Seconds()
	bytes := float64(m.sent.PacketBytesSent + 28*m.sent.PacketsSent + m.sent.StreamBytesSent)
	p50, p99, fenced := "–", "–", "–"
	if len(m.took) > 0 {
		p50, p99 = milliseconds(m.took[len(m.took)/2]), milliseconds(m.took[len(m.took)*99/100])
		fenced = fmt.Sprintf("%.2f %%", 100*float64(m.fenced)/float64(len(m.took)))
	}
	return fmt.Sprintf("| %d | %.0f %% | %d | %.0f | %.1f | %s | %s | %s | %.2f s | %.2f s | %.2f %% |",
		nodes, 100*loss, rate, float64(m.sent.PacketsSent)/perNode, bytes/1024/perNode, p50, p99, fenced,
		m.bounds[len(m.bounds)/2].Seconds(), m.bounds[len(m.bounds)-1].Seconds(), 100*float64(m.untrusted)/float64(len(m.bounds)))
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}

//go:build e2e && linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"klatch/internal/history"
)

// counters are clients of the test application behind a balancer, each of which counts in a session of its own.
type counters struct {
	t        *testing.T
	running  sync.WaitGroup
	over     atomic.Bool
	all      []*counting
	failures []failedRequest // filled in by stop
	requests int
}

type counting struct {
	id       string
	acked    int
	requests int
	failures []failedRequest
}

// count starts so many clients of the balancer's address.
func (n *network) count(clients int, address string) *counters {
	n.t.Helper()
	c := &counters{t: n.t}
	for i := range clients {
		_, created := n.nodes[i%len(n.nodes)].create(`{"n":0}`)
		one := &counting{id: created.session.ID}
		c.all = append(c.all, one)
		c.running.Go(func() {
			cookie := one.id + "~" + created.session.Version
			for i := 1; !c.over.Load(); i++ {
				one.requests++
				got, err := request(n.t.Context(), http.MethodPut, fmt.Sprintf("http://%s/app?name=n&value=%d", address, i), "", "Cookie: klatch="+cookie)
				if err != nil || got.status != http.StatusOK {
					one.failures = append(one.failures, failedRequest{time.Now(), got.node, fmt.Sprintf("%d %s %v", got.status, got.problem.Type, err)})
				} else {
					one.acked, cookie = i, got.cookie
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	return c
}

// stop ends the clients and demands that the nodes have everything that was acknowledged.
func (c *counters) stop(n *network) {
	c.t.Helper()
	c.over.Store(true)
	c.running.Wait()
	for _, one := range c.all {
		c.requests += one.requests
		c.failures = append(c.failures, one.failures...)
		for _, node := range n.nodes {
			for _, level := range []string{history.Latest, history.Session, history.Local} {
				got := node.do(http.MethodGet, "/v1/sessions/"+one.id+"?consistency="+level, "", ok)
				if have, _ := strconv.Atoi(got.attribute("n")); have < one.acked {
					c.t.Errorf("%s has %d at %s, %d was acknowledged", node.name, have, level, one.acked)
				}
			}
		}
	}
}

// load runs the load tool again and again on the balancer's address until stop is called, which demands that no
// request has failed.
func (n *network) load(address string) (stop func() (rounds, operations int)) {
	n.t.Helper()
	var over atomic.Bool
	var rounds, operations int
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; !over.Load(); rounds++ {
			report, err := loadTool(n.t.Context(), func(process *exec.Cmd) error { return n.hub.do(process.Start) },
				address, "-t", "4", "-ct", "2", "-i", "2", "-ci", "20", "-ts", "20")
			if err != nil {
				n.t.Errorf("load through %s: %v", address, err)
				return
			}
			for _, operation := range report.Operations {
				operations += operation.Count
			}
		}
	}()
	return func() (int, int) {
		over.Store(true)
		<-done
		return rounds, operations
	}
}

// S15: each node drains and restarts in turn under load.
func TestChaosS15RollingRestart(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"sticky", "nonsticky"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			n := startNetwork(t, 3, "--drain-grace", "2s")
			balancer := n.balance()
			address := balancer.nonsticky
			if mode == "sticky" {
				address = balancer.sticky
			}
			clients := n.count(6, address)
			load := n.load(address)
			for _, node := range n.nodes {
				node.drain()
				node.boot()
				t.Logf("%s is back; the cluster was whole %s after its start", node.name, n.waitWhole().Round(time.Millisecond))
				time.Sleep(time.Second) // HAProxy finds it
			}
			rounds, operations := load()
			clients.stop(n)
			for _, f := range clients.failures {
				t.Errorf("a request failed: %s", f.what)
			}
			t.Logf("%d requests of counters, %d failed; %d operations in %d runs of the load tool", clients.requests, len(clients.failures), operations, rounds)
		})
	}
}

// S16: one node after the other is killed under load, and comes back.
func TestChaosS16KillUnderLoad(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, 3)
	clients := n.count(12, n.balance().nonsticky)
	var kills []time.Time
	for _, node := range n.nodes[1:] {
		time.Sleep(time.Second)
		kills = append(kills, time.Now())
		node.kill()
		time.Sleep(time.Second)
		node.boot()
		t.Logf("%s was killed; the cluster was whole %s after its next start", node.name, n.waitWhole().Round(time.Millisecond))
	}
	time.Sleep(time.Second)
	clients.stop(n)
	// A client has one request on its way at a time, so that many can be in flight on the node; and the balancer
	// may have sent on connections whose end it had not yet noticed.
	const noticing = 2 * time.Second
	for _, f := range clients.failures {
		inFlight := false
		for _, kill := range kills {
			after := f.at.Sub(kill)
			inFlight = inFlight || after >= 0 && after < noticing
		}
		if !inFlight {
			t.Errorf("a request failed when no node was being killed: %s", f.what)
		}
		if f.answeredBy != "" {
			t.Errorf("%s answered with a failure: %s", f.answeredBy, f.what)
		}
	}
	t.Logf("%d requests, %d failed with the nodes that were killed", clients.requests, len(clients.failures))
}

// A node is restarted five times, each less than two seconds after the last start, once by a drain and once by a
// kill and so on, under one name at one address or at a new one each time.
func TestChaosFiveFastRestarts(t *testing.T) {
	t.Parallel()
	for _, moves := range []bool{false, true} {
		name := "same address"
		if moves {
			name = "new address each time"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startNetwork(t, 3, "--drain-grace", "0s")
			traffic := newTraffic(n, 20)
			steady, restless := n.nodes[:2], n.nodes[2]
			traffic.run(2, 20*time.Millisecond, "changes", (*client).writes, steady...)
			traffic.run(1, 200*time.Millisecond, "deletes", (*client).deletes, steady...)
			traffic.run(3, 20*time.Millisecond, "reads", (*client).reads, steady...)
			var slowest time.Duration
			for i := range 5 {
				begin := time.Now()
				if i%2 == 0 {
					restless.kill()
				} else {
					restless.drain()
				}
				if moves {
					restless.move(10 + i)
				}
				restless.boot()
				restless.waitReady()
				reader := traffic.client("early", restless)
				for range 20 {
					reader.reads()
				}
				slowest = max(slowest, time.Since(begin))
				time.Sleep(max(0, 2*time.Second-time.Since(begin)))
			}
			whole := n.waitWhole()
			time.Sleep(time.Second)
			traffic.finish()
			t.Logf("a restart took up to %s; the cluster was whole %s after the last", slowest.Round(time.Millisecond), whole.Round(time.Millisecond))
			if failed := traffic.failures(); failed > 0 {
				t.Errorf("%d requests failed on nodes that were ready", failed)
			}
			traffic.check()
		})
	}
}

// A node that restarts at a new address, while its old boot was killed and is not yet known to be dead, is seen
// ready by all soon.
func TestChaosNewAddressIsSeenSoon(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, 5)
	node := n.nodes[4]
	node.kill()
	node.move(20)
	begin := time.Now()
	node.boot()
	var took time.Duration
	eventually(t, func() error {
		for _, other := range n.nodes {
			var cluster struct {
				Members []struct{ Name, State, Address string }
			}
			if err := getJSON("http://"+other.admin+"/v1/cluster", &cluster); err != nil {
				return err
			}
			seen := false
			for _, m := range cluster.Members {
				seen = seen || m.Name == node.name && m.State == "ready" && m.Address == node.gossip
			}
			if !seen {
				return fmt.Errorf("%s sees %+v", other.name, cluster.Members)
			}
		}
		took = time.Since(begin)
		return nil
	})
	t.Logf("all saw it ready %s after its start, and all trusted each other %s later", took.Round(time.Millisecond), n.waitWhole().Round(time.Millisecond))
	const soon = 3 * time.Second
	if took > soon {
		t.Errorf("it took %s until all saw the node ready at its new address, longer than %s", took, soon)
	}
}

// A node drains under load that is not sticky.
func TestChaosDrainUnderLoad(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, 3, "--drain-grace", "2s")
	address := n.balance().nonsticky
	clients := n.count(6, address)
	load := n.load(address)
	time.Sleep(time.Second)
	begin := time.Now()
	n.nodes[2].drain()
	t.Logf("the node had drained after %s", time.Since(begin).Round(time.Millisecond))
	time.Sleep(time.Second)
	rounds, operations := load()
	n.nodes[2].boot()
	n.waitWhole()
	clients.stop(n)
	for _, f := range clients.failures {
		t.Errorf("a request failed: %s", f.what)
	}
	t.Logf("%d requests of counters, %d failed; %d operations in %d runs of the load tool", clients.requests, len(clients.failures), operations, rounds)
}

// Nodes are killed and drained at random, now and then two at once, while clients change, delete and read everywhere.
func TestChaosRandomKillsAndRestarts(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	n := startNetwork(t, 5, "--drain-grace", "0s")
	traffic := newTraffic(n, 30)
	traffic.everywhere()
	deaths := 0
	for end := time.Now().Add(lasting(15*time.Second, 90*time.Second)); time.Now().Before(end); {
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
		victims := random.Perm(len(n.nodes))[:1+random.IntN(2)]
		for _, v := range victims {
			if deaths++; random.IntN(3) == 0 {
				n.nodes[v].drain()
			} else {
				n.nodes[v].kill()
			}
		}
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
		for _, v := range victims {
			n.nodes[v].boot()
		}
	}
	t.Logf("%d nodes died; the cluster was whole %s after the last start", deaths, n.waitWhole().Round(time.Millisecond))
	time.Sleep(time.Second)
	traffic.finish()
	traffic.check()
}

//go:build e2e && linux

package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	"klatch/internal/history"
)

// ringBatches is how many batches a node keeps for those who missed them (cluster/ring.go).
const ringBatches = 4096

// A node is frozen while another one sends more news than it keeps for repair. When it wakes it takes its copies for
// fresh, and what it missed cannot be had again: it must not serve one of them unchecked.
func TestChaosFreezeBeyondTheRing(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, 3)
	frozen, writer := n.nodes[2], n.nodes[0]
	traffic := newTraffic(n, 30)
	warm := traffic.client("warm", frozen)
	for _, key := range traffic.living {
		warm.read(frozen, key, history.Local)
	}

	freezeUnlocked(t, frozen, traffic.client("probe", writer))
	begin, sent := time.Now(), writer.counter("klatch_bus_batches_total", `direction="sent"`)
	// What fills the ring is on sessions of its own and is not recorded: a checker has better things to do. The end of a
	// session leaves at once, in a batch of its own.
	noise, quiet := context.WithCancel(t.Context())
	defer quiet()
	for range 4 {
		traffic.running.Go(func() {
			for noise.Err() == nil {
				made, err := request(t.Context(), http.MethodPost, "http://"+writer.api+"/v1/sessions", `{}`)
				if err != nil || made.status != http.StatusCreated {
					t.Errorf("noise: %d, %v: %s", made.status, err, made.body)
					return
				}
				ended, err := request(t.Context(), http.MethodDelete, "http://"+writer.api+"/v1/sessions/"+made.session.ID, "")
				if err != nil || ended.status != http.StatusNoContent {
					t.Errorf("noise: %d, %v: %s", ended.status, err, ended.body)
					return
				}
			}
		})
	}
	changes := traffic.client("changes", n.nodes[:2]...)
	for _, key := range traffic.living {
		changes.write(changes.anyNode(), key, 0)
	}
	for range 5 {
		changes.deletes()
	}
	batches := 0
	for batches <= ringBatches {
		if time.Since(begin) > 4*patience {
			t.Fatalf("%d batches in %s do not fill the ring", batches, time.Since(begin))
		}
		time.Sleep(100 * time.Millisecond)
		batches = writer.counter("klatch_bus_batches_total", `direction="sent"`) - sent
	}
	quiet()
	time.Sleep(stalenessBound)

	woken := time.Now()
	frozen.thaw()
	traffic.run(8, time.Millisecond, "reads", (*client).reads, frozen)
	traffic.run(1, 20*time.Millisecond, "changes", (*client).writes, n.nodes[:2]...)
	whole := n.waitWhole()
	time.Sleep(time.Second)
	traffic.finish()
	reads := 0
	for _, o := range traffic.recorder.History() {
		if o.Node == frozen.name && o.Kind == history.Read && o.Outcome == history.OK {
			reads++
		}
	}
	t.Logf("frozen for %s, %d batches were sent meanwhile; whole %s after waking; %d reads on the woken node; fences there for gaps: %d, first contact: %d, departures: %d",
		woken.Sub(begin).Round(time.Millisecond), batches, whole.Round(time.Millisecond), reads,
		frozen.counter("klatch_bus_fences_total", "gap"), frozen.counter("klatch_bus_fences_total", "first-contact"), frozen.counter("klatch_bus_fences_total", "vanished"))
	traffic.check()
}

// freezeUnlocked freezes the node in a moment when it does not hold the lock of the store's file, which would stop
// the others: whether nodes survive that is not what is tried here.
func freezeUnlocked(t *testing.T, n *netNode, probe *client) {
	t.Helper()
	for range 20 {
		n.freeze()
		path, _ := probe.nodes[0].create(`{}`)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		got, err := request(ctx, http.MethodPatch, "http://"+probe.nodes[0].api+path, `{"x":1}`)
		cancel()
		if err == nil && got.status == http.StatusOK {
			return
		}
		n.thaw()
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%s always holds the lock of the store", n.name)
}

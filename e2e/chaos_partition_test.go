//go:build e2e && linux

package e2e

import (
	"testing"
	"time"
)

// lasting is how long a fault lasts in the short and in the long set.
func lasting(short, lengthy time.Duration) time.Duration {
	if *long {
		return lengthy
	}
	return short
}

// healsWithin is how long a cluster may take to become whole after a fault, without any restart.
const healsWithin = 30 * time.Second

// heals ends the faults and demands that the cluster becomes whole.
func heals(t *testing.T, n *network) {
	t.Helper()
	dropped := n.heal()
	took := n.waitWhole()
	t.Logf("%d packets were dropped; the cluster was whole again after %s", dropped, took.Round(time.Millisecond))
	if took > healsWithin {
		t.Errorf("it took %s to heal, longer than %s", took, healsWithin)
	}
}

// S12: the news of a node is lost while others change and delete sessions.
func TestChaosS12LostNews(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, 3)
	a, b, c := n.nodes[0], n.nodes[1], n.nodes[2]
	traffic := newTraffic(n, 20)
	warm := traffic.client("warm", c)
	for _, key := range traffic.living {
		warm.read(c, key, "session")
	}
	traffic.run(2, 20*time.Millisecond, "changes", (*client).writes, a)
	traffic.run(1, 200*time.Millisecond, "deletes", (*client).deletes, b)
	traffic.run(3, 10*time.Millisecond, "reads", (*client).reads, c)
	traffic.run(2, 20*time.Millisecond, "browser", (*client).writesAndReads, a, c)
	time.Sleep(time.Second)

	split([]*netNode{a, b}, []*netNode{c})
	begin := time.Now()
	t.Logf("the isolated node checked every read after %s", waitDistrust(t, c).Round(time.Millisecond))
	time.Sleep(10*time.Second - time.Since(begin))
	heals(t, n)
	time.Sleep(time.Second)
	traffic.finish()
	if failed := traffic.failures(); failed > 0 {
		t.Errorf("%d requests failed, though each node could be reached and could reach the store", failed)
	}
	traffic.check()
}

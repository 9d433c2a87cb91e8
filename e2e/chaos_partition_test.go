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

// everywhere runs what every node gets during a fault: changes, deletes, and reads at all levels.
func (tr *traffic) everywhere() {
	for _, n := range tr.network.nodes {
		tr.run(1, 40*time.Millisecond, "changes", (*client).writes, n)
		tr.run(2, 20*time.Millisecond, "reads", (*client).reads, n)
	}
	all := tr.network.nodes
	tr.run(1, 300*time.Millisecond, "deletes", (*client).deletes, all...)
	tr.run(2, 40*time.Millisecond, "browser", (*client).writesAndReads, all...)
}

// endure ends a test of a fault that was brought about at begin: the fault lasts, is healed, and what the clients
// were answered all the while is checked. No request may fail, since only gossip was hit.
func (tr *traffic) endure(begin time.Time, lasts time.Duration) {
	tr.t.Helper()
	time.Sleep(lasts - time.Since(begin))
	heals(tr.t, tr.network)
	time.Sleep(time.Second)
	tr.finish()
	if failed := tr.failures(); failed > 0 {
		tr.t.Errorf("%d requests failed, though each node could be reached and could reach the store", failed)
	}
	tr.check()
}

// Two nodes are split from three for so long that each side takes the other for dead. The store is reachable from
// both, so both go on changing the same sessions.
func TestChaosPartitionOfTwoAgainstThree(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, 5)
	traffic := newTraffic(n, 30)
	traffic.everywhere()
	time.Sleep(time.Second)

	begin := time.Now()
	split(n.nodes[:2], n.nodes[2:])
	t.Logf("all nodes checked every read after %s", waitDistrust(t, n.nodes...).Round(time.Millisecond))
	traffic.endure(begin, lasting(15*time.Second, 90*time.Second))
}

// Of two nodes the second does not hear the first, which hears it.
func TestChaosOneWayCut(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, 3)
	traffic := newTraffic(n, 30)
	traffic.everywhere()
	time.Sleep(time.Second)

	begin := time.Now()
	cut(n.nodes[0], n.nodes[1])
	t.Logf("the deaf node checked every read after %s", waitDistrust(t, n.nodes[1]).Round(time.Millisecond))
	traffic.endure(begin, lasting(10*time.Second, time.Minute))
}

// Datagrams are blocked and TCP is open, as behind a firewall that somebody has half configured.
func TestChaosDatagramsBlocked(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, 3)
	traffic := newTraffic(n, 30)
	traffic.everywhere()
	time.Sleep(time.Second)

	begin := time.Now()
	n.blockDatagrams()
	traffic.endure(begin, lasting(10*time.Second, time.Minute))
}

// A fifth of all packets is lost while four clients write: every copy equals the store at the end.
func TestChaosLossOfAFifth(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, 5)
	traffic := newTraffic(n, 30)
	n.lose(20)
	begin := time.Now()
	traffic.run(4, 20*time.Millisecond, "changes", (*client).writes, n.nodes...)
	traffic.run(5, 20*time.Millisecond, "reads", (*client).reads, n.nodes...)
	traffic.endure(begin, lasting(10*time.Second, time.Minute))
	asked, came := 0, 0
	for _, node := range n.nodes {
		asked += node.counter("klatch_bus_repairs_total", `step="asked"`)
		came += node.counter("klatch_bus_repairs_total", `step="done"`)
	}
	t.Logf("%d repairs were asked for, %d batches came again", asked, came)
}

//go:build e2e && linux

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	gossipPort = "7946"
	hubHost    = 254 // the last byte of the address of the bridge, where clients are
)

// network is a cluster of node processes, each in a network namespace of its own, joined by a bridge in another one
// where the clients are. Faults hit gossip alone: clients and nodes, and nodes and their store, which is a file,
// always reach each other.
type network struct {
	t      *testing.T
	number int32  // of this network in this process
	prefix string // of all addresses
	hub    *namespace
	store  string
	flags  []string
	nodes  []*netNode
}

// netNode is a node process in its namespace.
type netNode struct {
	*node
	network *network
	space   *namespace
	host    int // the last byte of its address
	dir     string
	boots   int
}

// startNetwork starts n nodes on one SQLite file and waits until each is ready and has heard the others.
func startNetwork(t *testing.T, n int, flags ...string) *network {
	t.Helper()
	number := networkCount.Add(1)
	net := &network{
		t:      t,
		number: number,
		prefix: fmt.Sprintf("10.77.%d.", number),
		hub:    newNamespace(t, fmt.Sprintf("%d-hub", number)),
		store:  "sqlite:" + filepath.Join(t.TempDir(), "klatch.db"),
		flags:  flags,
	}
	net.hub.command(t, fmt.Sprintf("link set lo up\nlink add bridge type bridge\naddress add %s dev bridge\nlink set bridge up\n",
		net.address(hubHost)+"/24"), "ip", "-batch", "-")
	networks.Store(net.prefix, net.hub)
	t.Cleanup(func() { networks.Delete(net.prefix) })
	for i := range n {
		net.add(fmt.Sprintf("n%d", i+1))
	}
	for _, node := range net.nodes {
		node.boot()
	}
	t.Cleanup(net.stop)
	net.waitWhole()
	return net
}

func (n *network) address(host int) string { return n.prefix + strconv.Itoa(host) }

// add makes the namespace of one more node and does not start it.
func (n *network) add(name string) {
	n.t.Helper()
	node := &netNode{
		node:    &node{t: n.t, name: name},
		network: n,
		space:   newNamespace(n.t, fmt.Sprintf("%d-%s", n.number, name)),
		dir:     n.t.TempDir(),
	}
	n.nodes = append(n.nodes, node)
	n.hub.command(n.t, fmt.Sprintf("link add %s type veth peer name eth0 netns %s\nlink set %s master bridge up\n", name, node.space.name, name), "ip", "-batch", "-")
	node.space.command(n.t, "link set lo up\nlink set eth0 up\n", "ip", "-batch", "-")
	node.move(len(n.nodes))
	// Faults are rules in the chain gossip. They drop on arrival, as a network would: a rule for what leaves would
	// give the sender an error.
	node.space.command(n.t, `table inet faults {
		chain gossip { }
		chain arrival {
			type filter hook input priority 0;
			meta l4proto { tcp, udp } th dport `+gossipPort+` jump gossip
			meta l4proto { tcp, udp } th sport `+gossipPort+` jump gossip
		}
	}`, "nft", "-f", "-")
}

// move gives a node that does not run another address.
func (n *netNode) move(host int) {
	n.t.Helper()
	n.host = host
	address := n.network.address(host)
	n.space.command(n.t, "address flush dev eth0\naddress add "+address+"/24 dev eth0\n", "ip", "-batch", "-")
	n.api, n.admin, n.app, n.gossip = address+":7070", address+":7071", address+":7072", address+":"+gossipPort
}

// boot starts the node's process.
func (n *netNode) boot() {
	n.t.Helper()
	n.boots++
	n.expectedToDie = false
	n.log = filepath.Join(n.dir, fmt.Sprintf("%s.%d.log", n.name, n.boots))
	var seeds []string
	for _, other := range n.network.nodes {
		seeds = append(seeds, other.gossip)
	}
	flags := append([]string{"--insecure"}, n.network.flags...)
	err := n.space.do(func() error {
		n.start(strings.Join(seeds, ","), n.network.store, flags...)
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

// drain ends the process as an operator would, and demands that it ends well.
func (n *netNode) drain() {
	n.t.Helper()
	if err := n.process.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	select {
	case <-n.ended:
	case <-time.After(patience):
		n.t.Fatalf("%s did not end within %s of SIGTERM", n.name, patience)
	}
	if n.exit != nil {
		n.t.Errorf("%s ended with %v", n.name, n.exit)
	}
}

func (n *netNode) freeze() { n.signal(syscall.SIGSTOP) }
func (n *netNode) thaw()   { n.signal(syscall.SIGCONT) }

func (n *netNode) signal(signal syscall.Signal) {
	n.t.Helper()
	if err := n.process.Process.Signal(signal); err != nil {
		n.t.Fatal(err)
	}
}

func (n *network) stop() {
	var all nodes
	for _, node := range n.nodes {
		_ = node.process.Process.Signal(syscall.SIGCONT) // one that is frozen could not end
		all = append(all, node.node)
	}
	all.stop()
}

// whole says what is missing until every node is ready, sees exactly all as ready members at their addresses, and
// has heard them.
func (n *network) whole() error {
	want := map[string]string{}
	for _, node := range n.nodes {
		want[node.name] = node.gossip
	}
	for _, node := range n.nodes {
		var cluster struct {
			Ready   bool
			Members []struct{ Name, State, Address string }
		}
		if err := getJSON("http://"+node.admin+"/v1/cluster", &cluster); err != nil {
			return err
		}
		right := len(cluster.Members) == len(want) && cluster.Ready
		for _, m := range cluster.Members {
			right = right && m.State == "ready" && want[m.Name] == m.Address
		}
		if !right {
			return fmt.Errorf("%s sees %+v, ready %v", node.name, cluster.Members, cluster.Ready)
		}
		if trusted, err := node.trusts(); err != nil || !trusted {
			return fmt.Errorf("%s has not heard all members: %v", node.name, err)
		}
	}
	return nil
}

// waitWhole waits until the cluster is whole and returns how long that took.
func (n *network) waitWhole() time.Duration {
	n.t.Helper()
	begin := time.Now()
	eventually(n.t, func() error { return n.whole() })
	return time.Since(begin)
}

// trusts reports whether the node serves copies without a look at the store.
func (n *netNode) trusts() (bool, error) {
	value, err := n.gauge("klatch_bus_trusted")
	return value == 1, err
}

// waitDistrust waits until the nodes check every read, and returns how long the last of them took.
func waitDistrust(t *testing.T, all ...*netNode) time.Duration {
	t.Helper()
	begin := time.Now()
	for _, n := range all {
		eventually(t, func() error {
			if trusted, err := n.trusts(); err != nil || trusted {
				return fmt.Errorf("%s goes on trusting: %v", n.name, err)
			}
			return nil
		})
	}
	return time.Since(begin)
}

// gauge returns a metric without labels.
func (n *netNode) gauge(name string) (value float64, err error) {
	for line := range strings.SplitSeq(n.metrics(), "\n") {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(text, 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", n.name, name)
}

// Faults. Each lasts until heal.

// rule makes the node drop what arrives of gossip and matches.
func (n *netNode) rule(match string) {
	n.t.Helper()
	n.space.command(n.t, "add rule inet faults gossip "+match+" counter drop\n", "nft", "-f", "-")
}

// cut lets nothing from one node arrive at the other.
func cut(from, to *netNode) { to.rule("ip saddr " + from.network.address(from.host)) }

// split lets nothing through between the two sides.
func split(a, b []*netNode) {
	for _, x := range a {
		for _, y := range b {
			cut(x, y)
			cut(y, x)
		}
	}
}

// lose drops so many in a hundred packets of all nodes.
func (n *network) lose(percent int) {
	for _, node := range n.nodes {
		node.rule(fmt.Sprintf("numgen random mod 100 < %d", percent))
	}
}

// blockDatagrams lets through TCP alone.
func (n *network) blockDatagrams() {
	for _, node := range n.nodes {
		node.rule("meta l4proto udp")
	}
}

var droppedPackets = regexp.MustCompile(`counter packets (\d+)`)

// heal ends all faults and returns how many packets they have dropped. None would mean that nothing was tried.
func (n *network) heal() (dropped int) {
	n.t.Helper()
	for _, node := range n.nodes {
		for _, match := range droppedPackets.FindAllStringSubmatch(node.space.command(n.t, "", "nft", "list", "chain", "inet", "faults", "gossip"), -1) {
			count, _ := strconv.Atoi(match[1]) // digits
			dropped += count
		}
		node.space.command(n.t, "", "nft", "flush", "chain", "inet", "faults", "gossip")
	}
	if dropped == 0 {
		n.t.Error("the faults have hit nothing")
	}
	return dropped
}

// balance starts an HAProxy beside the clients, with the configuration that klatch ships.
func (n *network) balance() haproxy {
	n.t.Helper()
	balancer := haproxy{sticky: n.address(hubHost) + ":8001", nonsticky: n.address(hubHost) + ":8002"}
	var env []string
	for i, node := range n.nodes {
		env = append(env, fmt.Sprintf("NODE%d=%s", i+1, node.app))
	}
	balancer.run(n.t, func(process *exec.Cmd) error { return n.hub.do(process.Start) }, env...)
	return balancer
}

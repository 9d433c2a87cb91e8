package cluster

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"klatch/proto"
)

// Member is one node of the cluster as this node sees it.
type Member struct {
	Name    string
	Address string // of the bus, IP:port
	Meta    proto.NodeMeta
	Self    bool
	Alive   bool // false: it vanished, and is still being looked for
}

// StateName returns the member's state as operators see it: that of its meta, or "vanished".
func (m Member) StateName() string {
	if !m.Alive {
		return "vanished"
	}
	return m.Meta.State.String()
}

const (
	// forgetAfter is how long a vanished member is looked for.
	forgetAfter = 24 * time.Hour
	// maxVanished bounds how many are.
	maxVanished = 64
)

// roster is who is there and who vanished. It keeps its own copies, because memberlist goes on writing to
// the nodes that its Members returns.
type roster struct {
	self string
	now  func() time.Time

	peers atomic.Pointer[[]*memberlist.Node] // the live ones without self; never changed, only replaced

	mu       sync.Mutex // guards all below
	alive    map[string]*memberlist.Node
	vanished map[string]vanished
}

type vanished struct {
	node *memberlist.Node
	at   time.Time
}

func newRoster(self string, now func() time.Time) *roster {
	r := &roster{self: self, now: now, alive: map[string]*memberlist.Node{}, vanished: map[string]vanished{}}
	r.peers.Store(&[]*memberlist.Node{})
	return r
}

// live returns the peers that are sent to. The slice is shared and must not be changed.
func (r *roster) live() []*memberlist.Node { return *r.peers.Load() }

func (r *roster) put(node *memberlist.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alive[node.Name] = node
	delete(r.vanished, node.Name)
	r.republish()
}

func (r *roster) remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	node, ok := r.alive[name]
	if !ok {
		return
	}
	delete(r.alive, name)
	r.vanished[name] = vanished{node, r.now()}
	r.prune()
	r.republish()
}

// forget ends the search for a member that left on purpose.
func (r *roster) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.vanished, name)
}

func (r *roster) republish() {
	peers := make([]*memberlist.Node, 0, len(r.alive))
	for _, node := range r.alive {
		if node.Name != r.self {
			peers = append(peers, node)
		}
	}
	r.peers.Store(&peers)
}

func (r *roster) prune() {
	var oldest string
	for name, v := range r.vanished {
		if r.now().Sub(v.at) > forgetAfter {
			delete(r.vanished, name)
		} else if oldest == "" || v.at.Before(r.vanished[oldest].at) {
			oldest = name
		}
	}
	if len(r.vanished) > maxVanished {
		delete(r.vanished, oldest)
	}
}

// lost returns the addresses of the members that vanished.
func (r *roster) lost() []netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune()
	addrs := make([]netip.AddrPort, 0, len(r.vanished))
	for _, v := range r.vanished {
		addrs = append(addrs, addrPort(v.node))
	}
	return addrs
}

// has reports whether a live member, or this node, has the address.
func (r *roster) has(addr netip.AddrPort) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, node := range r.alive {
		if addrPort(node) == addr {
			return true
		}
	}
	return false
}

// members returns all members by name.
func (r *roster) members() []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	members := make([]Member, 0, len(r.alive)+len(r.vanished))
	for _, node := range r.alive {
		members = append(members, r.member(node, true))
	}
	for _, v := range r.vanished {
		members = append(members, r.member(v.node, false))
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return members
}

func (r *roster) member(node *memberlist.Node, alive bool) Member {
	// A meta that this release cannot read is left empty; it does not make the member less of one.
	meta, _ := proto.DecodeNodeMeta(node.Meta)
	return Member{Name: node.Name, Address: addrPort(node).String(), Meta: meta, Self: node.Name == r.self, Alive: alive}
}

func addrPort(node *memberlist.Node) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(node.Addr)
	return netip.AddrPortFrom(addr.Unmap(), node.Port)
}

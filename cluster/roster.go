package cluster

import (
	"cmp"
	"fmt"
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

// peer is one boot of a node. It never changes.
type peer struct {
	node   *memberlist.Node
	origin proto.Origin
	meta   proto.NodeMeta
}

// newPeer copies a node, because memberlist goes on writing to those that it hands out.
func newPeer(node *memberlist.Node) (*peer, bool) {
	origin, ok := parseBootName(node.Name)
	if !ok {
		return nil, false
	}
	known := *node
	// A meta that this release cannot read is left empty; it does not make the member less of one.
	meta, _ := proto.DecodeNodeMeta(node.Meta)
	return &peer{node: &known, origin: origin, meta: meta}, true
}

func (p *peer) address() netip.AddrPort {
	addr, _ := netip.AddrFromSlice(p.node.Addr)
	return netip.AddrPortFrom(addr.Unmap(), p.node.Port)
}

// laterThan orders the boots of one name.
func (p *peer) laterThan(other *peer) bool {
	return cmp.Or(cmp.Compare(p.meta.Started, other.meta.Started), cmp.Compare(p.origin.Boot, other.origin.Boot)) > 0
}

// roster is who is there and who vanished. memberlist knows each boot of a node under a name of its own; of two
// boots the later is the member, and the earlier is dead or about to be found so.
type roster struct {
	self proto.Origin
	now  func() time.Time

	peers atomic.Pointer[[]*peer] // the live ones without self; never changed, only replaced

	mu       sync.Mutex // guards all below
	alive    map[proto.Origin]*peer
	vanished map[string]vanished // by node
}

type vanished struct {
	peer *peer
	at   time.Time
}

func newRoster(self proto.Origin, now func() time.Time) *roster {
	r := &roster{self: self, now: now, alive: map[proto.Origin]*peer{}, vanished: map[string]vanished{}}
	r.peers.Store(&[]*peer{})
	return r
}

// live returns the peers that are sent to. The slice is shared and must not be changed.
func (r *roster) live() []*peer { return *r.peers.Load() }

// find returns the live peer of an origin, or nil.
func (r *roster) find(origin proto.Origin) *peer {
	for _, p := range r.live() {
		if p.origin == origin {
			return p
		}
	}
	return nil
}

// named returns the live peer of a name, or nil.
func (r *roster) named(name string) *peer {
	for _, p := range r.live() {
		if p.origin.Node == name {
			return p
		}
	}
	return nil
}

// put notes a live node and returns the boot of the same name that it puts an end to, if any: an earlier one, or
// itself if a later one is there.
func (r *roster) put(p *peer) (replaced *peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.alive {
		if other.origin.Node == p.origin.Node && other.origin != p.origin {
			replaced = other
			if other.laterThan(p) {
				replaced = p
			}
		}
	}
	r.alive[p.origin] = p
	delete(r.vanished, p.origin.Node)
	r.republish()
	return replaced
}

// remove notes that a boot is gone.
func (r *roster) remove(origin proto.Origin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.alive[origin]
	if !ok {
		return
	}
	delete(r.alive, origin)
	if origin.Node != r.self.Node && r.latest()[origin.Node] == nil {
		r.vanished[origin.Node] = vanished{p, r.now()}
	}
	r.prune()
	r.republish()
}

// forget ends the search for a member that left on purpose.
func (r *roster) forget(origin proto.Origin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.vanished[origin.Node]; ok && v.peer.origin == origin {
		delete(r.vanished, origin.Node)
	}
}

// forgetVanished ends the search for a member that is gone for good.
func (r *roster) forgetVanished(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == r.self.Node || r.latest()[name] != nil {
		return fmt.Errorf("%w: %s is alive; klatch leave ends it", ErrAlive, name)
	}
	delete(r.vanished, name)
	return nil
}

// latest returns the latest live boot of each name.
func (r *roster) latest() map[string]*peer {
	latest := make(map[string]*peer, len(r.alive))
	for _, p := range r.alive {
		if other := latest[p.origin.Node]; other == nil || p.laterThan(other) {
			latest[p.origin.Node] = p
		}
	}
	return latest
}

func (r *roster) republish() {
	latest := r.latest()
	delete(latest, r.self.Node)
	peers := make([]*peer, 0, len(latest))
	for _, p := range latest {
		peers = append(peers, p)
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
		addrs = append(addrs, v.peer.address())
	}
	return addrs
}

// has reports whether a live member, or this node, has the address.
func (r *roster) has(addr netip.AddrPort) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.alive {
		if p.address() == addr {
			return true
		}
	}
	return false
}

// members returns all members by name.
func (r *roster) members() []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	latest := r.latest()
	if own := r.alive[r.self]; own != nil {
		latest[r.self.Node] = own // also while another claims the name
	}
	members := make([]Member, 0, len(latest)+len(r.vanished))
	for _, p := range latest {
		members = append(members, r.member(p, true))
	}
	for _, v := range r.vanished {
		members = append(members, r.member(v.peer, false))
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return members
}

func (r *roster) member(p *peer, alive bool) Member {
	return Member{Name: p.origin.Node, Address: p.address().String(), Meta: p.meta, Self: p.origin == r.self, Alive: alive}
}

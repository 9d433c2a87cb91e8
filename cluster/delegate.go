package cluster

import (
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"klatch/proto"
)

// The versions of what the delegates exchange. memberlist refuses to merge nodes whose ranges do not meet.
const (
	delegateProtocolMin = 2
	delegateProtocolMax = 2
)

// maxStateItems bounds the items that go with a full exchange.
const maxStateItems = 1024

// delegate is what memberlist calls. Most calls come with memberlist's locks held, so they only copy and
// enqueue, and never call memberlist.
type delegate struct {
	self     proto.Origin
	now      func() time.Time
	ring     *ring
	origins  *origins
	links    *links
	roster   *roster
	sender   *sender
	receiver *receiver
	recent   func() []proto.Item

	mu   sync.Mutex // guards meta
	meta proto.NodeMeta
}

var (
	_ memberlist.Delegate      = (*delegate)(nil)
	_ memberlist.EventDelegate = (*delegate)(nil)
	_ memberlist.AliveDelegate = (*delegate)(nil)
)

// setState reports whether the state is another one than before.
func (d *delegate) setState(state proto.NodeState) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed := d.meta.State != state
	d.meta.State = state
	return changed
}

// NodeMeta implements memberlist.Delegate.
func (d *delegate) NodeMeta(int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meta.Encode()
}

// NotifyMsg implements memberlist.Delegate.
func (d *delegate) NotifyMsg(p []byte) { d.receiver.message(p) }

// GetBroadcasts implements memberlist.Delegate. News does not travel by gossip.
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate: how far the own numbers have come, then what has arrived of others,
// and the news that must reach everybody.
func (d *delegate) LocalState(bool) []byte {
	// The points are read before the items: whoever gets both has everything that the points speak of.
	own := proto.Point{Origin: d.self, Last: d.ring.number()}
	points := append([]proto.Point{own}, d.origins.points()...)
	var items []proto.Item
	if d.recent != nil {
		items = d.recent()
		items = items[:min(len(items), maxStateItems)]
	}
	return proto.EncodeMessage(proto.State{Points: points, Items: items})
}

// MergeRemoteState implements memberlist.Delegate.
func (d *delegate) MergeRemoteState(p []byte, _ bool) { d.receiver.message(p) }

// NotifyAlive implements memberlist.AliveDelegate: strangers are kept out.
func (d *delegate) NotifyAlive(node *memberlist.Node) error {
	if _, ok := parseBootName(node.Name); !ok {
		return errStranger
	}
	return nil
}

// NotifyJoin implements memberlist.EventDelegate.
func (d *delegate) NotifyJoin(node *memberlist.Node) {
	p, ok := newPeer(node)
	if !ok {
		return
	}
	if p.origin.Node != d.self.Node {
		d.links.join(p.origin, d.now())
	}
	if replaced := d.roster.put(p); replaced != nil {
		d.receiver.enqueue(arrival{gone: &replaced.origin})
	}
	d.sender.mark(p.origin, proto.ReplyDatagram)
}

// NotifyUpdate implements memberlist.EventDelegate.
func (d *delegate) NotifyUpdate(node *memberlist.Node) {
	if p, ok := newPeer(node); ok {
		d.roster.put(p)
	}
}

// NotifyLeave implements memberlist.EventDelegate. It does not tell whether the member left or died; the
// farewell does.
func (d *delegate) NotifyLeave(node *memberlist.Node) {
	origin, ok := parseBootName(node.Name)
	if !ok || origin == d.self {
		return
	}
	d.roster.remove(origin)
	d.receiver.enqueue(arrival{gone: &origin})
}

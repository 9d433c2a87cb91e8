package cluster

import (
	"sync"

	"github.com/hashicorp/memberlist"

	"klatch/proto"
)

// The versions of what the delegates exchange. memberlist refuses to merge nodes whose ranges do not meet.
const (
	delegateProtocolMin = 1
	delegateProtocolMax = 1
)

// delegate is what memberlist calls. Most calls come with memberlist's locks held, so they only copy and
// enqueue, and never call memberlist.
type delegate struct {
	sender   *sender
	receiver *receiver
	roster   *roster
	self     proto.Origin

	mu   sync.Mutex // guards meta
	meta proto.NodeMeta
}

var (
	_ memberlist.Delegate         = (*delegate)(nil)
	_ memberlist.EventDelegate    = (*delegate)(nil)
	_ memberlist.ConflictDelegate = (*delegate)(nil)
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

// LocalState implements memberlist.Delegate: the own mark, then what has arrived of others.
func (d *delegate) LocalState(bool) []byte {
	own := proto.Mark{Origin: d.self, Last: d.sender.last.Load()}
	return proto.EncodeMessage(proto.State{Marks: append([]proto.Mark{own}, d.receiver.origins.marks()...)})
}

// MergeRemoteState implements memberlist.Delegate.
func (d *delegate) MergeRemoteState(p []byte, _ bool) { d.receiver.message(p) }

// NotifyJoin implements memberlist.EventDelegate.
func (d *delegate) NotifyJoin(node *memberlist.Node) {
	known := *node
	d.roster.put(&known)
	if node.Name != d.self.Node {
		d.sender.greet(&known)
	}
}

// NotifyUpdate implements memberlist.EventDelegate.
func (d *delegate) NotifyUpdate(node *memberlist.Node) {
	known := *node
	d.roster.put(&known)
}

// NotifyLeave implements memberlist.EventDelegate. It does not tell whether the member left or died; the
// farewell does.
func (d *delegate) NotifyLeave(node *memberlist.Node) {
	if node.Name == d.self.Node {
		return
	}
	d.roster.remove(node.Name)
	d.receiver.enqueue(arrival{gone: node.Name})
}

// NotifyConflict implements memberlist.ConflictDelegate.
func (d *delegate) NotifyConflict(existing, other *memberlist.Node) {
	d.receiver.enqueue(arrival{clash: &clash{existing.Name, existing.Address(), other.Address()}})
}

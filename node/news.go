package node

import (
	"context"
	"sync/atomic"
	"time"

	"klatch/cluster"
	"klatch/proto"
	"klatch/session"
	"klatch/stamps"
)

// news carries what this node publishes to the cluster. The sessions need it before the cluster, which needs
// the sessions, is there; until then there is nobody to tell.
type news struct {
	cluster atomic.Pointer[cluster.Cluster]
}

// Publish implements near.Publisher.
func (n *news) Publish(items ...proto.Item) {
	if c := n.cluster.Load(); c != nil {
		c.Publish(items...)
	}
}

// Confirm implements near.Publisher.
func (n *news) Confirm(ctx context.Context, items ...proto.Item) (unconfirmed []string) {
	if c := n.cluster.Load(); c != nil {
		return c.Confirm(ctx, items...)
	}
	return nil
}

// Trusted reports whether copies may be used without a look at the store.
func (n *news) Trusted(now time.Time) bool {
	c := n.cluster.Load()
	return !gossip || c != nil && c.Trusted(now)
}

// receiver takes what peers publish.
type receiver struct {
	sessions *session.Manager
	stamps   *stamps.Register
}

var _ cluster.Handler = receiver{}

// Apply implements cluster.Handler.
func (r receiver) Apply(_ string, item proto.Item) {
	r.sessions.Apply(item)
	r.stamps.Apply(item)
}

// Fence implements cluster.Handler.
func (r receiver) Fence(string) {
	r.sessions.Fence()
	r.stamps.Fence()
}

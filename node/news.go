package node

import (
	"sync/atomic"

	"klatch/cluster"
	"klatch/proto"
	"klatch/session"
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

// receiver takes what peers publish.
type receiver struct{ sessions *session.Manager }

var _ cluster.Handler = receiver{}

// Apply implements cluster.Handler.
func (r receiver) Apply(_ string, item proto.Item) { r.sessions.Apply(item) }

// Fence implements cluster.Handler.
func (r receiver) Fence(string) { r.sessions.Fence() }

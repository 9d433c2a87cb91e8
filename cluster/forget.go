package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// forgetMethod is the request to forget the member that its body names.
const forgetMethod = "cluster/forget"

// Forget makes all members forget one that vanished and is gone for good, so that none looks for it any more and
// nothing waits for its return. To forget a name that nobody knows is no error. It fails with ErrAlive if a member
// hears the node.
func (c *Cluster) Forget(ctx context.Context, name string) error {
	if slices.ContainsFunc(c.Members(), func(m Member) bool { return m.Name == name && m.Alive }) {
		return fmt.Errorf("%w: %s", ErrAlive, name)
	}
	var failed error
	for _, r := range c.AskAll(ctx, forgetMethod, []byte(name)) {
		failed = errors.Join(failed, r.Err)
	}
	return failed
}

// Unseen returns the nodes that belong to the cluster and are not heard, by name: members that vanished within a day
// and were not forgotten, and nodes that the store knows to be alive.
func (c *Cluster) Unseen() []string {
	names := c.links.unheardNames()
	for _, m := range c.Members() {
		if !m.Alive {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Package node is the composition root: it turns a [Config] into a running [Node]. It opens the store, starts
// the sessions, the cluster and the listeners in this order, and ends them in the other.
package node

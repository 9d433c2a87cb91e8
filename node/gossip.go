//go:build !nogossip

package node

// gossip says that changes are told to other nodes.
const gossip = true

// Package keyring rotates the gossip keys of a whole cluster while it runs.
//
// A new key is installed on all nodes, then all encrypt by it, then the old one is removed. A step that would shut a
// node out, now or after its next start, is refused with the name of that node. All steps go through one node, the
// first by name, so that two operators cannot cross each other.
package keyring

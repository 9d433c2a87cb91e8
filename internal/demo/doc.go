// Package demo runs a real cluster on this machine: node processes on one SQLite file, a sticky and a non-sticky
// balancer before them, and a control port by which nodes are added and killed. It is what klatch demo starts.
//
// [Run] is the whole of it; [Client] steers it from a second terminal; [WatchParent] is for the node processes,
// which end with the demo, whatever ended that.
package demo

// Package netsim is a network in memory for memberlist, with faults on demand.
//
// A [Network] carries packets and streams between the [Transport] values that it gives out, one for each
// address. A transport is handed to memberlist, or to the cluster in its options, instead of sockets:
//
//	network := netsim.New(netsim.Options{Seed: 1, Conditions: netsim.Conditions{Delay: time.Millisecond}})
//	defer network.Close()
//	transport, err := network.Transport(netsim.Addr(1))
//
// # Faults
//
// [Conditions] say what a direction of a link does to what passes: it loses, repeats, delays, and reorders
// by delaying unequally. Cuts, partitions, frozen and crashed nodes come on top of them, and are ended
// without touching them. Whatever has been sent but has not arrived when a cut begins does not arrive.
//
// Packets that do not get through vanish, and the sender does not learn of it. Streams behave as TCP does:
// what does not get through is sent again, less and less often, so a stream outlives a short cut and in a
// long one runs into its deadlines; a dial to an address that nothing listens at is refused.
//
// # Time
//
// All waiting is on channels and timers, so in a testing/synctest bubble the network runs on the bubble's
// time. A network belongs to the bubble in which it was made, and must be closed before that ends. So must
// the nodes on it; memberlist's Shutdown does not wait for its own goroutines, so sleep for a virtual minute
// after the last one is down:
//
//	synctest.Test(t, func(t *testing.T) {
//		network := netsim.New(netsim.Options{Seed: seed})
//		... start, act, assert, close the nodes
//		network.Close()
//		time.Sleep(time.Minute)
//	})
//
// # Replay
//
// Every direction of every link has a generator of its own, made from the seed and the two addresses, and
// takes the same number of draws for each packet, whatever the conditions. So the fate of the n-th packet
// from a to b depends on the seed alone, not on what other nodes send in between, and things due at one
// moment come in an order that the seed decides. What the network cannot decide is the order in which the
// nodes' goroutines run, and memberlist's choices: it draws from the global generator of math/rand, which
// GODEBUG=randautoseed=0 makes the same in every run.
package netsim

// Package cluster knows who the nodes are and carries their news: membership and bus.
//
// # Membership
//
// memberlist finds the members and notices when they die. A node begins as a working cluster of one; its
// seeds are resolved and joined again for ever, and so are members that vanished lately, because memberlist
// by itself never heals a split that lasted longer than half a minute.
//
// # Bus
//
// News is packed into batches and sent as one datagram to every live member at once. It does not use
// memberlist's broadcast queue, which waits for the gossip tick and is not passed on. The first item leaves
// at once; what arrives while a send is under way leaves together.
//
// Items are idempotent and commute, so they are applied on arrival, whatever the order. Only loss is looked
// for. The batches of an origin, which is one boot of one node, are numbered without a gap. A number is
// used up by everything that was to be told, also if it could not be sent: because the queue was full, or
// because there was nobody to send to yet. Whoever has not received a number that others have, or that its
// origin says it gave out, has missed news.
//
// # Fence
//
// A node that may have missed news tells its [Handler] to raise the fence: copies that were read from the
// store before this moment must be checked before their next use. This is enough, because news is published
// after its commit: whatever was missed had been committed before the fence. One fence therefore settles
// every number known so far, of every origin.
//
// Correctness never rests on the bus; the store decides, and gossip informs.
package cluster

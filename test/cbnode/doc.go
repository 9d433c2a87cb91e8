// Package cbnode is a Couchbase node for tests: one bucket, in memory, on loopback, over the real protocol.
//
// It speaks what the Couchbase client gocb asks of a node that holds documents, and it misbehaves on
// demand: it freezes, goes away and comes back on its ports with its data, and a Hook decides the fate of
// every single request. A test starts one like this:
//
//	node, err := cbnode.Start(cbnode.Options{})
//	if err != nil {
//		t.Fatal(err)
//	}
//	t.Cleanup(node.Close)
//	cluster, err := gocb.Connect(node.ConnectionString(), …)
//
// # What it is faithful to
//
// Status codes, the limits of keys and values, the rules of CAS, of expiry and of locks are those of
// Couchbase Server 7. Where the server has a choice, the node takes the one that is harder on a client:
// every touch gives a new CAS, and whoever is told to wait for an answer may wait for ever.
//
// # What it leaves out
//
// There is one node, so there are no replicas, no fail-over and no rebalance, and every durable write is
// durable at once. There is no TLS, no compression, no range scan, no query, no counter, no append, and of
// sub-documents only what reading a document with its expiry needs. A collection exists for the clients as
// soon as it is created, where a real cluster takes a moment to tell all its nodes.
package cbnode

package cbnode_test

import (
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"klatch/test/cbnode"
)

// BenchmarkGet says what the node and the client cost together, which bounds what a benchmark of the driver
// on this node can say about the driver.
func BenchmarkGet(b *testing.B) {
	node, err := cbnode.Start(cbnode.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer node.Close()
	cluster, err := gocb.Connect(node.ConnectionString(), gocb.ClusterOptions{Username: "Administrator", Password: "password"})
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close(nil)
	bucket := cluster.Bucket("default")
	if err := bucket.WaitUntilReady(patience, &gocb.WaitUntilReadyOptions{ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeKeyValue}}); err != nil {
		b.Fatal(err)
	}
	c := bucket.DefaultCollection()
	if _, err := c.Insert("k", make([]byte, 1<<10), &gocb.InsertOptions{Transcoder: raw, Timeout: time.Second}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Get("k", &gocb.GetOptions{Transcoder: raw}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

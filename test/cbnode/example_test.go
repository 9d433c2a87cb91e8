package cbnode_test

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/couchbase/gocb/v2"

	"klatch/test/cbnode"
)

// A node applies a write and loses its answer.
func Example() {
	node, err := cbnode.Start(cbnode.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	cluster, err := gocb.Connect(node.ConnectionString(), gocb.ClusterOptions{Username: "Administrator", Password: "password"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close(nil)
	bucket := cluster.Bucket("default")
	if err := bucket.WaitUntilReady(10*time.Second, &gocb.WaitUntilReadyOptions{ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeKeyValue}}); err != nil {
		fmt.Println(err)
		return
	}

	node.SetHook(cbnode.OnWrites(cbnode.Always(cbnode.Action{Fault: cbnode.CloseAfter})))
	_, err = bucket.DefaultCollection().Insert("k", "v", nil)
	fmt.Println(errors.Is(err, io.EOF), node.Documents())
	// Output: true 1
}

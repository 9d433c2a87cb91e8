package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"klatch/cluster"
	"klatch/proto"
)

// printer shows what a near cache would act on.
type printer struct{}

func (printer) Apply(from string, item proto.Item) {
	fmt.Println(from, "says", item.(proto.Invalidate).Key.ID, "has changed")
}
func (printer) Fence(reason string) { fmt.Println("check copies before their next use:", reason) }

func ExampleStart() {
	ctx := context.Background()
	node, err := cluster.Start(ctx, cluster.Options{
		Name:    "node-1",
		Boot:    1 + rand.Uint64N(1<<63),
		Bind:    "127.0.0.1:0",
		Handler: printer{},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// After a commit:
	node.Publish(proto.Invalidate{Key: proto.NewKey("shop", proto.KindSession, "basket"), Version: 17})

	for _, m := range node.Members() {
		fmt.Println(m.Name, m.Meta.State, m.Self)
	}
	if err := node.Leave(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: node-1 joining true
}

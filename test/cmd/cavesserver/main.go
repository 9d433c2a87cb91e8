// Command cavesserver runs gocaves, somebody else's Couchbase for tests, as the cross-check of our own node.
//
// It is a process of its own because gocaves has data races. It listens on ports of its choice on all
// interfaces and keeps a history of all that happens, so it is for short tests only.
//
// The first line of its output is the URL that klatch takes as its store. The user is Administrator and the
// password is password. It runs until SIGTERM, SIGINT or the end of its standard input.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/couchbaselabs/gocaves/mock/mockimpl"
)

func main() {
	log.SetOutput(io.Discard) // gocaves logs every packet
	cluster, err := mockimpl.NewDefaultCluster()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cavesserver:", err)
		os.Exit(1)
	}
	fmt.Println(cluster.ConnectionString() + "/default")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	<-ctx.Done()
}

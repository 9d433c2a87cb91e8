// Command cbserver runs a Couchbase node for tests as a process, so that several klatch nodes can share it.
//
// The first line of its output is the URL that klatch takes as its store. The user is Administrator and the
// password is password. It runs until SIGTERM or SIGINT, with the documents in memory.
//
// Lines on its standard input, or in the bodies of HTTP requests to the port of -admin, make it misbehave:
// see the command help. The end of the input changes nothing.
//
// A script that must stop it builds it and starts the binary itself: go run does not pass SIGTERM on.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"klatch/test/cbnode"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cbserver:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, arguments []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("cbserver", flag.ContinueOnError)
	kv := flags.Int("kv", 11210, "`port` of the documents; 0 means a free one")
	mgmt := flags.Int("mgmt", 8091, "`port` of the REST API; 0 means a free one")
	bucket := flags.String("bucket", "default", "`name` of the bucket")
	admin := flags.Int("admin", -1, "`port` that takes commands by HTTP; 0 means a free one, -1 none")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	node, err := cbnode.Start(cbnode.Options{KVPort: *kv, MgmtPort: *mgmt, Bucket: *bucket})
	if err != nil {
		return err
	}
	defer node.Close()
	fmt.Fprintln(out, node.URL())

	c := &console{node: node}
	if *admin >= 0 {
		server, address, err := c.listen(*admin)
		if err != nil {
			return err
		}
		defer server.Close()
		fmt.Fprintf(out, "admin http://%s\n", address)
	}
	// Reading the input cannot be interrupted: this goroutine ends with the process.
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if line := strings.TrimSpace(lines.Text()); line != "" {
				fmt.Fprintln(out, c.answer(line))
			}
		}
	}()
	<-ctx.Done()
	return nil
}

// listen serves commands by HTTP on loopback.
func (c *console) listen(port int) (*http.Server, net.Addr, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<10))
		if err != nil || r.Method != http.MethodPost {
			http.Error(w, "POST a command, for example help", http.StatusBadRequest)
			return
		}
		answer := c.answer(strings.TrimSpace(string(line)))
		if strings.HasPrefix(answer, "error:") {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprintln(w, answer)
	})}
	go func() { _ = server.Serve(listener) }() // ends with server.Close
	return server, listener.Addr(), nil
}

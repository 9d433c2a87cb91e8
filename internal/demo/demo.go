package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// ErrOptions is what every refusal of options wraps.
var ErrOptions = errors.New("demo options")

// Options configure [Run].
type Options struct {
	Nodes    int    // how many to start with, 1 to 64
	Dir      string // where the store and the logs go, kept afterwards; empty: a temporary one, removed at the end
	BasePort int    // control; +1 sticky, +2 non-sticky, +10i node i; zero: DefaultBasePort
	JSON     bool   // print one JSON line instead of a text for people
	Binary   string // the klatch executable; empty: this process's own

	Stdout io.Writer // the addresses, and in a text for people what happens later; nil: nothing
	Stderr io.Writer // with JSON, what happens later; nil: this process's own

	ReadyWait time.Duration // how long a node may take until it is ready; zero: 30 s
	// StopWait is how long a node may take to drain until it is killed; zero: 15 s, which is longer than a
	// node's own bounds.
	StopWait time.Duration
}

func (o Options) withDefaults() (Options, error) {
	if o.BasePort == 0 {
		o.BasePort = DefaultBasePort
	}
	if o.Nodes < 1 || o.Nodes > maxNodes {
		return o, fmt.Errorf("%w: --nodes %d: use 1 to %d", ErrOptions, o.Nodes, maxNodes)
	}
	if most := 65535 - 10*maxNodes - 3; o.BasePort < 1 || o.BasePort > most {
		return o, fmt.Errorf("%w: --base-port %d: use 1024 to %d, since node i takes the ports from +10i to +10i+3", ErrOptions, o.BasePort, most)
	}
	if o.Binary == "" {
		binary, err := os.Executable()
		if err != nil {
			return o, err
		}
		o.Binary = binary
	}
	if o.Stdout == nil {
		o.Stdout = io.Discard
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	if o.ReadyWait == 0 {
		o.ReadyWait = 30 * time.Second
	}
	if o.StopWait == 0 {
		o.StopWait = 15 * time.Second
	}
	return o, nil
}

// Run starts the cluster, says where it is, and serves until ctx ends. Then it drains all nodes and leaves
// nothing behind. It returns nil if ctx ended it and every node ended in time.
func Run(ctx context.Context, opts Options) (err error) {
	opts, err = opts.withDefaults()
	if err != nil {
		return err
	}
	sockets, err := bind(opts.BasePort)
	if err != nil {
		return err
	}
	defer closeAll(sockets) // those that no server has closed
	dir, removeDir, err := workDir(opts.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeDir()) }()
	p := newPool(checkInterval)
	defer p.close()
	out := newConsole(opts)
	nodes, err := newSupervisor(opts, dir, p, out)
	if err != nil {
		return err
	}
	if err := nodes.startFirst(ctx); err != nil {
		stopErr := nodes.stop()
		if ctx.Err() != nil {
			return stopErr // ended by hand while starting
		}
		return errors.Join(err, stopErr)
	}
	closeServers := serve(sockets, map[int]http.Handler{
		controlPort:   control(nodes),
		stickyPort:    newBalancer(p, true),
		nonstickyPort: newBalancer(p, false),
	})
	defer closeServers()
	if err = out.announce(opts, dir, nodes.nodes()); err == nil {
		<-ctx.Done()
		out.say("\nstopping: the nodes drain, which takes about four seconds\n")
	}
	return errors.Join(err, nodes.stop()) // the balancers serve on meanwhile
}

// workDir makes the demo's directory, and returns what removes it if it is a temporary one.
func workDir(dir string) (path string, remove func() error, err error) {
	if dir == "" {
		path, err = os.MkdirTemp("", "klatch-demo-")
		return path, func() error { return os.RemoveAll(path) }, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("--dir: %w", err)
	}
	return dir, func() error { return nil }, nil
}

// serve serves each handler on its socket until the returned function is called, which waits for all to end.
func serve(sockets []net.Listener, handlers map[int]http.Handler) (closeAll func()) {
	var servers []*http.Server
	var running sync.WaitGroup
	for i, handler := range handlers {
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
		servers = append(servers, server)
		running.Go(func() { _ = server.Serve(sockets[i]) }) // always ends with ErrServerClosed
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for _, server := range servers {
			running.Go(func() {
				if server.Shutdown(ctx) != nil {
					server.Close() // a client that holds its request or answer open is cut off
				}
			})
		}
		running.Wait()
	}
}

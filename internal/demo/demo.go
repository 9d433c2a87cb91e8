package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	maxNodes = 64
	// stopPatience is longer than a node's own bounds for draining.
	stopPatience = 20 * time.Second
)

// Options configure [Run].
type Options struct {
	Nodes    int    // how many to start with, 1 to 64
	Dir      string // where the store and the logs go, kept afterwards; empty for a temporary directory
	BasePort int    // control; +1 sticky, +2 non-sticky, +10i node i
	JSON     bool   // print one JSON line instead of a text for people
	Binary   string // the klatch executable
	Stdout   io.Writer
}

// demo is one running demo cluster.
type demo struct {
	opts     Options
	dir      string
	lifeline *os.File // read end of the pipe whose write end only this process holds
	pool     *pool
	pulse    *os.File // the write end
	servers  []*http.Server
	running  sync.WaitGroup // servers and the health check
	waiters  sync.WaitGroup // watchers of children

	mu       sync.Mutex // guards the rest
	children []*child
	next     int // the number of the next node
	stopping bool
	killed   map[string]bool // on purpose
}

var errNoSuchNode = errors.New("no such node runs: klatch demo nodes lists them")

// Run starts the cluster, says where it is, and serves until ctx ends. Then it drains all nodes and leaves
// nothing behind.
func Run(ctx context.Context, opts Options) (err error) {
	if opts.Nodes < 1 || opts.Nodes > maxNodes {
		return fmt.Errorf("--nodes %d: use 1 to %d", opts.Nodes, maxNodes)
	}
	if highest := opts.BasePort + 10*opts.Nodes + 3; opts.BasePort < 1 || highest > 65535 {
		return fmt.Errorf("--base-port %d: ports up to %d would be needed, use 1024 to 64000", opts.BasePort, highest)
	}
	d := &demo{opts: opts, dir: opts.Dir, pool: newPool(), next: 1, killed: map[string]bool{}}
	if d.dir == "" {
		if d.dir, err = os.MkdirTemp("", "klatch-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	} else if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	if d.lifeline, d.pulse, err = os.Pipe(); err != nil {
		return err
	}
	defer d.lifeline.Close()
	defer d.pulse.Close()
	health, endHealth := context.WithCancel(context.Background())
	defer func() { // ctx has ended, or something failed
		stopErr := d.stop()
		endHealth()
		d.running.Wait()
		d.waiters.Wait()
		d.pool.transport.CloseIdleConnections()
		err = errors.Join(err, stopErr)
	}()
	sockets, err := d.bind()
	if err != nil {
		return err
	}
	if err := d.startNodes(ctx); err != nil {
		for _, socket := range sockets {
			socket.Close()
		}
		if ctx.Err() != nil {
			return nil // ended by hand while starting
		}
		return err
	}
	d.running.Go(func() { d.pool.check(health) })
	for i, handler := range []http.Handler{d.control(), newBalancer(d.pool, true), newBalancer(d.pool, false)} {
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
		d.servers = append(d.servers, server)
		d.running.Go(func() { _ = server.Serve(sockets[i]) }) // ends with stop
	}
	if err := d.announce(); err != nil {
		return err
	}
	<-ctx.Done()
	d.say("\nstopping: the nodes drain, which takes about four seconds\n")
	return nil
}

// bind takes the demo's own ports, and finds out whether the nodes' are free, before anything is started.
func (d *demo) bind() ([]net.Listener, error) {
	var sockets []net.Listener
	fail := func(err error) ([]net.Listener, error) {
		for _, socket := range sockets {
			socket.Close()
		}
		return nil, err
	}
	for port := d.opts.BasePort; port <= d.opts.BasePort+2; port++ {
		socket, err := listen(port)
		if err != nil {
			return fail(err)
		}
		sockets = append(sockets, socket)
	}
	for number := 1; number <= d.opts.Nodes; number++ {
		for offset := range 4 {
			socket, err := listen(d.opts.BasePort + 10*number + offset)
			if err != nil {
				return fail(err)
			}
			socket.Close()
		}
	}
	return sockets, nil
}

func listen(port int) (net.Listener, error) {
	socket, err := net.Listen("tcp", loopback(port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d is in use: end what listens there (another demo?), or choose other ports by --base-port", port)
	}
	return socket, err
}

// startNodes starts the first nodes at once and waits for all of them.
func (d *demo) startNodes(ctx context.Context) error {
	var started []*child
	for range d.opts.Nodes {
		c, err := d.spawn()
		if err != nil {
			return err
		}
		started = append(started, c)
	}
	for _, c := range started {
		if err := d.admit(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// spawn starts the next node.
func (d *demo) spawn() (*child, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopping || d.next > maxNodes {
		return nil, fmt.Errorf("no more nodes: the demo is stopping, or has started %d", maxNodes)
	}
	var seeds []string
	for number := 1; number <= max(d.opts.Nodes, 3); number++ {
		seeds = append(seeds, layoutOf(d.opts.BasePort, number).gossip)
	}
	c, err := spawn(d.opts.Binary, d.dir, d.next, layoutOf(d.opts.BasePort, d.next), strings.Join(seeds, ","), d.lifeline)
	if err != nil {
		return nil, err
	}
	d.next++
	d.children = append(d.children, c)
	d.waiters.Go(func() { d.watch(c) })
	return c, nil
}

// admit puts a node before the balancers once it is ready.
func (d *demo) admit(ctx context.Context, c *child) error {
	if err := c.waitReady(ctx); err != nil {
		return err
	}
	return d.pool.add(c.info.Name, c.info.App)
}

// watch tells of a node that ended by itself, and forgets it.
func (d *demo) watch(c *child) {
	<-c.ended
	d.mu.Lock()
	d.children = slices.DeleteFunc(d.children, func(o *child) bool { return o == c })
	expected := d.stopping || d.killed[c.info.Name]
	d.mu.Unlock()
	if !expected {
		d.say("%s has ended: %v; its log is %s\n", c.info.Name, c.err, c.logPath)
	}
}

func (d *demo) add(ctx context.Context) (NodeInfo, error) {
	c, err := d.spawn()
	if err != nil {
		return NodeInfo{}, err
	}
	if err := d.admit(ctx, c); err != nil {
		return NodeInfo{}, err
	}
	d.say("%s has joined: %s\n", c.info.Name, c.info.App)
	return c.info, nil
}

func (d *demo) kill(name string) error {
	d.mu.Lock()
	i := slices.IndexFunc(d.children, func(c *child) bool { return c.info.Name == name })
	if i < 0 {
		d.mu.Unlock()
		return fmt.Errorf("%q: %w", name, errNoSuchNode)
	}
	c := d.children[i]
	d.killed[name] = true
	d.mu.Unlock()
	if err := c.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-c.ended
	d.say("%s was killed\n", name)
	return nil
}

func (d *demo) nodes() []NodeInfo {
	d.mu.Lock()
	defer d.mu.Unlock()
	infos := make([]NodeInfo, 0, len(d.children))
	for _, c := range d.children {
		infos = append(infos, c.info)
	}
	return infos
}

// stop drains all nodes at once, serving on meanwhile, and then closes the balancers.
func (d *demo) stop() error {
	d.mu.Lock()
	d.stopping = true
	children := slices.Clone(d.children)
	d.mu.Unlock()
	failures := make([]error, len(children))
	var stopping sync.WaitGroup
	for i, c := range children {
		stopping.Go(func() { failures[i] = c.stop(stopPatience) })
	}
	stopping.Wait()
	for _, server := range d.servers {
		failures = append(failures, server.Close())
	}
	return errors.Join(failures...)
}

// say prints for people; a program that reads the JSON line gets nothing else.
func (d *demo) say(format string, args ...any) {
	if !d.opts.JSON {
		fmt.Fprintf(d.opts.Stdout, format, args...)
	}
}

// announce says where everything is.
func (d *demo) announce() error {
	sticky, nonsticky := "http://"+loopback(d.opts.BasePort+1), "http://"+loopback(d.opts.BasePort+2)
	if d.opts.JSON {
		return json.NewEncoder(d.opts.Stdout).Encode(map[string]any{"sticky": sticky, "nonsticky": nonsticky, "nodes": d.nodes()})
	}
	var text strings.Builder
	fmt.Fprintf(&text, "A klatch cluster of %d nodes is up.\n\n", d.opts.Nodes)
	fmt.Fprintf(&text, "  sticky balancer      %s\n  non-sticky balancer  %s\n", sticky, nonsticky)
	for _, n := range d.nodes() {
		fmt.Fprintf(&text, "  %-4s api %s  app %s  admin %s\n", n.Name, n.API, n.App, n.Admin)
	}
	fmt.Fprintf(&text, "  logs and store       %s\n", d.dir)
	port := ""
	if d.opts.BasePort != DefaultBasePort {
		port = fmt.Sprintf(" --base-port %d", d.opts.BasePort)
	}
	klatch := d.opts.Binary
	if wd, err := os.Getwd(); err == nil {
		klatch = strings.TrimPrefix(klatch, wd+"/")
	}
	fmt.Fprintf(&text, `
Try, in another terminal:

  curl -c jar -b jar -X POST '%[1]s/app?attributes=3'          make a session
  curl -c jar -b jar -X PUT  '%[1]s/app?name=a0&value=hello'   change it: see node and version
  curl -c jar -b jar         '%[1]s/app'                       read it, on any node
  %[2]s bench sessions -b %[1]s -t 16 -ct 2 -i 5 -ci 20 -ts 5   load
  %[2]s demo kill n2%[3]s                                      a node dies, the session lives
  %[2]s demo add%[3]s                                          a node joins, live
  %[2]s members --admin http://%[4]s                 who is there

Ctrl-C ends everything.
`, nonsticky, klatch, port, layoutOf(d.opts.BasePort, 1).admin)
	_, err := io.WriteString(d.opts.Stdout, text.String())
	return err
}

// DefaultBasePort is where the demo's ports begin.
const DefaultBasePort = 8000

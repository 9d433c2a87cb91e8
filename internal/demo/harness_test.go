package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds every wait. It is generous, since machines are shared and noisy.
const patience = 30 * time.Second

// The test binary is also the node, when it is called as one, and the demo, when demoEnv is set. faultEnv makes a
// node misbehave: NAME=FAULT.
const (
	demoEnv  = "KLATCH_TEST_DEMO"
	faultEnv = "KLATCH_TEST_FAULT"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "serve":
		os.Exit(fakeNode(os.Args[2:]))
	case os.Getenv(demoEnv) != "":
		var opts Options
		err := json.Unmarshal([]byte(os.Getenv(demoEnv)), &opts)
		if err == nil {
			opts.Stdout = os.Stdout
			err = Run(context.Background(), opts)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(code) }))
}

// fakeNode honours the flags of klatch serve and answers as a node does.
func fakeNode(args []string) int {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	name := flags.String("name", "", "")
	api := flags.String("http", "", "")
	admin := flags.String("admin", "", "")
	app := flags.String("app", "", "")
	gossip := flags.String("gossip", "", "")
	join := flags.String("join", "", "")
	flags.String("store", "", "")
	_ = flags.Parse(args) // exits by itself
	fault := ""
	if who, what, _ := strings.Cut(os.Getenv(faultEnv), "="); who == *name {
		fault = what
	}
	fmt.Printf("%s joins %s\n", *name, *join)

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if err := WatchParent(os.Getenv, func() { os.Exit(3) }); err != nil {
		fmt.Println(err)
		return 1
	}
	if fault == "dies" {
		fmt.Println("the disk is full")
		return 1
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" && fault == "never ready" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, *name)
	})
	for _, address := range []string{*api, *app, *admin, *gossip} {
		socket, err := net.Listen("tcp", address)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		go func() { _ = http.Serve(socket, handler) }() // ends with the process
	}
	<-ctx.Done()
	fmt.Printf("%s drains\n", *name)
	switch fault {
	case "hangs":
		select {}
	case "drains badly":
		fmt.Println("the store did not close")
		return 1
	}
	return 0
}

// output is what a demo prints, while it prints.
type output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// running is a demo in this process.
type running struct {
	opts   Options
	stdout output
	stderr output
	stop   context.CancelFunc
	done   chan struct{} // closed when Run has returned
	err    error         // what it returned
}

// startRun runs a demo of fake nodes. It is stopped when the test ends.
func startRun(t *testing.T, opts Options) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{stop: cancel, done: make(chan struct{})}
	opts.Stdout, opts.Stderr = &r.stdout, &r.stderr
	if opts.BasePort == 0 {
		opts.BasePort = freeBase(t)
	}
	if opts.Nodes == 0 {
		opts.Nodes = 2
	}
	r.opts = opts
	go func() {
		r.err = Run(ctx, opts)
		close(r.done)
	}()
	t.Cleanup(func() { cancel(); <-r.done })
	return r
}

// startUp runs a demo and waits until it says that it is up.
func startUp(t *testing.T, opts Options) *running {
	t.Helper()
	r := startRun(t, opts)
	eventually(t, func() error {
		select {
		case <-r.done:
			t.Fatalf("the demo has ended: %v", r.err)
		default:
		}
		if !strings.Contains(r.stdout.String(), "Ctrl-C") && !strings.Contains(r.stdout.String(), "}]}") {
			return fmt.Errorf("it has said only %q", r.stdout.String())
		}
		return nil
	})
	return r
}

// wait waits until Run has returned.
func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		t.Fatal("the demo does not end")
	}
	return r.err
}

func (r *running) client() Client { return Client{BasePort: r.opts.BasePort} }

func (r *running) url(offset int) string { return "http://" + loopback(r.opts.BasePort+offset) }

func (r *running) names(t *testing.T) string {
	t.Helper()
	nodes, err := r.client().Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return strings.Join(names, " ")
}

// expectFree demands that nobody listens on any port of the demo, of its own and of its first nodes.
func expectFree(t *testing.T, basePort int) {
	t.Helper()
	eventually(t, func() error { return baseIsFree(basePort) })
}

const nodesPerTest = 5

var bases atomic.Int32

// freeBase returns a base with free ports for some nodes. They are below those that the kernel gives to
// outgoing connections, or one of these could take a port between its choice and its use.
func freeBase(t *testing.T) int {
	t.Helper()
	const first, step, count = 10_000, 100, 90
	for range count {
		base := first + step*((os.Getpid()+int(bases.Add(1)))%count)
		if baseIsFree(base) == nil {
			return base
		}
	}
	t.Fatal("no free ports")
	return 0
}

func baseIsFree(base int) error {
	sockets, err := bind(base)
	if err != nil {
		return err
	}
	closeAll(sockets)
	for number := 1; number <= nodesPerTest; number++ {
		if err := layoutOf(base, number).free(); err != nil {
			return err
		}
	}
	return nil
}

// eventually waits until check is satisfied; check says what it is waiting for.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", patience, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func testContext(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// firstLine returns the first line that a process prints.
func firstLine(t *testing.T, out interface{ Read([]byte) (int, error) }) string {
	t.Helper()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return line
}

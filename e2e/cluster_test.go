//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait of these tests. It is generous, since machines are shared and noisy.
const patience = 30 * time.Second

var (
	binary   string // klatch
	offset   string // klatch with a clock that may be wrong
	cbserver string // the Couchbase-protocol test server
	caves    string // somebody else's

	long        = flag.Bool("long", false, "let the faults of the chaos tests last long")
	onCouchbase = flag.Bool("couchbase", false, "run the clusters on the Couchbase-protocol test server instead of SQLite")
)

func TestMain(m *testing.M) {
	flag.Parse()
	for path, name := range map[*string]string{&binary: "klatch", &offset: "klatch-clockoffset", &cbserver: "cbserver", &caves: "cavesserver"} {
		var err error
		if *path, err = filepath.Abs("../bin/" + name); err == nil {
			_, err = os.Stat(*path)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "run these tests by make e2e, which builds the binaries:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// node is one klatch process.
type node struct {
	t                       *testing.T
	name                    string
	api, admin, app, gossip string        // host:port
	clock                   time.Duration // how far its clock is off
	restart                 func()        // starts it again as it was started last
	process                 *exec.Cmd
	log                     string
	ended                   chan struct{}
	exit                    error
	expectedToDie           bool
}

// nodes is a cluster of processes on one store.
type nodes []*node

// nextPort hands out ports below those that the kernel gives to outgoing connections, or one of these could
// take a port between its choice and its use.
var nextPort atomic.Int32

// freeAddress returns a loopback address that nobody listens on, by TCP or UDP.
func freeAddress(t *testing.T) string {
	t.Helper()
	const first, count = 20_000, 12_000
	for range count {
		port := first + (int32(os.Getpid())*50+nextPort.Add(1))%count
		address := fmt.Sprintf("127.0.0.1:%d", port)
		stream, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		stream.Close()
		datagrams, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		datagrams.Close()
		return address
	}
	t.Fatal("no free port")
	return ""
}

// startNodes starts n nodes on one store and waits until each is ready, knows the others and serves copies. When the
// test ends they are drained, and each must exit with 0.
func startNodes(t *testing.T, n int, flags ...string) nodes {
	t.Helper()
	storeURL := "sqlite:" + filepath.Join(t.TempDir(), "klatch.db")
	if *onCouchbase {
		storeURL = startCouchbase(t).url
	}
	all := launchNodes(t, n, storeURL, flags...)
	all.waitWhole()
	return all
}

// waitWhole waits until each node is ready, knows the others and serves copies.
func (all nodes) waitWhole() {
	for _, n := range all {
		n.waitReady()
		n.waitMembers(len(all))
		n.waitTrusted()
	}
}

// launchNodes starts n nodes and does not wait for them.
func launchNodes(t *testing.T, n int, storeURL string, flags ...string) nodes {
	t.Helper()
	all := newNodes(t, n)
	for _, node := range all {
		node.start(all[0].gossip, storeURL, flags...)
	}
	t.Cleanup(all.stop)
	return all
}

// newNodes gives n nodes their addresses.
func newNodes(t *testing.T, n int) (all nodes) {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		all = append(all, &node{
			t: t, name: fmt.Sprintf("n%d", i+1),
			api: freeAddress(t), admin: freeAddress(t), app: freeAddress(t), gossip: freeAddress(t),
			log: filepath.Join(dir, fmt.Sprintf("n%d.log", i+1)),
		})
	}
	return all
}

func (n *node) start(seed, store string, flags ...string) {
	n.t.Helper()
	n.restart = func() { n.start(seed, store, flags...) }
	n.expectedToDie = false
	log, err := os.Create(n.log)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	args := append([]string{"serve", "--name", n.name, "--http", n.api, "--admin", n.admin, "--app", n.app,
		"--gossip", n.gossip, "--join", seed, "--store", store, "--drain-grace", "100ms"}, flags...)
	n.process = exec.Command(binary, args...)
	n.process.Env = append(os.Environ(), "KLATCH_STORE_USER=Administrator", "KLATCH_STORE_PASSWORD=password")
	if n.clock != 0 {
		n.process = exec.Command(offset, args...)
		n.process.Env = append(os.Environ(), "TEST_CLOCK_OFFSET="+n.clock.String())
	}
	n.process.Stdout, n.process.Stderr = log, log
	if err := n.process.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.ended = make(chan struct{})
	go func() {
		n.exit = n.process.Wait()
		close(n.ended)
	}()
}

// kill ends the process as a crash would.
func (n *node) kill() {
	n.t.Helper()
	n.expectedToDie = true
	if err := n.process.Process.Kill(); err != nil {
		n.t.Fatal(err)
	}
	<-n.ended
}

// stop drains all nodes at once, and looks at how they ended and at what they logged.
func (all nodes) stop() {
	for _, n := range all {
		if !n.expectedToDie {
			_ = n.process.Process.Signal(syscall.SIGTERM) // it may have ended by itself, which is seen below
		}
	}
	for _, n := range all {
		select {
		case <-n.ended:
		case <-time.After(patience):
			_ = n.process.Process.Kill()
			<-n.ended
			n.t.Errorf("%s did not end within %s of SIGTERM", n.name, patience)
		}
		log, err := os.ReadFile(n.log)
		if err != nil {
			n.t.Error(err)
		}
		if n.exit != nil && !n.expectedToDie {
			n.t.Errorf("%s ended with %v", n.name, n.exit)
		}
		if bytes.Contains(log, []byte("panic:")) || bytes.Contains(log, []byte("DATA RACE")) {
			n.t.Errorf("%s logged a panic or a race", n.name)
		}
		if n.t.Failed() {
			n.t.Logf("the last of %s's log:\n%s", n.name, log[max(0, len(log)-3000):])
		}
	}
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
		time.Sleep(20 * time.Millisecond)
	}
}

func (n *node) waitReady() {
	n.t.Helper()
	eventually(n.t, func() error {
		select {
		case <-n.ended:
			log, _ := os.ReadFile(n.log) // only to say more
			n.t.Fatalf("%s ended: %v\n%s", n.name, n.exit, log)
		default:
		}
		response, err := http.Get("http://" + n.api + "/readyz")
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s is not ready: %s", n.name, response.Status)
		}
		return nil
	})
}

func (n *node) waitMembers(want int) {
	n.t.Helper()
	eventually(n.t, func() error {
		var cluster struct {
			Members []struct{ Name, State string }
		}
		if err := getJSON("http://"+n.admin+"/v1/cluster", &cluster); err != nil {
			return err
		}
		ready := 0
		for _, m := range cluster.Members {
			if m.State == "ready" {
				ready++
			}
		}
		if ready != want {
			return fmt.Errorf("%s sees %d ready members, want %d: %v", n.name, ready, want, cluster.Members)
		}
		return nil
	})
}

// waitTrusted waits until the node has heard all members: until then each of its reads asks the store.
func (n *node) waitTrusted() {
	n.t.Helper()
	eventually(n.t, func() error {
		if !strings.Contains(n.metrics(), "\nklatch_bus_trusted 1\n") {
			return fmt.Errorf("%s has not heard all members", n.name)
		}
		return nil
	})
}

// counter adds up a metric over all its labels that hold a text.
func (n *node) counter(name, label string) (total int) {
	n.t.Helper()
	for line := range strings.SplitSeq(n.metrics(), "\n") {
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, label) {
			var value float64
			if _, err := fmt.Sscanf(line[strings.LastIndexByte(line, ' ')+1:], "%g", &value); err != nil {
				n.t.Fatalf("%q: %v", line, err)
			}
			total += int(value)
		}
	}
	return total
}

// nearReads returns how many sessions the node has loaded.
func (n *node) nearReads() int {
	n.t.Helper()
	return n.counter("klatch_near_reads_total", "")
}

// metrics returns what /metrics answers.
func (n *node) metrics() string {
	n.t.Helper()
	response, err := http.Get("http://" + n.admin + "/metrics")
	if err != nil {
		n.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}

func getJSON(url string, v any) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(v)
}

// answer is what a node said to one request.
type answer struct {
	status               int
	node                 string // which node answered
	degraded, retryAfter string
	etag                 string
	cookie               string // the session cookie that it set, if any
	unconfirmed          []string
	body                 []byte
	session              struct {
		ID         string
		Version    string
		Attributes json.RawMessage
	}
	app struct {
		Node, Session, Version string
	}
	problem struct {
		Type, CurrentVersion string
	}
}

// attribute returns one attribute's JSON, or the bytes of an opaque one.
func (a answer) attribute(name string) string {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(a.session.Attributes, &all) // an answer without attributes has none
	var opaque struct {
		Base64 []byte `json:"$base64"`
	}
	if json.Unmarshal(all[name], &opaque) == nil && opaque.Base64 != nil {
		return string(opaque.Base64)
	}
	return string(all[name])
}

// request sends one request; headers are "Name: value".
func request(ctx context.Context, method, url, body string, headers ...string) (answer, error) {
	var a answer
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	a.body = text
	a.status, a.node, a.etag = response.StatusCode, response.Header.Get("Klatch-Node"), response.Header.Get("ETag")
	a.degraded, a.retryAfter = response.Header.Get("Klatch-Degraded"), response.Header.Get("Retry-After")
	if names := response.Header.Get("Klatch-Unconfirmed"); names != "" {
		a.unconfirmed = strings.Split(names, ", ")
	}
	for _, cookie := range response.Cookies() {
		if cookie.Name == "klatch" {
			a.cookie = cookie.Value
		}
	}
	for _, form := range []any{&a.session, &a.app, &a.problem} {
		_ = json.Unmarshal(text, form) // each test looks at the form that it expects
	}
	return a, nil
}

// do sends one request to the node's API and demands one of the statuses.
func (n *node) do(method, path, body string, statuses []int, headers ...string) answer {
	n.t.Helper()
	return send(n.t, method, "http://"+n.api+path, body, statuses, headers...)
}

func send(t *testing.T, method, url, body string, statuses []int, headers ...string) answer {
	t.Helper()
	a, err := request(t.Context(), method, url, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range statuses {
		if a.status == status {
			return a
		}
	}
	t.Fatalf("%s %s: status %d, want one of %v: %+v", method, url, a.status, statuses, a)
	return a
}

func (n *node) create(attributes string) (path string, created answer) {
	n.t.Helper()
	created = n.do(http.MethodPost, "/v1/sessions", `{"attributes":`+attributes+`}`, []int{http.StatusCreated})
	return "/v1/sessions/" + created.session.ID, created
}

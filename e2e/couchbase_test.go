//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// couchbase is a process that speaks the protocol of Couchbase, with faults on demand.
type couchbase struct {
	t     *testing.T
	url   string // for --store
	admin string // takes commands
}

func startCouchbase(t *testing.T) *couchbase {
	t.Helper()
	port := func() string { return strings.TrimPrefix(freeAddress(t), "127.0.0.1:") }
	process := exec.Command(cbserver, "-kv", port(), "-mgmt", port(), "-admin", port())
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		_ = process.Wait() // however it ends
	})
	lines := bufio.NewReader(out)
	url, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("cbserver says %q: %v", url, err)
	}
	admin, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("cbserver says %q: %v", admin, err)
	}
	return &couchbase{t: t, url: strings.TrimSpace(url), admin: strings.TrimSpace(strings.TrimPrefix(admin, "admin "))}
}

// command gives the server a command, such as freeze or stop.
func (c *couchbase) command(text string) {
	c.t.Helper()
	response, err := http.Post(c.admin, "text/plain", strings.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		c.t.Fatalf("cbserver: %s: %s", text, response.Status)
	}
}

// The cross-check that our own server does not merely share our beliefs.
func TestTheLoadToolMeetsNoErrorOnSomebodyElsesServer(t *testing.T) {
	server := exec.Command(caves)
	input, err := server.StdinPipe() // its end ends the server
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		_ = server.Wait() // however it ends
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	cluster := launchNodes(t, 3, strings.TrimSpace(url)+"?kv-timeout=5s")
	for _, n := range cluster {
		n.waitReady()
		n.waitMembers(3)
	}
	balancer := startHAProxy(t, cluster)
	for _, address := range []string{balancer.sticky, balancer.nonsticky} {
		runLoad(t, address, "-t", "4", "-ct", "2", "-ci", "20", "-a", "20", "-s", "100", "-ts", "5")
	}
}

// readiness returns what /readyz answers.
func (n *node) readiness() (status int, degraded string) {
	n.t.Helper()
	response, err := http.Get("http://" + n.api + "/readyz")
	if err != nil {
		return 0, ""
	}
	response.Body.Close()
	return response.StatusCode, response.Header.Get("Klatch-Degraded")
}

func (n *node) waitReadiness(status int, degraded string) {
	n.t.Helper()
	eventually(n.t, func() error {
		if s, d := n.readiness(); s != status || d != degraded {
			return fmt.Errorf("%s answers %d, degraded %q; want %d, %q", n.name, s, d, status, degraded)
		}
		return nil
	})
}

func TestNodesStartWithoutTheStoreAndBecomeReadyWhenItAppears(t *testing.T) {
	server := startCouchbase(t)
	server.command("stop")
	cluster := launchNodes(t, 3, server.url)
	for _, n := range cluster {
		n.waitReadiness(http.StatusServiceUnavailable, "store")
	}
	unknown := "/v1/sessions/" + strings.Repeat("a", 27)
	cluster[0].do(http.MethodGet, unknown, "", []int{http.StatusServiceUnavailable})
	cluster[0].do(http.MethodPost, "/v1/sessions", "{}", []int{http.StatusServiceUnavailable})

	appeared := time.Now()
	server.command("start")
	for _, n := range cluster {
		n.waitReadiness(http.StatusOK, "")
		t.Logf("%s was ready %s after the store had appeared", n.name, time.Since(appeared))
	}
	for _, n := range cluster {
		n.waitMembers(3)
	}
	cluster[0].do(http.MethodGet, unknown, "", notFound)
}

func TestWarmSessionsAreReadWhileTheStoreIsLostAndNothingIsLost(t *testing.T) {
	for _, way := range []struct{ lose, back string }{{"freeze", "thaw"}, {"stop", "start"}} {
		t.Run(way.lose, func(t *testing.T) {
			server := startCouchbase(t)
			cluster := launchNodes(t, 3, server.url)
			for _, n := range cluster {
				n.waitReady()
				n.waitMembers(3)
			}
			a, b := cluster[0], cluster[1]
			path, created := a.create(`{"x":1}`)
			cold, _ := b.create(`{"y":1}`)
			server.command(way.lose)
			lost := time.Now()

			a.waitReadiness(http.StatusOK, "store")
			t.Logf("the loss was noticed after %s", time.Since(lost))
			warm := a.do(http.MethodGet, path, "", ok)
			if warm.degraded != "store" || warm.session.Version != created.session.Version {
				t.Errorf("a warm read: %+v", warm)
			}
			for _, c := range []struct{ method, path, body string }{
				{http.MethodGet, cold, ""},
				{http.MethodGet, "/v1/sessions/" + strings.Repeat("a", 27), ""},
				{http.MethodGet, path + "?consistency=latest", ""},
				{http.MethodPatch, path, `{"x":2}`},
				{http.MethodPost, "/v1/sessions", `{}`},
				{http.MethodDelete, path, ""},
			} {
				begin := time.Now()
				got := a.do(c.method, c.path, c.body, []int{http.StatusServiceUnavailable})
				if got.retryAfter == "" {
					t.Errorf("%s %s: no Retry-After", c.method, c.path)
				}
				t.Logf("%s %.20s… was refused after %s", c.method, c.path, time.Since(begin).Round(time.Millisecond))
			}

			back := time.Now()
			server.command(way.back)
			a.waitReadiness(http.StatusOK, "")
			t.Logf("it was noticed %s after the store was back", time.Since(back))
			eventually(t, func() error {
				got, err := request(t.Context(), http.MethodPatch, "http://"+b.api+cold, `{"y":2}`)
				if err != nil || got.status != http.StatusOK {
					return fmt.Errorf("%+v, %v", got, err)
				}
				return nil
			})
			t.Logf("the first save on %s went through %s after the store was back", b.name, time.Since(back))
		})
	}
}

// Warm means that the node holds the current revision: then a read asks the store nothing, and a change writes once.
func TestStoreOperationsPerRequest(t *testing.T) {
	cluster := startNodes(t, 2)
	a, b := cluster[0], cluster[1]
	path, _ := a.create(`{"x":0}`)
	a.expectOperations("a warm read", 20, 0, 0, func(int) { a.do(http.MethodGet, path, "", ok) })
	a.expectOperations("a warm change", 20, 0, 1, func(i int) { a.do(http.MethodPatch, path, fmt.Sprintf(`{"x":%d}`, i+1), ok) })
	b.expectOperations("a cold read", 1, 1, 0, func(int) { b.do(http.MethodGet, path, "", ok) })
}

// expectOperations counts the store's operations by the node's own metric. The node's questions whether the store
// answers are not among them.
func (n *node) expectOperations(what string, times, reads, writes int, do func(i int)) {
	n.t.Helper()
	count := func(verb string) int { return n.counter("klatch_store_operations_total", `verb="`+verb+`"`) }
	gets, puts := count("get"), count("put")
	for i := range times {
		do(i)
	}
	if gets, puts = count("get")-gets, count("put")-puts; gets != reads*times || puts != writes*times {
		n.t.Errorf("%s, %d times: %d reads and %d writes of the store, want %d and %d", what, times, gets, puts, reads*times, writes*times)
	}
}

func TestANodeThatEndsWithoutTheStoreSaysWhatIsNotSaved(t *testing.T) {
	server := startCouchbase(t)
	cluster := launchNodes(t, 2, server.url, "--session.idle", "10s")
	for _, n := range cluster {
		n.waitReady()
		n.waitMembers(2)
		n.waitTrusted()
	}
	a := cluster[0]
	path, _ := a.create(`{"x":1}`)
	created := time.Now()
	server.command("stop")
	a.waitReadiness(http.StatusOK, "store")
	// An access is due to be recorded when a tenth of the idle limit has gone by.
	eventually(t, func() error {
		if left := time.Second + 100*time.Millisecond - time.Since(created); left > 0 {
			return fmt.Errorf("%s until an access is due", left)
		}
		return nil
	})
	a.do(http.MethodGet, path, "", ok)

	for _, n := range cluster {
		n.expectedToDie = true
		if err := n.process.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range cluster {
		select {
		case <-n.ended:
		case <-time.After(patience):
			t.Fatalf("%s did not end within %s of SIGTERM", n.name, patience)
		}
		if n.process.ProcessState.ExitCode() != 1 {
			t.Errorf("%s ended with %v, want exit code 1", n.name, n.process.ProcessState)
		}
		log, err := os.ReadFile(n.log)
		if err != nil {
			t.Fatal(err)
		}
		if want := "take the record of node " + n.name + " out of the store"; !strings.Contains(string(log), want) {
			t.Errorf("%s does not say %q:\n%s", n.name, want, log)
		}
		if unrecorded := strings.Contains(string(log), "the last accesses to 1 sessions are not recorded"); unrecorded != (n == a) {
			t.Errorf("%s says that an access is not recorded: %v; only %s had one:\n%s", n.name, unrecorded, a.name, log)
		}
	}
}

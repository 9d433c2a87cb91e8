//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// haproxy is a real HAProxy before a cluster, with the configuration that klatch ships.
type haproxy struct {
	sticky, nonsticky string // host:port
}

func startHAProxy(t *testing.T, cluster nodes) haproxy {
	t.Helper()
	var servers []string
	for i, n := range cluster {
		servers = append(servers, fmt.Sprintf("NODE%d=%s", i+1, n.app))
	}
	return runHAProxy(t, servers...)
}

// runHAProxy starts it with the servers that env says.
func runHAProxy(t *testing.T, env ...string) haproxy {
	t.Helper()
	balancer := haproxy{sticky: freeAddress(t), nonsticky: freeAddress(t)}
	balancer.run(t, (*exec.Cmd).Start, env...)
	return balancer
}

// run starts it in the way of start and waits until it answers.
func (balancer haproxy) run(t *testing.T, start func(*exec.Cmd) error, env ...string) {
	t.Helper()
	process := exec.Command("haproxy", "-db", "-f", "../deploy/haproxy/haproxy.cfg")
	process.Env = append(os.Environ(), "STICKY="+balancer.sticky, "NONSTICKY="+balancer.nonsticky)
	process.Env = append(process.Env, env...)
	var log bytes.Buffer
	process.Stdout, process.Stderr = &log, &log
	if err := start(process); err != nil {
		t.Fatalf("%v (make e2e installs HAProxy)", err)
	}
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		_ = process.Wait() // it reports the signal as a failure
		if t.Failed() {
			t.Logf("HAProxy's log:\n%s", log.String())
		}
	})
	for _, address := range []string{balancer.sticky, balancer.nonsticky} {
		eventually(t, func() error {
			response, err := http.Get("http://" + address + "/app")
			if err != nil {
				return err
			}
			response.Body.Close()
			if response.StatusCode != http.StatusNotFound { // the application's: no session
				return fmt.Errorf("HAProxy answers %s", response.Status)
			}
			return nil
		})
	}
}

// loadReport is what klatch bench sessions -o json prints.
type loadReport struct {
	Errors     int
	ErrorKinds map[string]int
	PerSecond  float64 `json:"operationsPerSecond"`
	Operations map[string]struct {
		Count  int
		MeanMs float64 `json:"mean_ms"`
		P99Ms  float64 `json:"p99_ms"`
	}
}

func runLoad(t *testing.T, address string, options ...string) loadReport {
	t.Helper()
	report, err := loadTool(t.Context(), (*exec.Cmd).Start, address, options...)
	if err != nil {
		t.Errorf("load through %s: %v", address, err)
	}
	return report
}

// loadTool runs the load tool, which start starts. Requests that failed are an error.
func loadTool(ctx context.Context, start func(*exec.Cmd) error, address string, options ...string) (report loadReport, err error) {
	process := exec.CommandContext(ctx, binary, append([]string{"bench", "sessions", "-b", "http://" + address, "-o", "json"}, options...)...)
	var stdout, stderr bytes.Buffer
	process.Stdout, process.Stderr = &stdout, &stderr
	if err := start(process); err != nil {
		return report, err
	}
	err = process.Wait()
	if decodeErr := json.Unmarshal(stdout.Bytes(), &report); decodeErr != nil {
		return report, fmt.Errorf("%w, %w\n%s%s", err, decodeErr, stdout.String(), stderr.String())
	}
	if err != nil || report.Errors != 0 {
		return report, fmt.Errorf("%w\n%s%s", err, stdout.String(), stderr.String())
	}
	return report, nil
}

// The acceptance run: 16 parents, two children on each session, 20 attributes of 100 bytes, think time 5 ms.
var classicLoad = []string{"-t", "16", "-ct", "2", "-i", "5", "-ci", "20", "-a", "20", "-s", "100", "-ts", "5"}

func TestTheLoadToolMeetsNoErrorThroughHAProxy(t *testing.T) {
	cluster := startNodes(t, 3)
	balancer := startHAProxy(t, cluster)
	sticky := runLoad(t, balancer.sticky, classicLoad...)
	nonsticky := runLoad(t, balancer.nonsticky, classicLoad...)
	for _, operation := range []string{"REFRESH", "UPDATE"} {
		s, n := sticky.Operations[operation], nonsticky.Operations[operation]
		if s.Count == 0 || n.Count == 0 {
			t.Errorf("%s: no operations", operation)
			continue
		}
		t.Logf("%s: sticky mean %.2f ms p99 %.2f ms, non-sticky mean %.2f ms p99 %.2f ms, ratio of means %.2f",
			operation, s.MeanMs, s.P99Ms, n.MeanMs, n.P99Ms, n.MeanMs/s.MeanMs)
	}
}

func TestStickyKeepsASessionOnItsNodeAndFollowsWhenItDies(t *testing.T) {
	cluster := startNodes(t, 3)
	balancer := startHAProxy(t, cluster)
	url := "http://" + balancer.sticky + "/app"

	created := send(t, http.MethodPost, url, "", []int{http.StatusCreated})
	cookie, owner := created.cookie, created.app.Node
	update := func() answer {
		t.Helper()
		a := send(t, http.MethodPut, url, "", ok, "Cookie: klatch="+cookie)
		cookie = a.cookie
		return a
	}
	for range 20 {
		if a := update(); a.app.Node != owner {
			t.Fatalf("a request of %s's session was served by %s", owner, a.app.Node)
		}
	}
	for _, n := range cluster {
		if n.name == owner {
			n.kill()
		}
	}
	var heir string
	eventually(t, func() error { // requests in the moment of the crash may fail
		a, err := request(t.Context(), http.MethodPut, url, "", "Cookie: klatch="+cookie)
		if err != nil || a.status != http.StatusOK {
			return fmt.Errorf("after the kill: %+v, %v", a, err)
		}
		heir, cookie = a.app.Node, a.cookie
		return nil
	})
	for range 20 {
		if a := update(); a.app.Node != heir {
			t.Fatalf("a request of %s's session was served by %s", heir, a.app.Node)
		}
	}
}

// A node that drains takes no request with it: HAProxy sees not-ready first, and repeats what was refused.
func TestDrainThroughHAProxyFailsNoRequest(t *testing.T) {
	cluster := startNodes(t, 3, "--drain-grace", "2s")
	balancer := startHAProxy(t, cluster)
	stop := time.AfterFunc(time.Second, func() {
		_ = cluster[2].process.Process.Signal(syscall.SIGTERM)
	})
	defer stop.Stop()
	runLoad(t, balancer.nonsticky, "-t", "8", "-ct", "2", "-i", "10", "-ci", "20", "-ts", "20")
	select {
	case <-cluster[2].ended:
		if cluster[2].exit != nil {
			t.Errorf("the drained node ended with %v", cluster[2].exit)
		}
	case <-time.After(patience):
		t.Error("the drained node did not end")
	}
}

//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// demoCluster is a running klatch demo.
type demoCluster struct {
	Sticky, Nonsticky string
	Nodes             []struct {
		Name, API, App, Admin, Gossip string
		PID                           int
	}
	process  *exec.Cmd
	basePort string
	output   *bufio.Reader
}

func startDemo(t *testing.T, flags ...string) *demoCluster {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	// The demo wants a run of ports: this one and those up to some tens above it.
	base, _ := strconv.Atoi(port)
	nextPort.Add(100)
	d := &demoCluster{basePort: strconv.Itoa(base)}
	d.process = exec.Command(binary, append([]string{"demo", "-o", "json", "--base-port", d.basePort}, flags...)...)
	out, err := d.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	d.process.Stderr = &stderr
	if err := d.process.Start(); err != nil {
		t.Fatal(err)
	}
	d.output = bufio.NewReader(out)
	line, err := d.output.ReadString('\n')
	if err != nil {
		_ = d.process.Wait() // it has failed already; its output says why
		t.Fatalf("the demo said %q and %q: %v", line, stderr.String(), err)
	}
	if err := json.Unmarshal([]byte(line), d); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return d
}

// run runs klatch demo with further arguments, as from a second terminal.
func (d *demoCluster) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(binary, append([]string{"demo", "--base-port", d.basePort}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("demo %v: %v: %s", args, err, out)
	}
	return string(out)
}

func (d *demoCluster) expectAllGone(t *testing.T) {
	t.Helper()
	for _, n := range d.Nodes {
		eventually(t, func() error {
			// Signal 0 asks whether the process is there; one that nobody has waited for yet is a zombie.
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.PID))
			if err == nil && !bytes.Contains(status, []byte(") Z ")) {
				return fmt.Errorf("%s still runs as process %d", n.Name, n.PID)
			}
			return nil
		})
	}
}

func TestTheDemoServesSurvivesAKillGrowsAndLeavesNothingBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	d := startDemo(t)
	if len(d.Nodes) != 3 {
		t.Fatalf("%d nodes", len(d.Nodes))
	}
	for _, address := range []string{d.Sticky, d.Nonsticky} {
		runLoad(t, strings.TrimPrefix(address, "http://"), classicLoad...)
	}

	session := send(t, http.MethodPost, d.Nonsticky+"/app?attributes=3", "", []int{http.StatusCreated})
	d.run(t, "kill", "n2")
	eventually(t, func() error { // a request in the moment of the crash may fail
		a, err := request(t.Context(), http.MethodPut, d.Nonsticky+"/app?name=a0&value=x", "", "Cookie: klatch="+session.cookie)
		if err != nil || a.status != http.StatusOK {
			return fmt.Errorf("after the kill: %+v, %v", a, err)
		}
		return nil
	})
	d.run(t, "add")
	served := map[string]bool{}
	eventually(t, func() error {
		a := send(t, http.MethodGet, d.Nonsticky+"/app", "", ok, "Cookie: klatch="+session.cookie)
		served[a.app.Node] = true
		if !served["n4"] {
			return fmt.Errorf("served by %v", served)
		}
		return nil
	})
	if listed := d.run(t, "nodes"); strings.Contains(listed, "n2") || !strings.Contains(listed, "n4") {
		t.Errorf("the nodes are\n%s", listed)
	}

	if err := d.process.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := d.process.Wait(); err != nil {
		t.Errorf("the demo ended with %v", err)
	}
	d.expectAllGone(t)
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestTheDemosNodesEndWithItWhateverEndsIt(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	d := startDemo(t, "--nodes", "2")
	if err := d.process.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = d.process.Wait() // killed
	d.expectAllGone(t)
}

func TestASecondDemoOnTheSamePortsSaysWhatToDo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	d := startDemo(t, "--nodes", "1")
	out, err := exec.Command(binary, "demo", "--base-port", d.basePort).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "port "+d.basePort+" is in use") || !strings.Contains(string(out), "--base-port") {
		t.Errorf("%v: %s", err, out)
	}
	send(t, http.MethodPost, d.Nonsticky+"/app", "", []int{http.StatusCreated})
	_ = d.process.Process.Signal(os.Interrupt)
	done := make(chan error, 1)
	go func() { done <- d.process.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("the first demo ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("the first demo did not end")
	}
}

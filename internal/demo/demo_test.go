package demo

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestTheDemoSaysWhereEverythingIsAndLeavesNothingBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r := startUp(t, Options{Nodes: 3})
	text := r.stdout.String()
	for _, part := range []string{r.url(1), r.url(2), r.url(10), r.url(21), r.url(32), "bench sessions -b " + r.url(2), "demo kill n3", "demo add", "--base-port", "n1.log"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	for offset := 1; offset <= 2; offset++ {
		if status, name := ask(t, http.MethodPost, r.url(offset)+"/app", "", ""); status != http.StatusOK || !strings.HasPrefix(name, "n") {
			t.Errorf("balancer %d: status %d, %q", offset, status, name)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	r.stop()
	if err := r.wait(t); err != nil {
		t.Errorf("the demo ended with %v", err)
	}
	expectFree(t, r.opts.BasePort)
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWithJSONTheDemoPrintsOneLine(t *testing.T) {
	r := startUp(t, Options{Nodes: 2, JSON: true})
	if _, err := r.client().Add(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.stop()
	if err := r.wait(t); err != nil {
		t.Fatal(err)
	}
	var line struct {
		Sticky, Nonsticky string
		Nodes             []NodeInfo
	}
	if err := json.Unmarshal([]byte(r.stdout.String()), &line); err != nil || strings.Count(r.stdout.String(), "\n") != 1 {
		t.Fatalf("%v: %q", err, r.stdout.String())
	}
	if line.Sticky != r.url(1) || line.Nonsticky != r.url(2) || len(line.Nodes) != 2 {
		t.Errorf("%+v", line)
	}
	second := line.Nodes[1]
	want := NodeInfo{Name: "n2", PID: second.PID, API: r.url(20), App: r.url(21), Admin: r.url(22), Gossip: loopback(r.opts.BasePort + 23)}
	if second != want || second.PID == 0 {
		t.Errorf("got %+v, want %+v", second, want)
	}
	if !strings.Contains(r.stderr.String(), "n3 has joined") {
		t.Errorf("what happens later goes to the error output, which is %q", r.stderr.String())
	}
}

func TestADirectoryThatWasNamedIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "demo")
	r := startUp(t, Options{Nodes: 1, Dir: dir})
	r.stop()
	if err := r.wait(t); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "n1.log"))
	if err != nil || !strings.Contains(string(log), "n1 drains") {
		t.Errorf("the log is %q, %v: want the node to have been told to drain", log, err)
	}
}

func TestAPortInUseIsFoundBeforeAnythingStarts(t *testing.T) {
	for name, c := range map[string]struct {
		network string
		offset  int
	}{
		"control": {"tcp", 0}, "balancer": {"tcp", 2}, "node's API": {"tcp", 20}, "node's gossip by UDP": {"udp", 13},
	} {
		t.Run(name, func(t *testing.T) {
			base := freeBase(t)
			port := base + c.offset
			if c.network == "tcp" {
				socket, err := net.Listen("tcp", loopback(port))
				if err != nil {
					t.Fatal(err)
				}
				defer socket.Close()
			} else {
				socket, err := net.ListenPacket("udp", loopback(port))
				if err != nil {
					t.Fatal(err)
				}
				defer socket.Close()
			}
			dir := t.TempDir()
			err := startRun(t, Options{BasePort: base, Dir: dir}).wait(t)
			if err == nil || !strings.Contains(err.Error(), "port "+strconv.Itoa(port)+" is in use") || !strings.Contains(err.Error(), "--base-port") {
				t.Errorf("it says %v", err)
			}
			if started, _ := filepath.Glob(filepath.Join(dir, "*.log")); len(started) > 0 {
				t.Errorf("it has started %v", started)
			}
		})
	}
}

func TestOptionsOutOfBoundsAreRefused(t *testing.T) {
	for says, opts := range map[string]Options{
		"--nodes -1":        {Nodes: -1},
		"--nodes 65":        {Nodes: 65},
		"--base-port -5":    {BasePort: -5},
		"--base-port 65000": {BasePort: 65000},
		"--dir":             {Dir: "/dev/null/demo"},
		"log of n1":         {Dir: "/proc"},
		"starting n1":       {Binary: "/no/such/klatch"},
	} {
		err := startRun(t, opts).wait(t)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: got %v, want one line with %q", opts, err, says)
		}
	}
}

func TestANodeThatNeverGetsReadyEndsTheStart(t *testing.T) {
	t.Setenv(faultEnv, "n2=never ready")
	r := startRun(t, Options{ReadyWait: time.Second})
	err := r.wait(t)
	if err == nil || !strings.Contains(err.Error(), "n2 was not ready within 1s") || !strings.Contains(err.Error(), "n2 joins") {
		t.Errorf("it says %v; want the node, the time and the end of its log", err)
	}
	expectFree(t, r.opts.BasePort)
}

func TestANodeThatDiesAtTheStartEndsIt(t *testing.T) {
	t.Setenv(faultEnv, "n1=dies")
	r := startRun(t, Options{})
	err := r.wait(t)
	if err == nil || !strings.Contains(err.Error(), "n1 ended before it was ready (exit status 1)") || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("it says %v", err)
	}
	expectFree(t, r.opts.BasePort)
}

func TestAStartMayBeInterrupted(t *testing.T) {
	t.Setenv(faultEnv, "n1=never ready")
	dir := t.TempDir()
	r := startRun(t, Options{Dir: dir})
	eventually(t, func() error {
		log, err := os.ReadFile(filepath.Join(dir, "n2.log"))
		if err == nil && len(log) == 0 {
			err = fmt.Errorf("n2 has not begun")
		}
		return err
	})
	r.stop()
	if err := r.wait(t); err != nil {
		t.Errorf("the demo ended with %v", err)
	}
	expectFree(t, r.opts.BasePort)
}

func TestANodeThatDoesNotDrainIsKilled(t *testing.T) {
	t.Setenv(faultEnv, "n2=hangs")
	r := startUp(t, Options{StopWait: time.Second})
	r.stop()
	if err := r.wait(t); err == nil || !strings.Contains(err.Error(), "n2 did not end within 1s") {
		t.Errorf("the demo ended with %v", err)
	}
	expectFree(t, r.opts.BasePort)
}

func TestANodeThatDrainsBadlyIsReported(t *testing.T) {
	t.Setenv(faultEnv, "n2=drains badly")
	r := startUp(t, Options{})
	r.stop()
	if err := r.wait(t); err != nil {
		t.Errorf("the demo ended with %v", err)
	}
	if said := r.stdout.String(); !strings.Contains(said, "n2 has ended with an error (exit status 1)") || !strings.Contains(said, "the store did not close") {
		t.Errorf("it says\n%s", said)
	}
}

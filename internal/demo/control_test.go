package demo

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestNodesAreAddedAndKilledLive(t *testing.T) {
	dir := t.TempDir()
	r := startUp(t, Options{Nodes: 2, Dir: dir})
	if err := r.client().Kill(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	if names := r.names(t); names != "n2" {
		t.Errorf("after the kill the nodes are %s", names)
	}
	info, err := r.client().Add(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Name != "n3" || info.App != r.url(31) || info.PID == 0 {
		t.Errorf("added %+v", info)
	}
	if names := r.names(t); names != "n2 n3" {
		t.Errorf("after the addition the nodes are %s", names)
	}
	for _, route := range []string{"n2", "n3"} {
		if name := askNode(t, r.url(1), "id~1."+route); name != route {
			t.Errorf("%s's session was served by %s", route, name)
		}
	}
	if log, _ := os.ReadFile(filepath.Join(dir, "n3.log")); !strings.Contains(string(log), "n3 joins "+loopback(r.opts.BasePort+23)+"\n") {
		t.Errorf("a new node joins those that live; its log is %s", log)
	}
	if said := r.stdout.String(); !strings.Contains(said, "n1 was killed") || strings.Contains(said, "by itself") {
		t.Errorf("the console says\n%s", said)
	}
}

func TestANodeIsDrained(t *testing.T) {
	r := startUp(t, Options{Nodes: 2})
	if err := r.client().Drain(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if names := r.names(t); names != "n2" {
			return fmt.Errorf("the nodes are %s", names)
		}
		return nil
	})
	if said := r.stdout.String(); !strings.Contains(said, "n1 drains") || strings.Contains(said, "has ended") {
		t.Errorf("the console says\n%s", said)
	}
}

func TestANodeThatDiesByItselfIsReportedAndNotStartedAgain(t *testing.T) {
	r := startUp(t, Options{Nodes: 2})
	nodes, err := r.client().Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(nodes[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if said := r.stdout.String(); !strings.Contains(said, "n1 has ended by itself (signal: killed); its log is ") {
			return fmt.Errorf("the console says\n%s", said)
		}
		return nil
	})
	if names := r.names(t); names != "n2" {
		t.Errorf("the nodes are %s", names)
	}
	if name := askNode(t, r.url(1), "id~1.n1"); name != "n2" {
		t.Errorf("its sessions are served by %q", name)
	}
}

func TestANewNodeThatNeverGetsReadyIsTakenAwayAgain(t *testing.T) {
	t.Setenv(faultEnv, "n2=never ready")
	r := startUp(t, Options{Nodes: 1, ReadyWait: 2 * time.Second})
	_, err := r.client().Add(t.Context())
	if err == nil || !strings.Contains(err.Error(), "n2 was not ready within 2s") {
		t.Errorf("it says %v", err)
	}
	eventually(t, func() error {
		if names := r.names(t); names != "n1" {
			return fmt.Errorf("the nodes are %s", names)
		}
		return nil
	})
	if err := layoutOf(r.opts.BasePort, 2).free(); err != nil {
		t.Errorf("it still runs: %v", err)
	}
}

func TestAnUnknownNodeIsNotKilled(t *testing.T) {
	r := startUp(t, Options{Nodes: 1})
	for _, name := range []string{"n7", "../n1", "a b"} {
		err := r.client().Kill(t.Context(), name)
		if err == nil || !strings.Contains(err.Error(), "no such node runs: klatch demo nodes") {
			t.Errorf("%s: it says %v", name, err)
		}
	}
	if names := r.names(t); names != "n1" {
		t.Errorf("the nodes are %s", names)
	}
}

func TestNoWebPageSteersTheDemo(t *testing.T) {
	r := startUp(t, Options{Nodes: 1})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url(0)+"/nodes", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Origin", "https://evil.example")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if names := r.names(t); response.StatusCode != http.StatusForbidden || names != "n1" {
		t.Errorf("status %d, the nodes are %s", response.StatusCode, names)
	}
}

func TestWithoutADemoTheClientSaysHowToStartOne(t *testing.T) {
	base := freeBase(t)
	err := Client{BasePort: base}.Kill(t.Context(), "n1")
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("no demo runs on port %d: start one with klatch demo", base)) {
		t.Errorf("it says %v", err)
	}
}

func TestSomethingElseOnThePortIsNoDemo(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"page":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"not found": http.NotFound,
		"hangs up":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			other := httptest.NewServer(handler)
			defer other.Close()
			address, _ := url.Parse(other.URL)
			port, _ := strconv.Atoi(address.Port())
			if _, err := (Client{BasePort: port}).Nodes(t.Context()); err == nil || !strings.Contains(err.Error(), "--base-port") {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func TestAnAdditionEndsWithTheDemo(t *testing.T) {
	t.Setenv(faultEnv, "n2=never ready")
	dir := t.TempDir()
	r := startUp(t, Options{Nodes: 1, Dir: dir})
	added := make(chan error, 1)
	go func() {
		_, err := r.client().Add(t.Context())
		added <- err
	}()
	eventually(t, func() error {
		log, err := os.ReadFile(filepath.Join(dir, "n2.log"))
		if err == nil && len(log) == 0 {
			err = errors.New("n2 has not begun")
		}
		return err
	})
	r.stop()
	if err := r.wait(t); err != nil {
		t.Errorf("the demo ended with %v", err)
	}
	if err := <-added; err == nil {
		t.Error("the addition of a node that was never ready went well")
	}
	expectFree(t, r.opts.BasePort)
}

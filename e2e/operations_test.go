//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// keyed starts n nodes, each of which has a file with the same gossip key.
func keyed(t *testing.T, n int, key string) (all nodes, files []string) {
	t.Helper()
	store := "sqlite:" + filepath.Join(t.TempDir(), "klatch.db")
	if *onCouchbase {
		store = startCouchbase(t).url
	}
	all = newNodes(t, n)
	for _, node := range all {
		file := filepath.Join(t.TempDir(), "gossip.key")
		if err := os.WriteFile(file, []byte("# the first\n"+key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		node.start(all[0].gossip, store, "--gossip-key-file", file)
	}
	t.Cleanup(all.stop)
	all.waitWhole()
	return all, files
}

// command runs an operator's command on a node.
func (n *node) command(args ...string) (code int, stdout, stderr string) {
	n.t.Helper()
	return klatch(n.t, n.t.TempDir(), nil, append(args, "--admin", "http://"+n.admin)...)
}

// keyring returns the fingerprints in use on each node.
func (n *node) keyring() (keys [][]string) {
	n.t.Helper()
	code, stdout, stderr := n.command("keyring", "list", "-o", "json")
	var answer struct {
		Nodes []struct{ Keys []string }
	}
	if err := json.Unmarshal([]byte(stdout), &answer); code != 0 || err != nil {
		n.t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	for _, node := range answer.Nodes {
		keys = append(keys, node.Keys)
	}
	return keys
}

// hammer changes a session through a node, again and again, until stop is called.
func (n *node) hammer(path string) (stop func() (requests int, failures []string)) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	var requests int
	var failures []string
	var running sync.WaitGroup
	running.Go(func() {
		for ; ctx.Err() == nil; requests++ {
			got, err := request(ctx, http.MethodPatch, "http://"+n.api+path, fmt.Sprintf(`{"x":%d}`, requests))
			if ctx.Err() == nil && (err != nil || got.status != http.StatusOK) {
				failures = append(failures, fmt.Sprintf("%d, %v: %s", got.status, err, got.body))
			}
		}
	})
	stop = func() (int, []string) {
		cancel()
		running.Wait()
		return requests, failures
	}
	n.t.Cleanup(func() { stop() })
	return stop
}

func TestAKeyIsRotatedWhileTheClusterRuns(t *testing.T) {
	key := func(digit string) string { return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(digit, 32))) }
	old, fresh := key("1"), key("2")
	cluster, files := keyed(t, 3, old)
	a, b, c := cluster[0], cluster[1], cluster[2]
	must := func(args ...string) {
		t.Helper()
		if code, stdout, stderr := a.command(args...); code != 0 {
			t.Fatalf("%v: exit code %d: %s%s", args, code, stdout, stderr)
		}
	}
	refused := func(why string, args ...string) {
		t.Helper()
		code, _, stderr := a.command(args...)
		if code != 1 || !strings.Contains(stderr, why) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d, want a refusal with %q: %s", args, code, why, stderr)
		}
	}

	path, _ := a.create(`{"x":0}`)
	stop := b.hammer(path)
	first := a.keyring()[0][0]
	file := filepath.Join(t.TempDir(), "new.key")
	if err := os.WriteFile(file, []byte(fresh+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must("keyring", "install", file)
	second := a.keyring()[1][1]
	c.kill()
	refused("n3", "keyring", "use", second) // not yet known to be dead, or not heard
	c.restart()
	cluster.waitWhole()
	must("keyring", "use", second[:8])
	refused("encrypts by this key", "keyring", "remove", second)
	must("keyring", "remove", first)
	for i, keys := range c.keyring() {
		if !slices.Equal(keys, []string{second}) {
			t.Errorf("node %d has the keys %v", i+1, keys)
		}
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), fresh) || strings.Contains(string(text), old) {
			t.Errorf("%v: %s", err, text)
		}
	}
	requests, failures := stop()
	if len(failures) > 0 {
		t.Errorf("%d of %d requests failed: %s", len(failures), requests, failures[0])
	}
	t.Logf("%d requests on n2 meanwhile, none failed", requests)

	// With the old key a node stays alone, and is counted and named once.
	stranger := newNodes(t, 4)[3]
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	stranger.start(a.gossip, "memory:", "--gossip-key-file", file)
	t.Cleanup(nodes{stranger}.stop)
	stranger.waitReady()
	if n := a.counter("klatch_bus_strangers_total", `reason="key"`); n == 0 {
		t.Error("the stranger is not counted")
	}
	log, err := os.ReadFile(a.log)
	if err != nil || strings.Count(string(log), "refused what a stranger sent") != 1 {
		t.Errorf("%v: the stranger is not named once:\n%s", err, log)
	}
}

func TestANodeThatIsGoneForGoodIsForgotten(t *testing.T) {
	cluster := startNodes(t, 3)
	a, b, c := cluster[0], cluster[1], cluster[2]
	if code, _, stderr := a.command("forget", "n3"); code != 1 || !strings.Contains(stderr, "live member") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	c.kill()
	a.waitMembers(2)
	b.waitMembers(2)
	if code, _, stderr := a.command("forget", "n3"); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for _, n := range []*node{a, b} {
		if _, stdout, _ := n.command("members"); strings.Contains(stdout, "n3") {
			t.Errorf("%s still knows it:\n%s", n.name, stdout)
		}
	}
}

// Stamps raised on one node count on all when the answer comes.
func TestStampsAreKnownOnAllNodesWhenTheyAreAnswered(t *testing.T) {
	cluster := startNodes(t, 3)
	type receipt struct {
		Epoch                     string
		Acknowledged, Unconfirmed []string
		Alive                     *bool
	}
	stamps := func(n *node, method, query, body string) (r receipt) {
		t.Helper()
		got, err := request(t.Context(), method, "http://"+n.admin+"/v1/stamps"+query, body)
		if err == nil {
			err = json.Unmarshal(got.body, &r)
		}
		if err != nil || got.status != http.StatusOK {
			t.Fatalf("%s: %d, %v: %s", n.name, got.status, err, got.body)
		}
		return r
	}
	for i := range 60 {
		raiser := cluster[i%3]
		before := stamps(raiser, http.MethodGet, "", "").Epoch
		raised := stamps(raiser, http.MethodPost, "", `{"scopes":["tag:red"]}`)
		if len(raised.Acknowledged) != 3 || len(raised.Unconfirmed) != 0 {
			t.Fatalf("%+v", raised)
		}
		for _, n := range cluster {
			for scope, alive := range map[string]bool{"tag:red": false, "tag:blue": true} {
				if got := stamps(n, http.MethodGet, "?fetched="+before+"&scope="+scope, ""); got.Alive == nil || *got.Alive != alive {
					t.Errorf("%s on %s after round %d: %+v, want alive %v", scope, n.name, i, got, alive)
				}
			}
			if got := stamps(n, http.MethodGet, "?fetched="+raised.Epoch+"&scope=tag:red", ""); got.Alive == nil || !*got.Alive {
				t.Errorf("what was fetched after the stamp on %s: %+v", n.name, got)
			}
		}
	}
	cluster[1].kill()
	cluster[1].restart()
	cluster[1].waitReady()
	if got := stamps(cluster[1], http.MethodGet, "?fetched=1&scope=tag:red", ""); got.Alive == nil || *got.Alive {
		t.Errorf("after its restart: %+v", got)
	}
}

func TestTheCoherenceOfARunningClusterIsChecked(t *testing.T) {
	cluster := startNodes(t, 3, "--coherence.rate", "50")
	path, _ := cluster[0].create(`{"x":0}`)
	for _, n := range cluster {
		n.do(http.MethodGet, path, "", ok)
	}
	stop := cluster[1].hammer(path)
	code, stdout, stderr := cluster[2].command("check", "coherence", "--after", "100ms,3500ms", "-o", "json")
	requests, failures := stop()
	if code != 0 || len(failures) > 0 || requests == 0 {
		t.Fatalf("exit code %d: %s%s; %d requests, failures: %v", code, stdout, stderr, requests, failures)
	}
	var answer struct {
		Nodes []struct {
			Node    string
			Sampled int
			Looks   []struct{ Served, Stale int }
		}
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || len(answer.Nodes) != 3 {
		t.Fatalf("%v: %s", err, stdout)
	}
	if n := answer.Nodes[1]; n.Sampled != 1 || len(n.Looks) != 2 || n.Looks[1].Served != 1 {
		t.Errorf("the node that writes: %+v", n)
	}
	if code, stdout, stderr := cluster[0].command("check", "coherence", "--after", "100ms"); code != 0 || !strings.Contains(stdout, "SERVED") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if code, _, stderr := cluster[0].command("check", "coherence", "--samples", "-1"); code != 1 || !strings.Contains(stderr, "samples") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	eventually(t, func() error {
		if n := cluster[1].counter("klatch_coherence_checked_total", `after="1s"`); n == 0 {
			return errors.New("the checks that never end have counted nothing yet")
		}
		return nil
	})
	if n := cluster[1].counter("klatch_coherence_stale_total", ""); n != 0 {
		t.Errorf("%d stale copies", n)
	}
}

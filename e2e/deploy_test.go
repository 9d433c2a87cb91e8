//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// names is a DNS server that knows one name, as Docker's does: the addresses behind it come and go.
type names struct {
	address string // IP:port

	mu    sync.Mutex // guards known
	known []string   // IPv4 addresses
}

func startNames(t *testing.T) *names {
	t.Helper()
	n := &names{address: freeAddress(t)}
	socket, err := net.ListenPacket("udp", n.address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 4096)
		for {
			size, from, err := socket.ReadFrom(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if answer := n.answer(buffer[:size]); answer != nil {
				_, _ = socket.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() {
		_ = socket.Close()
		<-done
	})
	return n
}

// set changes what the name stands for.
func (n *names) set(addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = addresses
}

func (n *names) answer(query []byte) []byte {
	var message dnsmessage.Message
	if message.Unpack(query) != nil || len(message.Questions) != 1 {
		return nil
	}
	question := message.Questions[0]
	message.Response, message.Additionals = true, nil
	n.mu.Lock()
	defer n.mu.Unlock()
	if question.Type == dnsmessage.TypeA {
		for _, address := range n.known {
			message.Answers = append(message.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 1},
				Body:   &dnsmessage.AResource{A: [4]byte(net.ParseIP(address).To4())},
			})
		}
	}
	packed, err := message.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// The compose file's HAProxy finds nodes by one DNS name, and takes those that appear while it runs.
func TestHAProxyFollowsTheNodesBehindADNSName(t *testing.T) {
	dir := t.TempDir()
	_, port, _ := net.SplitHostPort(freeAddress(t))
	host := func(i int) string { return fmt.Sprintf("127.0.0.%d", i+1) } // all of 127.0.0.0/8 is loopback
	newNode := func(i int) *node {
		return &node{
			t: t, name: fmt.Sprintf("n%d", i), api: freeAddress(t), admin: freeAddress(t), gossip: freeAddress(t),
			app: net.JoinHostPort(host(i), port), log: filepath.Join(dir, fmt.Sprintf("n%d.log", i)),
		}
	}
	var cluster nodes
	var seed string
	start := func(i int) {
		n := newNode(i)
		if seed == "" {
			seed = n.gossip
		}
		n.start(seed, "sqlite:"+filepath.Join(dir, "klatch.db"), "--drain-grace", "2s")
		cluster = append(cluster, n)
		n.waitReady()
	}
	t.Cleanup(func() { cluster.stop() })
	start(1)
	start(2)
	dns := startNames(t)
	dns.set(host(1), host(2))
	balancer := runHAProxy(t, "DNS="+dns.address, "NODES=nodes.test:"+port)

	servedBy := func() []string {
		var served []string
		for range 12 {
			a := send(t, http.MethodPost, "http://"+balancer.nonsticky+"/app", "", []int{http.StatusCreated})
			if !slices.Contains(served, a.app.Node) {
				served = append(served, a.app.Node)
			}
		}
		slices.Sort(served)
		return served
	}
	eventuallyServedBy := func(want ...string) {
		t.Helper()
		eventually(t, func() error {
			if got := servedBy(); !slices.Equal(got, want) {
				return fmt.Errorf("served by %v, want %v", got, want)
			}
			return nil
		})
	}
	eventuallyServedBy("n1", "n2")

	start(3)
	dns.set(host(1), host(2), host(3))
	eventuallyServedBy("n1", "n2", "n3")

	created := send(t, http.MethodPost, "http://"+balancer.sticky+"/app", "", []int{http.StatusCreated})
	cookie, owner := created.cookie, created.app.Node
	for range 20 {
		a := send(t, http.MethodPut, "http://"+balancer.sticky+"/app", "", ok, "Cookie: klatch="+cookie)
		if cookie = a.cookie; a.app.Node != owner {
			t.Fatalf("a request of %s's session was served by %s", owner, a.app.Node)
		}
	}

	// As docker compose stop does it: the signal first; the name is forgotten when the process has ended.
	_ = cluster[0].process.Process.Signal(syscall.SIGTERM)
	for drained := false; !drained; {
		servedBy() // fails the test if a request fails
		select {
		case <-cluster[0].ended:
			drained = true
		default:
		}
	}
	dns.set(host(2), host(3))
	eventuallyServedBy("n2", "n3")
}

// restAPI is the part of Couchbase's REST API that deploy/couchbase/init.sh calls. It answers as the documentation of
// version 7.6 says; no real server has confirmed it here.
type restAPI struct {
	enterprise bool

	mu       sync.Mutex // guards the rest
	admin    [2]string  // user and password; empty before there is a cluster
	users    map[string]url.Values
	made     map[string]url.Values
	refusals int // so many calls that change something are refused as by a busy server
	changes  []string
}

func (s *restAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = r.ParseForm()
	user, password, _ := r.BasicAuth()
	form, path := r.PostForm, strings.TrimSuffix(r.URL.Path, "/")
	answer := func(status int, body any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	if path == "/pools" {
		answer(200, map[string]any{"isEnterprise": s.enterprise, "pools": []string{}})
		return
	}
	if path == "/whoami" {
		if known, ok := s.users[user]; !ok || known.Get("password") != password {
			answer(401, "")
			return
		}
		answer(200, map[string]string{"id": user})
		return
	}
	if s.admin != [2]string{} && s.admin != [2]string{user, password} {
		answer(401, "")
		return
	}
	if r.Method != http.MethodGet {
		if s.refusals > 0 {
			s.refusals--
			answer(503, "busy")
			return
		}
		s.changes = append(s.changes, r.Method+" "+path)
	}
	healthy := map[string]any{"nodes": []any{map[string]string{"status": "healthy"}}}
	switch {
	case r.Method == http.MethodPost && path == "/clusterInit":
		s.admin = [2]string{form.Get("username"), form.Get("password")}
		s.made[path] = form
		answer(200, map[string]string{})
	case s.admin == [2]string{}:
		answer(404, "unknown pool")
	case r.Method == http.MethodGet && path == "/pools/default":
		answer(200, healthy)
	case r.Method == http.MethodGet && s.made[path] != nil:
		answer(200, healthy)
	case r.Method == http.MethodGet:
		answer(404, "Requested resource not found.")
	case r.Method == http.MethodPut && strings.HasPrefix(path, "/settings/rbac/users/local/"):
		s.users[filepath.Base(path)] = form
		answer(200, "")
	case r.Method == http.MethodPost:
		name := path + "/" + form.Get("name")
		if s.made[name] != nil {
			answer(400, map[string]any{"errors": map[string]string{"_": fmt.Sprintf("%q already exists", form.Get("name"))}})
			return
		}
		s.made[name] = form
		answer(202, "")
	default:
		answer(405, "")
	}
}

// runInit runs the initialiser and returns what it said.
func runInit(t *testing.T, server *restAPI, adminPassword, storePassword string) (string, error) {
	t.Helper()
	listener := httptest.NewServer(server)
	defer listener.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{"admin": adminPassword, "store": storePassword} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	script := exec.CommandContext(ctx, "sh", "../deploy/couchbase/init.sh")
	script.Env = append(os.Environ(), "COUCHBASE_URL="+listener.URL, "PATIENCE=20", "TMPDIR="+dir,
		"ADMIN_PASSWORD_FILE="+filepath.Join(dir, "admin"), "STORE_PASSWORD_FILE="+filepath.Join(dir, "store"))
	var out bytes.Buffer
	script.Stdout, script.Stderr = &out, &out
	err := script.Run()
	left, _ := filepath.Glob(filepath.Join(dir, "tmp*"))
	if len(left) > 0 {
		t.Errorf("the script left %v behind", left)
	}
	if s := out.String(); strings.Contains(s, adminPassword) || strings.Contains(s, storePassword) {
		t.Errorf("the output shows a password: %s", s)
	}
	return out.String(), err
}

func TestTheCouchbaseInitialiserMakesWhatIsMissingAndMayRunAgain(t *testing.T) {
	const adminPassword, storePassword = `quotes" and \ and +&=%`, `s p a c e s '"\+&=%`
	for edition, roles := range map[string]string{
		"community":  "bucket_full_access[klatch]",
		"enterprise": "data_reader[klatch:klatch:records],data_writer[klatch:klatch:records]",
	} {
		t.Run(edition, func(t *testing.T) {
			server := &restAPI{enterprise: edition == "enterprise", users: map[string]url.Values{}, made: map[string]url.Values{}, refusals: 2}
			if out, err := runInit(t, server, adminPassword, storePassword); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			const bucket = "/pools/default/buckets/klatch"
			for _, path := range []string{"/clusterInit", bucket, bucket + "/scopes/klatch", bucket + "/scopes/klatch/collections/records"} {
				if server.made[path] == nil {
					t.Errorf("%s was not made", path)
				}
			}
			if got := server.made["/clusterInit"].Get("services"); got != "kv" {
				t.Errorf("services are %q", got)
			}
			if got := server.users["klatch"]; got.Get("roles") != roles || got.Get("password") != storePassword {
				t.Errorf("the user is %v, want roles %s", got, roles)
			}

			server.changes = nil
			if out, err := runInit(t, server, adminPassword, "rotated"); err != nil {
				t.Fatalf("the second run: %v\n%s", err, out)
			}
			if slices.Contains(server.changes, "POST /clusterInit") || slices.Contains(server.changes, "POST /pools/default/buckets") {
				t.Errorf("the second run did %v", server.changes)
			}
			if got := server.users["klatch"].Get("password"); got != "rotated" {
				t.Errorf("the password is %q after it was rotated", got)
			}

			if out, err := runInit(t, server, "another", storePassword); err == nil || !strings.Contains(out, "refuses the password") {
				t.Errorf("with another administrator's password: %v\n%s", err, out)
			}
		})
	}
}

// A container's health check, and the commands that run in it, have the node's environment and no shell.
func TestCommandsBesideANodeUseItsSettings(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("a-token-of-this-test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := &node{
		t: t, name: "n1", api: freeAddress(t), admin: freeAddress(t), app: freeAddress(t), gossip: freeAddress(t),
		log: filepath.Join(dir, "n1.log"),
	}
	n.start(n.gossip, "memory:", "--api-token-file", token)
	t.Cleanup(nodes{n}.stop)
	n.waitReady()
	admin := "http://" + n.admin
	if code, out, stderr := klatch(t, dir, nil, "health", "--admin", admin); code != 0 || !strings.Contains(out, "n1 is ready") {
		t.Errorf("health exits with %d: %s%s", code, out, stderr)
	}
	if code, _, _ := klatch(t, dir, nil, "status", "--admin", admin); code != 1 {
		t.Errorf("status without the token exits with %d", code)
	}
	if code, _, stderr := klatch(t, dir, []string{"KLATCH_API_TOKEN_FILE=" + token}, "status", "--admin", admin); code != 0 {
		t.Errorf("status with the node's token exits with %d: %s", code, stderr)
	}
	n.kill()
	if code, _, stderr := klatch(t, dir, nil, "health", "--admin", admin); code != 1 || !strings.Contains(stderr, "no node answers") {
		t.Errorf("health of a dead node exits with %d: %s", code, stderr)
	}
}

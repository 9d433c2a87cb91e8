//go:build e2e && linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace of this test process.
type namespace struct {
	name string
	file *os.File // keeps it open
	home *os.File // the namespace of the test process
}

// namespacePrefix begins the names of all, which go on with the process id of their test.
const namespacePrefix = "klatch-"

// sweep removes once what tests that were killed have left behind.
var sweep = sync.OnceFunc(func() {
	left, _ := filepath.Glob("/run/netns/" + namespacePrefix + "*") // the pattern is well-formed
	for _, path := range left {
		name := filepath.Base(path)
		owner, _, _ := strings.Cut(strings.TrimPrefix(name, namespacePrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err != nil || syscall.Kill(pid, 0) == nil {
			continue
		}
		orphans, _ := exec.Command("ip", "netns", "pids", name).Output() // best effort
		for orphan := range strings.FieldsSeq(string(orphans)) {
			if pid, err := strconv.Atoi(orphan); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		_ = exec.Command("ip", "netns", "delete", name).Run()
	}
})

// newNamespace makes a namespace that ends with the test. Where the kernel forbids it, the test is skipped, and
// says so.
func newNamespace(t *testing.T, suffix string) *namespace {
	t.Helper()
	sweep()
	name := fmt.Sprintf("%s%d-%s", namespacePrefix, os.Getpid(), suffix)
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			t.Fatal("the command ip is missing: make e2e installs it")
		}
		if strings.Contains(string(out), "not permitted") || strings.Contains(string(out), "Permission denied") {
			t.Skipf("NOT TESTED: this kernel, or this user, may not make network namespaces (run as root): %s", out)
		}
		t.Fatalf("ip netns add: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "delete", name).CombinedOutput(); err != nil {
			t.Errorf("ip netns delete: %v: %s", err, out)
		}
	})
	file, err := os.Open("/run/netns/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	home, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { home.Close() })
	return &namespace{name: name, file: file, home: home}
}

// do calls f inside the namespace: sockets that it opens and processes that it starts belong there.
func (n *namespace) do(f func() error) error {
	runtime.LockOSThread()
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter namespace %s: %w", n.name, err)
	}
	defer func() {
		// A thread that cannot return stays locked, and so ends with its goroutine.
		if unix.Setns(int(n.home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}

// command runs a command inside the namespace, with text as its input, and returns its output.
func (n *namespace) command(t *testing.T, text, name string, args ...string) string {
	t.Helper()
	process := exec.Command(name, args...)
	process.Stdin = strings.NewReader(text)
	var out []byte
	err := n.do(func() (err error) {
		out, err = process.CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%s %s in %s (make e2e installs what is needed): %v\n%s%s", name, strings.Join(args, " "), n.name, err, text, out)
	}
	return string(out)
}

// networks are those that this process has made, by the first three bytes of their addresses: from where to dial
// an address inside.
var (
	networks     sync.Map // string to *namespace
	networkCount atomic.Int32
)

// The helpers of this package send by the default client, whether a node is inside a namespace or not.
func init() {
	transport := http.DefaultTransport.(*http.Transport)
	transport.DialContext, transport.MaxIdleConnsPerHost = dialAnywhere, 64
}

// dialAnywhere dials addresses inside the namespaces that tests have made from inside, and all others from here.
func dialAnywhere(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	inside, ok := networks.Load(address[:strings.LastIndexByte(address, '.')+1])
	if !ok {
		return dialer.DialContext(ctx, network, address)
	}
	var connection net.Conn
	err := inside.(*namespace).do(func() (err error) {
		connection, err = dialer.DialContext(ctx, network, address)
		return err
	})
	return connection, err
}

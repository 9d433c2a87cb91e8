// Package caves starts gocaves for a test, in a process of its own: see cmd/cavesserver.
package caves

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Start builds and starts a cluster of two nodes that ends with the test. It returns the URL of the bucket
// as klatch takes it. The user is Administrator and the password is password.
func Start(t testing.TB) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "cavesserver")
	if out, err := exec.Command("go", "build", "-o", binary, "klatch/test/cmd/cavesserver").CombinedOutput(); err != nil {
		t.Fatalf("caves: build: %v\n%s", err, out)
	}
	server := exec.Command(binary)
	server.Stderr = os.Stderr
	input, err := server.StdinPipe() // whose end, be it by our death, ends the server
	if err != nil {
		t.Fatal(err)
	}
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatalf("caves: start: %v", err)
	}
	t.Cleanup(func() {
		input.Close()
		if err := server.Wait(); err != nil {
			t.Errorf("caves: stop: %v", err)
		}
	})
	url, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("caves: the server does not say where it is: %v", err)
	}
	return strings.TrimSpace(url)
}

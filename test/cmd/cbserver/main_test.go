package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
)

// served is a cbserver that runs in this process.
type served struct {
	url, admin string
	input      io.Writer
	output     *bufio.Reader
}

// serve starts a cbserver on free ports and stops it at the end of the test.
func serve(t *testing.T) served {
	t.Helper()
	in, input := io.Pipe()
	output, out := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-kv", "0", "-mgmt", "0", "-bucket", "sessions", "-admin", "0"}, in, out)
		out.Close()
	}()
	t.Cleanup(func() {
		input.Close()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("cbserver: %v", err)
		}
	})
	s := served{input: input, output: bufio.NewReader(output)}
	s.url = s.line(t)
	s.admin = strings.TrimPrefix(s.line(t), "admin ")
	return s
}

func (s served) line(t *testing.T) string {
	t.Helper()
	line, err := s.output.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

// post sends a command by HTTP.
func (s served) post(t *testing.T, command string) (int, string) {
	t.Helper()
	response, err := http.Post(s.admin, "text/plain", strings.NewReader(command))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(body))
}

func TestFirstLineIsTheStore(t *testing.T) {
	s := serve(t)
	if !strings.HasPrefix(s.url, "couchbase://127.0.0.1:") || !strings.HasSuffix(s.url, "/sessions") {
		t.Fatalf("the first line is %q", s.url)
	}
	address, bucketName := s.url[:strings.LastIndex(s.url, "/")], "sessions"
	cluster, err := gocb.Connect(address, gocb.ClusterOptions{Username: "Administrator", Password: "password"})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close(nil)
	bucket := cluster.Bucket(bucketName)
	if err := bucket.WaitUntilReady(20*time.Second, &gocb.WaitUntilReadyOptions{ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeKeyValue}}); err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.DefaultCollection().Insert("k", "v", nil); err != nil {
		t.Fatal(err)
	}
	if _, answer := s.post(t, "documents"); answer != "1" {
		t.Fatalf("the server has %q documents, want 1", answer)
	}

	s.post(t, "fault close-after")
	if _, err := bucket.DefaultCollection().Upsert("k", "w", nil); err == nil {
		t.Fatal("a write whose answer never comes succeeds")
	}
}

func TestCommands(t *testing.T) {
	s := serve(t)
	for _, command := range []string{"freeze", "thaw", "stop", "start", "disconnect", "fault drop-answer 10 1ms 2ms", "fault none"} {
		if _, err := fmt.Fprintln(s.input, command); err != nil {
			t.Fatal(err)
		}
		if answer := s.line(t); answer != "ok" {
			t.Errorf("%s: %q", command, answer)
		}
		if code, answer := s.post(t, command); answer != "ok" && command != "start" {
			t.Errorf("%s by HTTP: %d %q", command, code, answer)
		}
	}
	for _, command := range []string{"nonsense", "", "fault", "fault nonsense", "fault refuse many", "start"} {
		if code, answer := s.post(t, command); code != http.StatusBadRequest || !strings.HasPrefix(answer, "error: ") {
			t.Errorf("%q: %d %q, want an error", command, code, answer)
		}
	}
}

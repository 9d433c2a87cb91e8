package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHealthExitsByWhatTheNodeAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		args         []string
		path         string
		status       int
		body         string
		healthy      bool
		saysAnywhere string
	}{
		"ready":      {path: "/readyz", status: 200, body: `{"node":"n1","ready":true,"state":"ready"}`, healthy: true, saysAnywhere: "n1 is ready"},
		"degraded":   {path: "/readyz", status: 200, body: `{"node":"n1","ready":true,"state":"ready","degraded":"store"}`, healthy: true, saysAnywhere: "degraded: store"},
		"draining":   {path: "/readyz", status: 503, body: `{"node":"n1","ready":false,"state":"draining"}`, saysAnywhere: "not ready: draining"},
		"live":       {args: []string{"--live"}, path: "/healthz", status: 200, body: `{"node":"n1","status":"ok"}`, healthy: true, saysAnywhere: "n1 is ok"},
		"json":       {args: []string{"-o", "json"}, path: "/readyz", status: 200, body: `{"node":"n1"}`, healthy: true, saysAnywhere: `{"node":"n1"}`},
		"not a node": {path: "/readyz", status: 200, body: `<html>`, saysAnywhere: "admin address"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != c.path {
					t.Errorf("asked %s, want %s", r.URL.Path, c.path)
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			var out bytes.Buffer
			root := newRoot()
			root.SetOut(&out)
			root.SetArgs(append([]string{"health", "--admin", server.URL}, c.args...))
			err := root.Execute()
			said := out.String()
			if err != nil {
				said += err.Error()
			}
			if (err == nil) != c.healthy || !strings.Contains(said, c.saysAnywhere) {
				t.Errorf("healthy is %v, says %q; want %v, %q", err == nil, said, c.healthy, c.saysAnywhere)
			}
		})
	}
}

func TestHealthIsNotPatient(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	root := newRoot()
	root.SetArgs([]string{"health", "--admin", server.URL, "--timeout", "20ms"})
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "within 20ms") {
		t.Errorf("got %v", err)
	}
}

func TestCommandsTakeTheTokenFromTheEnvironmentOrTheNodesFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("# rotated in May\n\nfrom-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		token, file, want string
		fails             bool
	}{
		"none":           {},
		"file":           {file: file, want: "from-the-file"},
		"variable first": {token: "from-the-variable", file: file, want: "from-the-variable"},
		"no such file":   {file: file + "x", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KLATCH_API_TOKEN", c.token)
			t.Setenv("KLATCH_API_TOKEN_FILE", c.file)
			got, err := apiToken()
			if got != c.want || (err != nil) != c.fails {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

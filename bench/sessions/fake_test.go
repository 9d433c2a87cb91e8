package sessions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeApp is an application that keeps sessions as it should, until misbehave takes a request over.
type fakeApp struct {
	// misbehave answers a request itself and reports true, or leaves it to the application.
	misbehave func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex // guards the rest
	last     int
	sessions map[string]*fakeSession
	requests []string // method and query, in order
}

type fakeSession struct{ version, attributes int }

func startFake(t *testing.T, misbehave func(w http.ResponseWriter, r *http.Request) bool) (*fakeApp, string) {
	t.Helper()
	app := &fakeApp{misbehave: misbehave, sessions: map[string]*fakeSession{}}
	server := httptest.NewServer(app)
	t.Cleanup(server.Close)
	return app, server.URL
}

func (a *fakeApp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests = append(a.requests, r.Method+" "+r.URL.RawQuery)
	a.mu.Unlock()
	if r.URL.Path != "/app" {
		http.NotFound(w, r)
		return
	}
	if a.misbehave != nil && a.misbehave(w, r) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	id := "made-" + strconv.Itoa(a.last+1)
	s := &fakeSession{version: 100}
	if r.Method == http.MethodPost {
		a.last++
		s.attributes, _ = strconv.Atoi(r.URL.Query().Get("attributes"))
		a.sessions[id] = s
	} else {
		cookie, err := r.Cookie("klatch")
		if err != nil {
			http.Error(w, "no cookie", http.StatusBadRequest)
			return
		}
		id, _, _ = strings.Cut(cookie.Value, "~")
		if s = a.sessions[id]; s == nil {
			http.Error(w, "no session", http.StatusNotFound)
			return
		}
	}
	switch r.Method {
	case http.MethodPut:
		s.version++
	case http.MethodDelete:
		delete(a.sessions, id)
	}
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		setCookie(w, id, s.version)
	}
	answer(w, s.version, s.attributes)
}

func setCookie(w http.ResponseWriter, id string, version int) {
	http.SetCookie(w, &http.Cookie{Name: "klatch", Value: fmt.Sprintf("%s~%d.n1", id, version)})
}

func answer(w http.ResponseWriter, version, attributes int) {
	_ = json.NewEncoder(w).Encode(map[string]any{"node": "n1", "session": "8d85aaaa", "version": strconv.Itoa(version), "attributes": attributes})
}

// only lets misbehave have the requests of one method.
func only(method string, misbehave http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == method {
			misbehave(w, r)
		}
		return r.Method == method
	}
}

// execute runs the tool to its end with -o json.
func execute(t *testing.T, base string, args ...string) (code int, got report) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Main(t.Context(), append([]string{"-b", base, "-o", "json"}, args...), &stdout, &stderr)
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s%s", err, stdout.String(), stderr.String())
	}
	return code, got
}

package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// never is an interval of health checks that no test lives to see.
const never = time.Hour

// backendApp is a node's application as a test wants it.
type backendApp struct {
	server   *httptest.Server
	requests atomic.Int32 // besides health checks
	notReady atomic.Bool
	broken   atomic.Bool // hang up when a request has been read
}

// startBackends puts n applications named n1, n2, … before a pool.
func startBackends(t *testing.T, interval time.Duration, n int) (*pool, []*backendApp) {
	t.Helper()
	p := newPool(interval)
	var apps []*backendApp
	for i := range n {
		app := &backendApp{}
		name := fmt.Sprintf("n%d", i+1)
		app.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/readyz" {
				if app.notReady.Load() {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				return
			}
			app.requests.Add(1)
			body, err := io.ReadAll(r.Body)
			if err != nil || app.broken.Load() {
				panic(http.ErrAbortHandler)
			}
			fmt.Fprintf(w, "%s %s %s %s", name, r.Method, r.URL, body)
		}))
		t.Cleanup(app.server.Close)
		if err := p.add(name, app.server.URL); err != nil {
			t.Fatal(err)
		}
		apps = append(apps, app)
	}
	t.Cleanup(p.close) // before the servers close
	return p, apps
}

// startBalancer serves a balancer and returns its URL.
func startBalancer(t *testing.T, p *pool, sticky bool) string {
	t.Helper()
	server := httptest.NewServer(newBalancer(p, sticky))
	t.Cleanup(server.Close)
	return server.URL
}

// ask sends one request and returns the answer's status and text.
func ask(t *testing.T, method, url, cookie, body string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if cookie != "" {
		request.Header.Set("Cookie", "klatch="+cookie)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(said)
}

// askNode returns the name of the node that answered.
func askNode(t *testing.T, url, cookie string) string {
	t.Helper()
	_, text := ask(t, http.MethodGet, url+"/app", cookie, "")
	name, _, _ := strings.Cut(text, " ")
	return name
}

// expectProblem demands a problem document that says what to do.
func expectProblem(t *testing.T, status int, text string, wantStatus int, wantType string) {
	t.Helper()
	var document struct{ Type, Detail string }
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if status != wantStatus || document.Type != wantType || document.Detail == "" {
		t.Errorf("status %d, %+v; want %d and %s", status, document, wantStatus, wantType)
	}
}

func TestRequestsAreSpreadInTurn(t *testing.T) {
	p, apps := startBackends(t, never, 3)
	url := startBalancer(t, p, false)
	for range 30 {
		ask(t, http.MethodGet, url+"/app", "id~1.n2", "") // the route is for the sticky one alone
	}
	for i, app := range apps {
		if n := app.requests.Load(); n != 10 {
			t.Errorf("n%d has served %d requests of 30, want 10", i+1, n)
		}
	}
}

func TestARequestArrivesWhole(t *testing.T) {
	p, _ := startBackends(t, never, 1)
	url := startBalancer(t, p, false)
	status, text := ask(t, http.MethodPut, url+"/app?name=a%20b&value=%2F", "", "the body")
	if want := "n1 PUT /app?name=a%20b&value=%2F the body"; status != http.StatusOK || text != want {
		t.Errorf("status %d, %q; want %q", status, text, want)
	}
}

func TestASessionStaysOnTheNodeOfItsRoute(t *testing.T) {
	p, _ := startBackends(t, never, 3)
	url := startBalancer(t, p, true)
	for _, route := range []string{"n1", "n2", "n3"} {
		for range 10 {
			if name := askNode(t, url, "id~117.2~9."+route); name != route { // what follows the last dot counts
				t.Fatalf("%s's session was served by %s", route, name)
			}
		}
	}
}

func TestRequestsWithoutAKnownRouteAreSpread(t *testing.T) {
	for name, cookie := range map[string]string{"none": "", "unknown": "id~1.n9", "no dot": "n1", "empty": "id~1."} {
		t.Run(name, func(t *testing.T) {
			p, apps := startBackends(t, never, 3)
			url := startBalancer(t, p, true)
			for range 9 {
				askNode(t, url, cookie)
			}
			for i, app := range apps {
				if n := app.requests.Load(); n != 3 {
					t.Errorf("n%d has served %d requests of 9, want 3", i+1, n)
				}
			}
		})
	}
}

func TestASessionMovesWhenItsNodeIsNotReady(t *testing.T) {
	p, _ := startBackends(t, never, 3)
	url := startBalancer(t, p, true)
	p.all()[1].ready.Store(false)
	if name := askNode(t, url, "id~1.n2"); name == "n2" || name == "" {
		t.Errorf("served by %q", name)
	}
}

func TestWithoutAnyNodeTheAnswerSaysWhatToDo(t *testing.T) {
	for name, prepare := range map[string]func(*pool, []*backendApp){
		"none ready":   func(p *pool, _ []*backendApp) { p.all()[0].ready.Store(false) },
		"all refuse":   func(_ *pool, apps []*backendApp) { apps[0].server.Close() },
		"all are gone": func(p *pool, _ []*backendApp) { p.remove("n1") },
	} {
		t.Run(name, func(t *testing.T) {
			p, apps := startBackends(t, never, 1)
			url := startBalancer(t, p, false)
			prepare(p, apps)
			status, text := ask(t, http.MethodPost, url+"/app", "", "body")
			expectProblem(t, status, text, http.StatusServiceUnavailable, "urn:klatch:error:no-node")
			if !strings.Contains(text, "klatch demo add") {
				t.Errorf("it does not say what to do: %s", text)
			}
		})
	}
}

// The client's leaving is no node's failure: nothing is repeated and nothing taken out.
func TestAClientThatLeavesMarksNoNode(t *testing.T) {
	p, _ := startBackends(t, never, 2)
	handler := newBalancer(p, false)
	left := make(chan struct{})
	ctx, leave := testContext(t)
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/app", nil)
	leave()
	go func() {
		defer close(left)
		defer func() {
			if gone := recover(); gone != http.ErrAbortHandler {
				t.Errorf("ended with %v, want an aborted answer", gone)
			}
		}()
		handler.ServeHTTP(httptest.NewRecorder(), request)
	}()
	<-left
	for _, b := range p.all() {
		if !b.ready.Load() {
			t.Errorf("%s was taken out", b.name)
		}
	}
}

func TestManyClientsWhileNodesComeAndGo(t *testing.T) {
	p, apps := startBackends(t, time.Millisecond, 3)
	sticky, nonsticky := startBalancer(t, p, true), startBalancer(t, p, false)
	stop := make(chan struct{})
	var changes, clients sync.WaitGroup
	changes.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			apps[2].notReady.Store(i%2 == 0)
			if err := p.add("n4", apps[0].server.URL); err != nil {
				t.Error(err)
			}
			p.remove("n4")
		}
	})
	for i := range 8 {
		url := []string{sticky, nonsticky}[i%2]
		clients.Go(func() {
			for range 50 {
				if status, text := ask(t, http.MethodPut, url+"/app", "id~1.n3", "x"); status != http.StatusOK || !strings.HasSuffix(text, "PUT /app x") {
					t.Errorf("status %d, %q", status, text)
				}
			}
		})
	}
	clients.Wait()
	close(stop)
	changes.Wait()
}

// What a sticky balancer adds to each request.
func BenchmarkBalancer(b *testing.B) {
	p := newPool(never)
	defer p.close()
	for i := range 3 {
		if err := p.add(fmt.Sprintf("n%d", i+1), "http://127.0.0.1:1"); err != nil {
			b.Fatal(err)
		}
	}
	lb := &balancer{pool: p, sticky: true}
	request := httptest.NewRequest(http.MethodGet, "/app", nil)
	request.Header.Set("Cookie", "klatch=id~117709288986181633.n2")
	b.ReportAllocs()
	for b.Loop() {
		if lb.candidates(request)[0].name != "n2" {
			b.Fatal("not sticky")
		}
	}
}

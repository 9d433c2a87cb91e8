package demo

import (
	"net/http"
	"strings"
	"testing"
)

func TestARefusedRequestGoesToAnotherNodeWithItsBody(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodGet} {
		t.Run(method, func(t *testing.T) {
			p, apps := startBackends(t, never, 2)
			url := startBalancer(t, p, true)
			apps[0].server.Close()
			body := strings.Repeat("the whole body; ", 10_000)
			status, text := ask(t, method, url+"/app", "id~1.n1", body)
			if want := "n2 " + method + " /app " + body; status != http.StatusOK || text != want {
				t.Errorf("status %d, %d bytes %.60q; want %d bytes", status, len(text), text, len(want))
			}
			if p.all()[0].ready.Load() {
				t.Error("the node that refused still counts as ready")
			}
		})
	}
}

func TestABrokenRequestIsRepeatedIfItsMethodIsSafe(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodOptions} {
		p, apps := startBackends(t, never, 2)
		url := startBalancer(t, p, true)
		apps[0].broken.Store(true)
		status, text := ask(t, method, url+"/app", "id~1.n1", "")
		if want := "n2 " + method + " /app "; status != http.StatusOK || text != want {
			t.Errorf("%s: status %d, %q; want %q", method, status, text, want)
		}
	}
}

func TestABrokenRequestIsNotRepeatedIfTheNodeMayHaveDoneIt(t *testing.T) {
	for _, c := range []struct{ method, body string }{
		{http.MethodPost, "body"}, {http.MethodPost, ""}, {http.MethodPut, ""}, {http.MethodDelete, ""}, {http.MethodPatch, "body"},
	} {
		p, apps := startBackends(t, never, 2)
		url := startBalancer(t, p, true)
		// A connection that was used before is where net/http would send a request again by itself.
		askNode(t, url, "id~1.n1")
		apps[0].broken.Store(true)
		status, text := ask(t, c.method, url+"/app", "id~1.n1", c.body)
		expectProblem(t, status, text, http.StatusBadGateway, "urn:klatch:error:node-lost")
		if first, second := apps[0].requests.Load(), apps[1].requests.Load(); first != 2 || second != 0 {
			t.Errorf("%s %q: the nodes saw %d and %d requests, want 2 and 0", c.method, c.body, first, second)
		}
	}
}

func TestABodyThatWasReadIsNotSentHalf(t *testing.T) {
	p, apps := startBackends(t, never, 2)
	url := startBalancer(t, p, true)
	apps[0].broken.Store(true)
	status, text := ask(t, http.MethodGet, url+"/app", "id~1.n1", "a GET with a body")
	expectProblem(t, status, text, http.StatusBadGateway, "urn:klatch:error:node-lost")
}

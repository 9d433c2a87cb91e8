package sessions

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

func TestARunDoesWhatItsOptionsSay(t *testing.T) {
	app, base := startFake(t, nil)
	code, got := execute(t, base, "-t", "3", "-ct", "2", "-i", "4", "-ci", "5", "-ur", "50", "-a", "7", "-s", "20")
	if code != ok || got.Errors != 0 {
		t.Fatalf("exit code %d: %+v", code, got)
	}
	if n := got.Operations[create].Count; n != 12 {
		t.Errorf("%d CREATE, want 12", n)
	}
	if n := got.Operations[remove].Count; n != 12 {
		t.Errorf("%d DELETE, want 12", n)
	}
	if n := got.Operations[refresh].Count + got.Operations[update].Count; n != 120 {
		t.Errorf("%d REFRESH and UPDATE, want 120", n)
	}
	if len(app.sessions) != 0 {
		t.Errorf("%d sessions are left", len(app.sessions))
	}
}

func TestRequestsCarryTheOptions(t *testing.T) {
	app, base := startFake(t, nil)
	if code, got := execute(t, base, "-a", "1", "-s", "12", "-os", "3", "-ur", "100"); code != ok {
		t.Fatalf("%+v", got)
	}
	want := []string{`^POST attributes=1&size=12&sleep=3$`, `^PUT name=a0&sleep=3&value=[a-z0-9]{12}$`, `^DELETE sleep=3$`}
	for i, pattern := range want {
		if !regexp.MustCompile(pattern).MatchString(app.requests[i]) {
			t.Errorf("request %d is %q, want %s", i, app.requests[i], pattern)
		}
	}
}

func TestFailuresAreCountedByKind(t *testing.T) {
	hangUp := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}
	for name, c := range map[string]struct {
		method    string
		misbehave http.HandlerFunc
		kind      string
		sample    string
	}{
		"stale":          {http.MethodGet, func(w http.ResponseWriter, _ *http.Request) { answer(w, 99, 10) }, "STALE", "version 99 to a request with version 100"},
		"server error":   {http.MethodPut, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "out of\nlemons", 500) }, "STATUS 500", "out of lemons"},
		"gone":           {http.MethodDelete, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", 404) }, "STATUS 404", ""},
		"redirect":       {http.MethodGet, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, "STATUS 302", ""},
		"no JSON":        {http.MethodGet, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "BODY", ""},
		"no version":     {http.MethodGet, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"attributes":10}`)) }, "BODY", ""},
		"lost attribute": {http.MethodGet, func(w http.ResponseWriter, _ *http.Request) { answer(w, 100, 9) }, "ATTRIBUTES", "9 attributes, want 10"},
		"hangs up":       {http.MethodPut, hangUp, "TRANSPORT", ""},
		// The connection was used before, by CREATE: here net/http would send the GET again.
		"hangs up on GET": {http.MethodGet, hangUp, "TRANSPORT", ""},
		"half an answer": {http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"node"`))
		}, "TRANSPORT", ""},
		"no cookie": {http.MethodPost, func(w http.ResponseWriter, _ *http.Request) { answer(w, 100, 10) }, "COOKIE", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, base := startFake(t, only(c.method, c.misbehave))
			percent := "0"
			if c.method == http.MethodPut {
				percent = "100"
			}
			code, got := execute(t, base, "-ur", percent)
			if code != failed || got.Errors != 1 || got.Kinds[c.kind] != 1 {
				t.Errorf("exit code %d, %+v; want one %s", code, got, c.kind)
			}
			if len(got.Samples) != 1 || !strings.Contains(got.Samples[0], c.sample) || strings.Contains(got.Samples[0], "\n") {
				t.Errorf("samples %q, want %q in one line", got.Samples, c.sample)
			}
		})
	}
}

func TestARequestIsNeverRepeated(t *testing.T) {
	var reads atomic.Int32
	_, base := startFake(t, only(http.MethodGet, func(http.ResponseWriter, *http.Request) {
		reads.Add(1)
		panic(http.ErrAbortHandler) // the connection closes without an answer
	}))
	execute(t, base, "-ur", "0")
	if n := reads.Load(); n != 1 {
		t.Errorf("the server saw %d requests, want 1", n)
	}
}

func TestASessionThatIsNotAsItShouldBeIsEnded(t *testing.T) {
	app, base := startFake(t, nil)
	app.misbehave = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			r.URL.RawQuery = "attributes=1"
		}
		return false
	}
	code, got := execute(t, base, "-a", "2")
	if code != failed || got.Kinds["ATTRIBUTES"] != 1 || got.Operations[remove].Count != 1 {
		t.Errorf("exit code %d: %+v", code, got)
	}
	if len(app.sessions) != 0 {
		t.Error("the session is left")
	}
}

// Two children update at the same time and the answer of the older commit comes last: requests after that
// carry the newer version.
func TestChildrenKeepTheHighestVersionWhateverTheOrderOfAnswers(t *testing.T) {
	const newer, older = 300, 200
	var updates atomic.Int32
	newerAnswered := make(chan struct{})
	app, base := startFake(t, nil)
	app.misbehave = func(w http.ResponseWriter, r *http.Request) bool {
		switch r.Method {
		case http.MethodPut:
			if updates.Add(1) == 1 {
				<-newerAnswered
				setCookie(w, "made-1", older)
				answer(w, older, 10)
			} else {
				setCookie(w, "made-1", newer)
				answer(w, newer, 10)
				close(newerAnswered)
			}
			return true
		case http.MethodDelete:
			cookie, _ := r.Cookie("klatch")
			if cookie.Value != "made-1~300.n1" {
				t.Errorf("the last request carries %s, want version %d", cookie.Value, newer)
			}
			answer(w, newer, 0)
			return true
		}
		return false
	}
	if code, got := execute(t, base, "-ct", "2", "-ur", "100"); code != ok {
		t.Errorf("%+v", got)
	}
}

func TestDebugPrintsALinePerOperation(t *testing.T) {
	_, base := startFake(t, nil)
	var stdout, stderr bytes.Buffer
	if code := Main(t.Context(), []string{"-b", base, "-d", "-ct", "2", "-ur", "0"}, &stdout, &stderr); code != ok {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	line := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3} \(parent-1\|child-2\): REFRESH res=n1:8d85aaaa time=\d+$`)
	if !line.MatchString(stdout.String()) {
		t.Errorf("no line like %s in\n%s", line, stdout.String())
	}
}

func TestDebugLeavesTheJSONAlone(t *testing.T) {
	_, base := startFake(t, nil)
	var stdout, stderr bytes.Buffer
	Main(t.Context(), []string{"-b", base, "-d", "-o", "json"}, &stdout, &stderr)
	if !json.Valid(stdout.Bytes()) || !strings.Contains(stderr.String(), "CREATE res=") {
		t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
	}
}

func TestAnInterruptedRunReportsWhatWasDone(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	app, base := startFake(t, nil)
	var reads atomic.Int32
	app.misbehave = func(http.ResponseWriter, *http.Request) bool {
		if reads.Add(1) == 10 {
			interrupt()
		}
		return false
	}
	var stdout, stderr bytes.Buffer
	code := Main(ctx, []string{"-b", base, "-i", "1000000", "-ur", "0"}, &stdout, &stderr)
	if code != failed || !strings.HasPrefix(stdout.String(), "interrupted") {
		t.Errorf("exit code %d:\n%s", code, stdout.String())
	}
	if !strings.Contains(stdout.String(), "ERRORS: 0\n") || !strings.Contains(stdout.String(), "CREATE count: ") {
		t.Errorf("what was cut off is no error, and the rest is reported:\n%s", stdout.String())
	}
}

func TestNobodyThere(t *testing.T) {
	code, got := execute(t, "http://127.0.0.1:1")
	if code != failed || got.Kinds["TRANSPORT"] != 1 || len(got.Operations) != 0 {
		t.Errorf("exit code %d: %+v", code, got)
	}
}

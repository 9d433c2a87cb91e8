package session

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"klatch/store"
)

// site is one node's handler behind the middleware, on a real server.
type site struct {
	*httptest.Server
	nodes *nodes
	late  int
}

func serveSite(t *testing.T, handler http.HandlerFunc) *site {
	t.Helper()
	n := newNodes(t, nil)
	s := &site{nodes: n}
	s.Server = httptest.NewServer(n.all[0].Middleware(MiddlewareOptions{
		PlainHTTP: true,
		OnLate:    func(*http.Request) { s.late++ },
	})(handler))
	t.Cleanup(func() {
		s.Server.CloseClientConnections()
		s.Server.Close()
		n.close()
	})
	return s
}

func (s *site) get(t *testing.T, cookie string) (response *http.Response, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cookie != "" {
		request.AddCookie(&http.Cookie{Name: "klatch", Value: cookie})
	}
	response, err = s.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

func (s *site) session(t *testing.T) *Session {
	t.Helper()
	return s.nodes.create(0, map[string]string{"x": "0"})
}

func setX(value string) func(r *http.Request) {
	return func(r *http.Request) { FromContext(r.Context()).Session().Set("x", Bytes([]byte(value))) }
}

func TestTheCookieOfANewSessionHoldsIDVersionAndRoute(t *testing.T) {
	s := serveSite(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := FromContext(r.Context()).Start(Draft{}); err != nil {
			t.Error(err)
		}
	})
	response, _ := s.get(t, "")
	cookies := response.Cookies()
	if len(cookies) != 1 {
		t.Fatalf("cookies %v", cookies)
	}
	token, ok := ParseToken(cookies[0].Value)
	if !ok || token.Route != "n1" || token.Version == 0 || strings.Count(cookies[0].Value, ".") != 1 {
		t.Errorf("cookie %q", cookies[0].Value)
	}
	if !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode {
		t.Errorf("cookie attributes %+v", cookies[0])
	}
	s.nodes.load(1, token.ID)
}

func TestSecureIsTheDefault(t *testing.T) {
	n := newNodes(t, nil)
	defer n.close()
	recorder := httptest.NewRecorder()
	n.all[0].Middleware(MiddlewareOptions{})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := FromContext(r.Context()).Start(Draft{}); err != nil {
			t.Error(err)
		}
	})).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	if cookies := recorder.Result().Cookies(); len(cookies) != 1 || !cookies[0].Secure {
		t.Errorf("cookies %v", cookies)
	}
}

func TestAChangeIsSavedBeforeTheFirstByteLeaves(t *testing.T) {
	var s *site
	var id string
	s = serveSite(t, func(w http.ResponseWriter, r *http.Request) {
		setX("1")(r)
		fmt.Fprint(w, "begun")
		s.nodes.expectContent(s.nodes.load(1, id), map[string]string{"x": "1"})
	})
	before := s.session(t)
	id = before.ID()
	response, body := s.get(t, before.Token().String())
	if body != "begun" || len(response.Cookies()) != 1 {
		t.Errorf("body %q, cookies %v", body, response.Cookies())
	}
}

func TestAnUnchangedSessionIsNotWrittenAndSetsNoCookie(t *testing.T) {
	s := serveSite(t, func(w http.ResponseWriter, r *http.Request) { setX("0")(r) })
	token := s.session(t).Token()
	puts := s.nodes.store.puts.Load()
	response, _ := s.get(t, token.String())
	if s.nodes.store.puts.Load() != puts || len(response.Cookies()) != 0 || response.Header.Get("Vary") != "" {
		t.Errorf("headers %v after %d writes", response.Header, s.nodes.store.puts.Load()-puts)
	}
}

func TestAFailedSaveIsAnErrorPageAlone(t *testing.T) {
	s := serveSite(t, func(w http.ResponseWriter, r *http.Request) {
		setX("1")(r)
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("ETag", `"handler"`)
		w.WriteHeader(http.StatusCreated)
		if _, err := fmt.Fprint(w, "the handler's answer"); err == nil {
			t.Error("writing the answer after a failed save reported no error")
		}
		if err := http.NewResponseController(w).Flush(); err == nil {
			t.Error("flushing after a failed save reported no error")
		}
	})
	token := s.session(t).Token()
	s.nodes.store.hook(func(func() (store.CAS, error)) (store.CAS, error) { return 0, store.ErrUnavailable })
	response, body := s.get(t, token.String())
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, headers %v", response.StatusCode, response.Header)
	}
	if strings.Contains(body, "handler") || response.Header.Get("ETag") != "" || len(response.Cookies()) != 0 {
		t.Errorf("the handler's answer shows: %v %q", response.Header, body)
	}
}

func TestAStreamingAnswerIsSavedOnce(t *testing.T) {
	s := serveSite(t, func(w http.ResponseWriter, r *http.Request) {
		setX("1")(r)
		for range 3 {
			fmt.Fprint(w, "part ")
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			setX("too late")(r)
		}
	})
	before := s.session(t)
	puts := s.nodes.store.puts.Load()
	if _, body := s.get(t, before.Token().String()); body != "part part part " {
		t.Errorf("body %q", body)
	}
	if n := s.nodes.store.puts.Load() - puts; n != 1 {
		t.Errorf("%d writes", n)
	}
	s.nodes.expectContent(s.nodes.load(0, before.ID()), map[string]string{"x": "1"})
	if s.late != 1 {
		t.Errorf("a late change was reported %d times", s.late)
	}
}

func TestEarlyHintsDoNotSave(t *testing.T) {
	var s *site
	s = serveSite(t, func(w http.ResponseWriter, r *http.Request) {
		puts := s.nodes.store.puts.Load()
		setX("1")(r)
		w.WriteHeader(http.StatusEarlyHints)
		if s.nodes.store.puts.Load() != puts {
			t.Error("an informational answer saved the session")
		}
	})
	before := s.session(t)
	s.get(t, before.Token().String())
	s.nodes.expectContent(s.nodes.load(0, before.ID()), map[string]string{"x": "1"})
}

func TestAPanickingHandlerSavesNothing(t *testing.T) {
	n := newNodes(t, nil)
	defer n.close()
	before := n.create(0, map[string]string{"x": "0"})
	handler := n.all[0].Middleware(MiddlewareOptions{})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		setX("1")(r)
		panic(http.ErrAbortHandler)
	}))
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.AddCookie(&http.Cookie{Name: "klatch", Value: before.Token().String()})
	func() {
		defer func() { _ = recover() }()
		handler.ServeHTTP(httptest.NewRecorder(), request)
	}()
	n.expectContent(n.load(1, before.ID()), map[string]string{"x": "0"})
}

func TestEndingASessionExpiresTheCookie(t *testing.T) {
	s := serveSite(t, func(w http.ResponseWriter, r *http.Request) { FromContext(r.Context()).End() })
	before := s.session(t)
	response, _ := s.get(t, before.Token().String())
	if cookies := response.Cookies(); len(cookies) != 1 || cookies[0].MaxAge >= 0 {
		t.Errorf("cookies %v", cookies)
	}
	s.nodes.expectGone(1, before.ID())
}

func TestCookiesThatNameNoLiveSession(t *testing.T) {
	var gone, has bool
	s := serveSite(t, func(w http.ResponseWriter, r *http.Request) {
		current := FromContext(r.Context())
		gone, has = current.Gone(), current.Session() != nil
	})
	live := s.session(t)
	ended := s.session(t)
	if _, err := s.nodes.all[0].Delete(t.Context(), ended.ID()); err != nil {
		t.Fatal(err)
	}
	for cookie, want := range map[string]struct{ gone, has bool }{
		"":                          {},
		"garbage":                   {},
		ended.Token().String():      {gone: true},
		live.ID():                   {has: true},
		live.ID() + "~1.elsewhere":  {has: true},
		live.ID() + "~999999999999": {has: true},
	} {
		response, _ := s.get(t, cookie)
		if gone != want.gone || has != want.has || response.StatusCode != http.StatusOK {
			t.Errorf("cookie %q: gone %t, has a session %t, status %d", cookie, gone, has, response.StatusCode)
		}
	}
}

func TestWithoutTheMiddlewareNoSessionCanStart(t *testing.T) {
	current := FromContext(t.Context())
	if _, err := current.Start(Draft{}); !errors.Is(err, ErrNoMiddleware) || current.Session() != nil {
		t.Errorf("error %v", err)
	}
}

func TestManyForgedCookiesCostFewReads(t *testing.T) {
	s := serveSite(t, func(http.ResponseWriter, *http.Request) {})
	gets := s.nodes.store.gets.Load()
	var cookies []string
	for i := range 100 {
		cookies = append(cookies, fmt.Sprintf("klatch=%027d", i))
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Cookie", strings.Join(cookies, "; "))
	response, err := s.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if n := s.nodes.store.gets.Load() - gets; n == 0 || n > maxCookies {
		t.Errorf("%d reads of the store for 100 forged cookies, want 1 to %d", n, maxCookies)
	}
}

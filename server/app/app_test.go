package app

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/zap"

	"klatch/proto"
	"klatch/session"
	"klatch/store/memory"
)

type alone struct{}

func (alone) Publish(...proto.Item) {}

func (alone) Confirm(context.Context, ...proto.Item) []string { return nil }

type reply struct {
	Node, Session, Version string
	Attributes             int
	Type                   string
}

// client keeps the session cookie as a browser does.
type client struct {
	t       *testing.T
	handler http.Handler
	cookie  string
}

func newClient(t *testing.T) *client {
	t.Helper()
	m, err := session.New(session.Options{Store: memory.New(memory.Options{}), News: alone{}, Node: "n1", Writer: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return &client{t: t, handler: New(Options{Sessions: m, Node: "n1", PlainHTTP: true, Logger: zap.NewNop()})}
}

func (c *client) do(method, target string, status int) reply {
	c.t.Helper()
	request := httptest.NewRequest(method, target, nil)
	if c.cookie != "" {
		request.Header.Set("Cookie", "klatch="+c.cookie)
	}
	recorder := httptest.NewRecorder()
	c.handler.ServeHTTP(recorder, request)
	if recorder.Code != status {
		c.t.Fatalf("%s %s: %d, want %d: %s", method, target, recorder.Code, status, recorder.Body)
	}
	for _, cookie := range recorder.Result().Cookies() {
		c.cookie = cookie.Value
	}
	var r reply
	if err := json.Unmarshal(recorder.Body.Bytes(), &r); err != nil {
		c.t.Fatalf("%s %s: %v: %s", method, target, err, recorder.Body)
	}
	return r
}

func TestTheLifeOfASession(t *testing.T) {
	c := newClient(t)
	created := c.do("POST", "/app?attributes=3&size=10", http.StatusCreated)
	token, ok := session.ParseToken(c.cookie)
	if !ok || created.Node != "n1" || created.Attributes != 3 || created.Session != proto.ShortHash(token.ID) || created.Version != token.Version.String() {
		t.Errorf("created %+v with cookie %s", created, c.cookie)
	}
	if read := c.do("GET", "/app", http.StatusOK); read != created {
		t.Errorf("read %+v", read)
	}
	for _, target := range []string{"/app", "/app?name=a1", "/app?name=a1&value=x", "/app?name=new&value="} {
		before, _ := proto.ParseVersion(c.do("GET", "/app", http.StatusOK).Version)
		after, _ := proto.ParseVersion(c.do("PUT", target, http.StatusOK).Version)
		if after <= before {
			t.Errorf("PUT %s left version %d at %d", target, before, after)
		}
	}
	if read := c.do("GET", "/app", http.StatusOK); read.Attributes != 4 {
		t.Errorf("%d attributes", read.Attributes)
	}
	held := c.cookie
	c.do("DELETE", "/app", http.StatusOK)
	c.cookie = held
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		if r := c.do(method, "/app", http.StatusNotFound); r.Type != "urn:klatch:error:session-gone" {
			t.Errorf("%s of a session that is gone: %+v", method, r)
		}
	}
}

func TestParametersAreBounded(t *testing.T) {
	c := newClient(t)
	for target, status := range map[string]int{
		"/app?attributes=-1":              http.StatusBadRequest,
		"/app?attributes=x":               http.StatusBadRequest,
		"/app?attributes=10001":           http.StatusBadRequest,
		"/app?size=99999999":              http.StatusBadRequest,
		"/app?sleep=61000":                http.StatusBadRequest,
		"/app?attributes=2&size=1000000":  http.StatusRequestEntityTooLarge,
		"/app?attributes=1&size=1048576":  http.StatusRequestEntityTooLarge,
		"/app?attributes=1&size=1048000":  http.StatusCreated,
		"/app?attributes=0&size=0&sleep=": http.StatusCreated,
	} {
		c.do("POST", target, status)
	}
}

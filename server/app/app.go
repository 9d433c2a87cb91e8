// Package app is the test application: sessions by cookie, through the middleware, on a port of its own. The
// demo cluster, the load tool and the tests use it.
//
//	POST   /app?attributes=N&size=BYTES   makes a session
//	GET    /app                           reads it
//	PUT    /app[?name=&value=]            changes one attribute: the named one, else any, to the value, else a random one
//	DELETE /app                           ends it
//
// Each takes sleep=MS, which waits inside the operation, between the load and the save. The answer is
// {"node", "session", "version", "attributes"}: the node that served it, a short hash of the session's id, the
// version of its content and the number of its attributes. A request whose session is gone gets 404.
package app

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.uber.org/zap"

	"klatch/internal/clock"
	"klatch/proto"
	"klatch/server/problem"
	"klatch/session"
)

const (
	maxSleep      = time.Minute
	maxAttributes = 10_000
)

// Options configure the application.
type Options struct {
	Sessions  *session.Manager
	Node      string // named in every answer
	PlainHTTP bool   // there is no TLS before the client
	Logger    *zap.Logger
}

type app struct{ Options }

// New returns the application.
func New(opts Options) http.Handler {
	a := app{opts}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /app", a.create)
	mux.HandleFunc("GET /app", a.read)
	mux.HandleFunc("PUT /app", a.update)
	mux.HandleFunc("DELETE /app", a.end)
	mux.HandleFunc("/app", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", "DELETE, GET, HEAD, POST, PUT")
		problem.MethodNotAllowed(r.Method).Write(w)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { problem.NotFound(r.URL.Path).Write(w) })
	return opts.Sessions.Middleware(session.MiddlewareOptions{
		PlainHTTP: opts.PlainHTTP,
		OnError:   a.fail,
		OnLate: func(r *http.Request) {
			opts.Logger.Warn("the session was changed after the answer had begun; the change is lost", zap.String("path", r.URL.Path))
		},
	})(mux)
}

func (a app) create(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	count, err := number(query, "attributes", 10, maxAttributes)
	if err != nil {
		problem.BadRequest("%v.", err).Write(w)
		return
	}
	size, err := number(query, "size", 100, a.Sessions.MaxBytes())
	if err != nil {
		problem.BadRequest("%v.", err).Write(w)
		return
	}
	if count*size > a.Sessions.MaxBytes() {
		a.fail(w, r, fmt.Errorf("%w: %d attributes of %d bytes", session.ErrTooLarge, count, size))
		return
	}
	attributes := make(map[string]session.Value, count)
	for i := range count {
		attributes[fmt.Sprintf("a%d", i)] = randomValue(size)
	}
	if !a.wait(w, r) {
		return
	}
	if _, err := session.FromContext(r.Context()).Start(session.Draft{Attributes: attributes}); err != nil {
		a.fail(w, r, err)
		return
	}
	a.answer(w, r, http.StatusCreated)
}

func (a app) read(w http.ResponseWriter, r *http.Request) {
	if a.requireSession(w, r) && a.wait(w, r) {
		a.answer(w, r, http.StatusOK)
	}
}

func (a app) update(w http.ResponseWriter, r *http.Request) {
	if !a.requireSession(w, r) || !a.wait(w, r) {
		return
	}
	s := session.FromContext(r.Context()).Session()
	query := r.URL.Query()
	name := query.Get("name")
	if name == "" {
		name = anyName(s)
	}
	value := session.Bytes([]byte(query.Get("value")))
	if !query.Has("value") {
		old, _ := s.Get(name)
		value = randomValue(max(len(old.Data), 16))
	}
	s.Set(name, value)
	a.answer(w, r, http.StatusOK)
}

func (a app) end(w http.ResponseWriter, r *http.Request) {
	if !a.requireSession(w, r) || !a.wait(w, r) {
		return
	}
	current := session.FromContext(r.Context())
	s := current.Session()
	current.End()
	if err := current.Save(r.Context()); err != nil {
		a.fail(w, r, err)
		return
	}
	a.write(w, http.StatusOK, s, 0)
}

// requireSession reports whether the request has a session; if not, it has answered.
func (a app) requireSession(w http.ResponseWriter, r *http.Request) bool {
	if session.FromContext(r.Context()).Session() != nil {
		return true
	}
	a.fail(w, r, session.ErrNotFound)
	return false
}

// wait sleeps as the request asks and reports whether to go on; if not, it has answered.
func (a app) wait(w http.ResponseWriter, r *http.Request) bool {
	ms, err := number(r.URL.Query(), "sleep", 0, int(maxSleep/time.Millisecond))
	if err != nil {
		problem.BadRequest("%v.", err).Write(w)
		return false
	}
	return clock.Sleep(r.Context(), time.Duration(ms)*time.Millisecond) == nil
}

// answer saves and tells what the session is now.
func (a app) answer(w http.ResponseWriter, r *http.Request, status int) {
	current := session.FromContext(r.Context())
	s := current.Session()
	if err := current.Save(r.Context()); err != nil {
		a.fail(w, r, err)
		return
	}
	a.write(w, status, s, s.Len())
}

func (a app) write(w http.ResponseWriter, status int, s *session.Session, attributes int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{ // fails only if the client is gone
		"node":       a.Node,
		"session":    proto.ShortHash(s.ID()),
		"version":    s.Version().String(),
		"attributes": attributes,
	})
}

func (a app) fail(w http.ResponseWriter, _ *http.Request, err error) {
	problem.Of(err).Write(w)
}

// number reads a whole number between 0 and most.
func number(query url.Values, name string, fallback, most int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("query parameter %s: use a whole number from 0 to %d", name, most)
	}
	return n, nil
}

func anyName(s *session.Session) string {
	var names []string
	for name := range s.All() {
		names = append(names, name)
	}
	if len(names) == 0 {
		return "a0"
	}
	return names[rand.IntN(len(names))]
}

func randomValue(size int) session.Value {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	p := make([]byte, size)
	for i := range p {
		p[i] = letters[rand.IntN(len(letters))]
	}
	return session.Bytes(p)
}

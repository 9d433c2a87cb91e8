package session

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"

	"klatch/store/near"
)

// MiddlewareOptions configure [Manager.Middleware]. The zero value is a safe default.
type MiddlewareOptions struct {
	CookieName string        // default "klatch"
	Path       string        // default "/"
	Domain     string        // default: the host that set it
	SameSite   http.SameSite // default Lax
	PlainHTTP  bool          // leave out the Secure attribute, where there is no TLS before the client

	// Level is the consistency of the load; the zero value is near.Session.
	Level near.Level

	// OnError answers a request whose session could not be loaded or saved. Nothing else has been
	// written, and it writes the whole answer. The default is a bare 503, 409 for a ConflictError, 413 for
	// ErrTooLarge and 404 for ErrGone.
	OnError func(http.ResponseWriter, *http.Request, error)

	// OnLate, if set, is told of a handler that changed its session after the first byte of the answer had
	// left. Such changes are not saved.
	OnLate func(*http.Request)
}

// maxCookies is how many session cookies of one request are looked at. A browser sends more than one where a
// site has set them for several paths or domains; each may cost a read of the store.
const maxCookies = 4

// Middleware gives each request its session, by cookie, and saves it before the first byte of the answer
// leaves. A save that fails makes an error page alone: nothing that the handler wrote reaches the client.
// If nothing changed, nothing is written. If the handler panics, nothing is saved.
func (m *Manager) Middleware(opts MiddlewareOptions) func(http.Handler) http.Handler {
	if opts.CookieName == "" {
		opts.CookieName = "klatch"
	}
	if opts.Path == "" {
		opts.Path = "/"
	}
	if opts.SameSite == 0 {
		opts.SameSite = http.SameSiteLaxMode
	}
	if opts.OnError == nil {
		opts.OnError = plainError
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			current, err := m.current(r, opts)
			if err != nil {
				opts.OnError(w, r, err)
				return
			}
			sw := &savingWriter{ResponseWriter: w, request: r, opts: &opts, current: current, before: maps.Clone(w.Header())}
			next.ServeHTTP(sw, r.WithContext(context.WithValue(r.Context(), contextKey{}, current)))
			_ = sw.begin() // an error has been answered
			if opts.OnLate != nil && sw.err == nil && current.unsaved() {
				opts.OnLate(r)
			}
		})
	}
}

// current loads the session that the request's cookie names.
func (m *Manager) current(r *http.Request, opts MiddlewareOptions) (*Current, error) {
	c := &Current{manager: m}
	looked := 0
	for _, cookie := range r.CookiesNamed(opts.CookieName) {
		token, ok := ParseToken(cookie.Value)
		if !ok {
			continue
		}
		if looked++; looked > maxCookies {
			break
		}
		s, err := m.Load(r.Context(), token.ID, LoadOptions{Level: opts.Level, After: token.Version})
		switch {
		case err == nil:
			c.session, c.gone = s, false
			return c, nil
		case errors.Is(err, ErrNotFound):
			c.gone = true
		default:
			return nil, err
		}
	}
	return c, nil
}

// savingWriter saves the session when the answer begins.
type savingWriter struct {
	http.ResponseWriter
	request *http.Request
	opts    *MiddlewareOptions
	current *Current
	before  http.Header // the headers as they were before the handler
	err     error       // why the save failed; then the handler's answer is thrown away
}

// begin saves once. After a failed save it answers the request itself and reports the error for ever.
func (w *savingWriter) begin() error {
	if w.current.sent {
		return w.err
	}
	w.current.sent = true
	if err := w.current.Save(w.request.Context()); err != nil {
		w.err = err
		clear(w.Header())
		maps.Copy(w.Header(), w.before)
		w.opts.OnError(w.ResponseWriter, w.request, err)
		return err
	}
	if w.current.wrote {
		w.setCookie()
	}
	return nil
}

func (w *savingWriter) setCookie() {
	cookie := &http.Cookie{
		Name:     w.opts.CookieName,
		Path:     w.opts.Path,
		Domain:   w.opts.Domain,
		SameSite: w.opts.SameSite,
		Secure:   !w.opts.PlainHTTP,
		HttpOnly: true,
	}
	if s := w.current.session; s != nil {
		cookie.Value = s.Token().String()
	} else {
		cookie.MaxAge = -1
	}
	http.SetCookie(w.ResponseWriter, cookie)
	w.Header().Add("Vary", "Cookie")
	w.Header().Add("Cache-Control", `no-cache="Set-Cookie"`)
}

// WriteHeader saves, then sends the header. Informational answers pass without a save.
func (w *savingWriter) WriteHeader(status int) {
	informational := status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
	if informational || w.begin() == nil {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write saves before the first byte.
func (w *savingWriter) Write(p []byte) (int, error) {
	if err := w.begin(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// FlushError saves and flushes; http.ResponseController calls it.
func (w *savingWriter) FlushError() error {
	if err := w.begin(); err != nil {
		return err
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (w *savingWriter) Flush() { _ = w.FlushError() } // the interface has no way to tell

// Hijack saves and hands over the connection.
func (w *savingWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if err := w.begin(); err != nil {
		return nil, nil, err
	}
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap lets http.ResponseController reach the deadlines of the connection.
func (w *savingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

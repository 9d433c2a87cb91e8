package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"

	"klatch/server/problem"
)

// sessionCookie has the value <id>~<version>.<route>.
const sessionCookie = "klatch"

// balancer spreads requests over the pool's nodes in turn or, if it is sticky, sends each to the node that its
// session's route names.
type balancer struct {
	pool   *pool
	sticky bool
	turn   atomic.Uint64
}

// newBalancer returns a handler that forwards to the nodes of p.
func newBalancer(p *pool, sticky bool) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetXForwarded() },
		Transport:    &balancer{pool: p, sticky: sticky},
		BufferPool:   &buffers{},
		ErrorHandler: answerFailure,
		ErrorLog:     log.New(io.Discard, "", 0), // the answer says what went wrong
	}
}

// errNoNode means that no node has received the request.
var errNoNode = errors.New("no node is ready")

// RoundTrip implements http.RoundTripper: it sends the request to one node after the other until one answers.
// If the connection was refused it goes on, whatever the method, since nothing was sent. If the connection broke
// later it goes on for safe methods only, since the node may have done what was asked.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	body := &heldBody{ReadCloser: r.Body}
	for _, node := range b.candidates(r) {
		response, err := b.pool.transport.RoundTrip(attempt(r, node, body))
		switch {
		case err == nil:
			return response, nil
		case r.Context().Err() != nil:
			return nil, err
		case isDialError(err):
			if !isTimeout(err) { // a node that is only slow is left to the checks
				node.ready.Store(false)
			}
		case !isSafe(r.Method) || isTimeout(err) || body.touched.Load():
			return nil, fmt.Errorf("%s: %w", node.name, err)
		}
	}
	return nil, errNoNode
}

// attempt returns the request as it goes to one node. Each attempt has a request of its own, since a transport
// may still look at one that failed.
func attempt(r *http.Request, node *backend, body *heldBody) *http.Request {
	out := r.WithContext(r.Context())
	target := *r.URL
	target.Scheme, target.Host = node.url.Scheme, node.url.Host
	out.URL = &target
	if r.Body != nil {
		out.Body = body
	}
	return out
}

// candidates returns the ready nodes in the order in which to try them: the session's own first where the
// balancer is sticky, then the others in turn.
func (b *balancer) candidates(r *http.Request) []*backend {
	all := b.pool.all()
	if len(all) == 0 {
		return nil
	}
	route := ""
	if b.sticky {
		route = routeOf(r)
	}
	start := int(b.turn.Add(1) % uint64(len(all)))
	candidates := make([]*backend, 0, len(all))
	for i := range all {
		node := all[(start+i)%len(all)]
		if !node.ready.Load() {
			continue
		}
		candidates = append(candidates, node)
		if last := len(candidates) - 1; node.name == route {
			candidates[0], candidates[last] = candidates[last], candidates[0]
		}
	}
	return candidates
}

// routeOf returns what follows the last dot in the session cookie.
func routeOf(r *http.Request) string {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return ""
	}
	dot := strings.LastIndexByte(cookie.Value, '.')
	if dot < 0 {
		return ""
	}
	return cookie.Value[dot+1:]
}

// answerFailure answers a request that no node has answered.
func answerFailure(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, context.Canceled) && r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the client has left: end its connection without an answer
	case errors.Is(err, errNoNode):
		problem.Problem{
			Name: "no-node", Status: http.StatusServiceUnavailable, Title: "No node is ready", RetryAfter: 1,
			Detail: "All nodes are down or draining; nothing was done. Start one: klatch demo add.",
		}.Write(w)
	default:
		problem.Problem{
			Name: "node-lost", Status: http.StatusBadGateway, Title: "The node was lost",
			Detail: "The connection to the node broke after the request was sent. It may have been carried out: read the session to see.",
		}.Write(w)
	}
}

// buffers lends ReverseProxy what it copies answers with; it would make 32 KiB anew for each.
type buffers struct{ free sync.Pool }

const bufferSize = 16 << 10

func (b *buffers) Get() []byte {
	if p, ok := b.free.Get().(*[bufferSize]byte); ok {
		return p[:]
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(p []byte) { b.free.Put((*[bufferSize]byte)(p)) }

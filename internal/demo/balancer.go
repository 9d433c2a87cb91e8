package demo

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// checkInterval is how often a balancer asks each node whether it is ready.
const checkInterval = 200 * time.Millisecond

// backend is one node as the balancers see it.
type backend struct {
	name  string
	url   *url.URL
	ready atomic.Bool
}

// pool holds the nodes that both balancers share, and knows which of them are ready.
type pool struct {
	transport *http.Transport
	checker   *http.Client

	mu       sync.RWMutex // guards backends
	backends []*backend
}

func newPool() *pool {
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	return &pool{
		transport: &http.Transport{
			DialContext:           dialer.DialContext,
			MaxIdleConns:          1024,
			MaxIdleConnsPerHost:   256,
			IdleConnTimeout:       30 * time.Second,
			ResponseHeaderTimeout: 90 * time.Second,
			DisableCompression:    true,
		},
		checker: &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1}},
	}
}

// add puts a node that is ready before the balancers.
func (p *pool) add(name, app string) error {
	target, err := url.Parse(app)
	if err != nil {
		return err
	}
	b := &backend{name: name, url: target}
	b.ready.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backends = append(p.backends, b)
	return nil
}

// check keeps the nodes' readiness up to date until ctx ends.
func (p *pool) check(ctx context.Context) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	defer p.checker.CloseIdleConnections()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.RLock()
		backends := p.backends
		p.mu.RUnlock()
		var checks sync.WaitGroup
		for _, b := range backends {
			checks.Go(func() { b.ready.Store(isReady(ctx, p.checker, b.url.String())) })
		}
		checks.Wait()
	}
}

func isReady(ctx context.Context, client *http.Client, base string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// balancer spreads requests over the pool's nodes.
type balancer struct {
	pool   *pool
	sticky bool
	proxy  *httputil.ReverseProxy
	turn   atomic.Uint64
}

func newBalancer(p *pool, sticky bool) *balancer {
	b := &balancer{pool: p, sticky: sticky}
	b.proxy = &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetXForwarded() },
		Transport:    b,
		ErrorHandler: noNode,
		ErrorLog:     log.New(discard{}, "", 0), // the answer says what went wrong
	}
	return b
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// ServeHTTP implements http.Handler.
func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.proxy.ServeHTTP(w, r) }

var errNoNode = errors.New("no node is ready")

// RoundTrip sends the request to one node after the other until one answers. It goes on if the connection was
// refused, since then nothing was sent; and, if the connection broke later, for safe methods only: the node may
// have done what was asked.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	err := errNoNode
	for _, node := range b.candidates(r) {
		r.URL.Scheme, r.URL.Host = node.url.Scheme, node.url.Host
		var response *http.Response
		response, err = b.pool.transport.RoundTrip(r)
		if err == nil {
			return response, nil
		}
		refused := isDialError(err)
		if refused {
			node.ready.Store(false)
		}
		if r.Context().Err() != nil || (!refused && !isSafe(r.Method)) {
			return nil, err
		}
	}
	return nil, err
}

// candidates returns the nodes in the order in which to try them: the session's own first where the balancer
// is sticky, then the others in turn.
func (b *balancer) candidates(r *http.Request) []*backend {
	b.pool.mu.RLock()
	all := b.pool.backends
	b.pool.mu.RUnlock()
	route := ""
	if b.sticky {
		route = routeOf(r)
	}
	start := int(b.turn.Add(1) % uint64(max(len(all), 1)))
	candidates := make([]*backend, 0, len(all))
	for i := range all {
		node := all[(start+i)%len(all)]
		switch {
		case !node.ready.Load():
		case node.name == route && len(candidates) > 0:
			candidates = append(candidates, candidates[0])
			candidates[0] = node
		default:
			candidates = append(candidates, node)
		}
	}
	return candidates
}

// routeOf returns what follows the dot in the session cookie.
func routeOf(r *http.Request) string {
	cookie, err := r.Cookie("klatch")
	if err != nil {
		return ""
	}
	_, route, _ := strings.Cut(cookie.Value, ".")
	return route
}

// isDialError reports whether the connection was never made.
func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED)
}

func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// noNode answers a request that no node has answered.
func noNode(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		return // the client has left
	}
	w.Header().Set("Content-Type", "application/problem+json")
	if errors.Is(err, errNoNode) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"type":"urn:klatch:error:no-node","title":"No node is ready","status":503,"detail":"All nodes are down or draining. Start one: klatch demo add."}` + "\n"))
		return
	}
	w.WriteHeader(http.StatusBadGateway)
	_, _ = w.Write([]byte(`{"type":"urn:klatch:error:node-lost","title":"The node was lost","status":502,"detail":"The connection to the node broke after the request was sent. It may have been carried out: read the session to see."}` + "\n"))
}

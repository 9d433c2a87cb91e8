package demo

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// checkInterval is how often each node is asked whether it is ready. It is far below a node's drain grace
	// of 3 s, so a node that drains is out before it refuses anything.
	checkInterval = 250 * time.Millisecond
	// checkTimeout is how long a check waits for an answer, and patientChecks is how many must go without one
	// until the node is taken out. A busy machine is slow for all nodes at once; taking all out helps nobody.
	checkTimeout  = 2 * time.Second
	patientChecks = 3
)

// backend is one node as the balancers see it.
type backend struct {
	name   string
	url    *url.URL
	ready  atomic.Bool
	remove context.CancelFunc // ends its checks
}

// pool holds the nodes that both balancers share, and knows which of them are ready: from a check of each
// node's own, and at once from the balancers when a node refuses a connection.
type pool struct {
	interval  time.Duration
	transport *http.Transport // for requests
	checker   *http.Client
	life      context.Context // ends with close
	end       context.CancelFunc
	checks    sync.WaitGroup // one for each backend

	mu       sync.Mutex // guards changes of backends
	backends atomic.Pointer[[]*backend]
}

func newPool(interval time.Duration) *pool {
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	p := &pool{
		interval: interval,
		transport: &http.Transport{
			DialContext:         dialer.DialContext,
			MaxIdleConnsPerHost: 512,
			// Below the node's own idle limit of two minutes: the balancer closes first, so a request hardly
			// ever goes out on a connection that the node is closing.
			IdleConnTimeout: 30 * time.Second,
			// Above the longest sleep that the application allows, one minute.
			ResponseHeaderTimeout: 90 * time.Second,
			DisableCompression:    true,
		},
		checker: &http.Client{Timeout: checkTimeout, Transport: &http.Transport{DialContext: dialer.DialContext}},
	}
	p.life, p.end = context.WithCancel(context.Background())
	p.backends.Store(&[]*backend{})
	return p
}

// all returns the nodes in the order in which they came. The slice is never changed.
func (p *pool) all() []*backend { return *p.backends.Load() }

// add puts a node that is ready before the balancers. It does nothing after close.
func (p *pool) add(name, app string) error {
	target, err := url.Parse(app)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(p.life)
	b := &backend{name: name, url: target, remove: cancel}
	b.ready.Store(true)
	with := append(slices.Clone(p.all()), b)
	p.backends.Store(&with)
	p.checks.Go(func() { p.check(ctx, b) })
	return nil
}

// remove takes a node away for good.
func (p *pool) remove(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	without := slices.DeleteFunc(slices.Clone(p.all()), func(b *backend) bool {
		if b.name == name {
			b.remove()
		}
		return b.name == name
	})
	p.backends.Store(&without)
}

// check keeps a node's readiness up to date until ctx ends.
func (p *pool) check(ctx context.Context, b *backend) {
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	target, unanswered := b.url.String(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			ready, err := askReady(ctx, p.checker, target)
			if ctx.Err() != nil {
				return
			}
			if err != nil && isTimeout(err) {
				if unanswered++; unanswered < patientChecks {
					continue
				}
			} else {
				unanswered = 0
			}
			b.ready.Store(ready)
		}
	}
}

// close ends the checks and the idle connections.
func (p *pool) close() {
	p.mu.Lock()
	p.end()
	p.mu.Unlock()
	p.checks.Wait()
	p.transport.CloseIdleConnections()
	p.checker.CloseIdleConnections()
}

// askReady asks the node at base whether it takes new requests. The error says why there was no answer.
func askReady(ctx context.Context, client *http.Client, base string) (ready bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return false, err
	}
	response, err := client.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 4096) // read to its end, the connection can be used again
	return response.StatusCode == http.StatusOK, nil
}

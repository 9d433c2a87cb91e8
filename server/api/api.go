// Package api is the HTTP API: JSON in and out, problem documents for errors. docs/openapi.yaml describes it.
package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"klatch/cluster"
	"klatch/coherence"
	"klatch/keyring"
	"klatch/server/problem"
	"klatch/session"
	"klatch/stamps"
)

// requestTimeout bounds what one request may take.
const requestTimeout = 10 * time.Second

// Node is what the API needs of the node that it speaks for.
type Node interface {
	Name() string
	// Ready reports whether balancers should send requests here, and the node's state in a word.
	Ready() (ready bool, state string)
	// Degraded names what the node does without for now, such as "store", or is empty.
	Degraded() string
	// Drain begins to leave on purpose and returns at once. It may first serve on until balancers have
	// noticed that the node is not ready.
	Drain(waitForBalancers bool)
}

// Membership is what the API needs of the cluster.
type Membership interface {
	Members() []cluster.Member
	Join(ctx context.Context, addresses ...string) (int, error)
	Forget(ctx context.Context, name string) error
}

// Options configure an [API]. All but Token and Metrics are required.
type Options struct {
	Sessions   *session.Manager
	Stamps     *stamps.Register
	Keys       *keyring.Rotation
	Checker    *coherence.Checker
	Node       Node
	Membership Membership
	Token      *Token       // nil: no token is asked for
	Metrics    http.Handler // what GET /metrics answers on the admin listener; nil: not found
	Logger     *zap.Logger
}

// API serves the public and the admin listener of one node.
type API struct{ Options }

// New returns the API of a node.
func New(opts Options) *API { return &API{opts} }

// resources are what a listener serves, by pattern.
type resources map[string]methods

func (a *API) sessionResources() resources {
	return resources{
		"/v1/sessions": {http.MethodPost: a.createSession},
		"/v1/sessions/{id}": {
			http.MethodGet:    a.getSession,
			http.MethodPatch:  a.patchSession,
			http.MethodPut:    a.putSession,
			http.MethodDelete: a.deleteSession,
		},
	}
}

func (a *API) clusterResources() resources {
	return resources{
		"/v1/cluster":        {http.MethodGet: a.getCluster},
		"/v1/cluster/join":   {http.MethodPost: a.joinCluster},
		"/v1/cluster/leave":  {http.MethodPost: a.leave(false)},
		"/v1/cluster/drain":  {http.MethodPost: a.leave(true)},
		"/v1/cluster/forget": {http.MethodPost: a.forgetMember},

		"/v1/coherence":      {http.MethodPost: a.beginCheck},
		"/v1/coherence/{id}": {http.MethodGet: a.getCheck},

		"/v1/keyring":         {http.MethodGet: a.getKeyring},
		"/v1/keyring/install": {http.MethodPost: a.installKey},
		"/v1/keyring/use":     {http.MethodPost: a.stepKeyring(keyring.Use)},
		"/v1/keyring/remove":  {http.MethodPost: a.stepKeyring(keyring.Remove)},
	}
}

func (a *API) stampResources() resources {
	return resources{"/v1/stamps": {http.MethodGet: a.getStamps, http.MethodPost: a.raiseStamps}}
}

func (a *API) metricsResources() resources {
	if a.Metrics == nil {
		return nil
	}
	return resources{"/metrics": {http.MethodGet: a.Metrics.ServeHTTP}}
}

func (a *API) healthResources() resources {
	return resources{
		"/healthz": {http.MethodGet: a.healthz},
		"/readyz":  {http.MethodGet: a.readyz},
	}
}

// Public returns what listens on --http: sessions and health.
func (a *API) Public() http.Handler { return a.front(a.sessionResources()) }

// Admin returns what listens on --admin: the cluster and its keys, the stamps, the metrics, and all that is public.
func (a *API) Admin() http.Handler {
	return a.front(a.sessionResources(), a.clusterResources(), a.stampResources(), a.metricsResources())
}

// front puts around a listener's resources what all of them share.
func (a *API) front(served ...resources) http.Handler {
	mux := http.NewServeMux()
	for _, part := range served {
		for pattern, methods := range part {
			mux.Handle(pattern, methods)
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { problem.NotFound(r.URL.Path).Write(w) })

	sameOrigin := http.NewCrossOriginProtection() // a web page must not steer a node on its reader's loopback
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem.CrossOrigin().Write(w)
	}))
	inner := sameOrigin.Handler(a.Token.guard(mux))
	return a.WithHealth(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		// A body that trickles in must not hold a connection for ever. Where the connection has no deadlines, the
		// request ends with the connection.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestTimeout))
		inner.ServeHTTP(w, r.WithContext(ctx))
	}))
}

// WithHealth serves /healthz and /readyz before next, and names the node in every answer. Every listener has
// them, without a token.
func (a *API) WithHealth(next http.Handler) http.Handler {
	health := a.healthResources()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Klatch-Node", a.Node.Name())
		if degraded := a.Node.Degraded(); degraded != "" {
			w.Header().Set("Klatch-Degraded", degraded)
		}
		if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
			problem.MalformedQuery(err).Write(w) // net/http would drop the malformed part in silence
			return
		}
		if methods, ok := health[r.URL.Path]; ok {
			methods.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// methods serves one resource: a handler for each of its methods.
type methods map[string]http.HandlerFunc

// ServeHTTP implements http.Handler.
func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if handle, ok := m[method]; ok {
		handle(w, r)
		return
	}
	allowed := make([]string, 0, len(m)+1)
	for name := range m {
		allowed = append(allowed, name)
	}
	if _, ok := m[http.MethodGet]; ok {
		allowed = append(allowed, http.MethodHead)
	}
	slices.Sort(allowed)
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	problem.MethodNotAllowed(r.Method).Write(w)
}

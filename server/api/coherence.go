package api

import (
	"errors"
	"net/http"
	"time"

	"klatch/cluster"
	"klatch/coherence"
	"klatch/server/problem"
)

// beginCheck begins a coherence check on all nodes.
func (a *API) beginCheck(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Samples int        `json:"samples"`
		After   []duration `json:"after"`
	}
	if !knownParameters(w, r) || !a.readJSON(w, r, &body) {
		return
	}
	plan := coherence.Plan{Samples: body.Samples}
	for _, after := range body.After {
		plan.After = append(plan.After, time.Duration(after))
	}
	id, lasts, err := a.Checker.Begin(r.Context(), plan)
	switch {
	case errors.Is(err, coherence.ErrInvalid):
		problem.BadRequest("%v.", err).Write(w)
	case err != nil:
		problem.Problem{
			Name: "check-failed", Status: http.StatusServiceUnavailable, Title: "Not all nodes can make the check", RetryAfter: 10,
			Detail: err.Error() + ".",
		}.Write(w)
	default:
		a.writeJSON(w, http.StatusAccepted, map[string]any{"id": id, "lasts": duration(lasts)})
	}
}

// lookBody is what was seen a time after the store was read.
type lookBody struct {
	After  duration `json:"after"`
	Served int      `json:"served"` // copies that would be served from memory
	Stale  int      `json:"stale"`  // of these, older than the store was then
}

// checkBody is what a check has found on one node.
type checkBody struct {
	Node    string     `json:"node"`
	Sampled int        `json:"sampled"`
	Looks   []lookBody `json:"looks"`
	Done    bool       `json:"done"`
	Error   string     `json:"error,omitempty"`
}

// getCheck shows what a check has found so far.
func (a *API) getCheck(w http.ResponseWriter, r *http.Request) {
	if !knownParameters(w, r) {
		return
	}
	nodes, done := []checkBody{}, true
	for _, n := range a.Checker.Results(r.Context(), r.PathValue("id")) {
		body := checkBody{Node: n.Node, Sampled: n.Sampled, Looks: []lookBody{}, Done: n.Done, Error: n.Error}
		for _, l := range n.Looks {
			body.Looks = append(body.Looks, lookBody{duration(l.After), l.Served, l.Stale})
		}
		nodes = append(nodes, body)
		done = done && n.Done
	}
	a.writeJSON(w, http.StatusOK, map[string]any{"done": done, "bound": duration(cluster.MaxLag), "nodes": nodes})
}

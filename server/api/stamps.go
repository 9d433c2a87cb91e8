package api

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"klatch/cluster"
	"klatch/server/problem"
	"klatch/session"
	"klatch/stamps"
	"klatch/store"
)

// receiptBody says how far stamps have come.
type receiptBody struct {
	Epoch        string   `json:"epoch"`        // of the stamps
	Acknowledged []string `json:"acknowledged"` // nodes that know them
	Unconfirmed  []string `json:"unconfirmed"`  // nodes that may not
	Bound        duration `json:"bound"`        // after which those check every use against the store
}

// raiseStamps kills everything under some scopes that was fetched before now.
func (a *API) raiseStamps(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Scopes []string `json:"scopes"`
		All    bool     `json:"all"`
	}
	if !knownParameters(w, r) || !a.readJSON(w, r, &body) {
		return
	}
	switch {
	case body.All == (len(body.Scopes) > 0):
		problem.BadRequest(`Give either "scopes", a list such as ["tag:red"], or "all": true.`).Write(w)
		return
	case slices.Contains(body.Scopes, ""):
		problem.BadRequest(`A scope must not be empty. Give "all": true for everything.`).Write(w)
		return
	case body.All:
		body.Scopes = []string{""}
	}
	receipt, err := a.Stamps.Raise(r.Context(), session.DefaultTenant, body.Scopes...)
	if err != nil {
		raiseProblem(err).Write(w)
		return
	}
	answer := receiptBody{
		Epoch: strconv.FormatUint(receipt.Epoch, 10), Acknowledged: []string{}, Unconfirmed: []string{}, Bound: duration(cluster.MaxLag),
	}
	answer.Unconfirmed = append(answer.Unconfirmed, receipt.Unconfirmed...)
	for _, m := range a.Membership.Members() {
		if m.Alive && !slices.Contains(receipt.Unconfirmed, m.Name) {
			answer.Acknowledged = append(answer.Acknowledged, m.Name)
		}
	}
	a.writeJSON(w, http.StatusOK, answer)
}

func raiseProblem(err error) problem.Problem {
	switch {
	case errors.Is(err, stamps.ErrInvalid):
		return problem.BadRequest("%v.", err)
	case errors.Is(err, stamps.ErrBusy), errors.Is(err, stamps.ErrClosed):
		return problem.Problem{
			Name: "busy", Status: http.StatusServiceUnavailable, Title: "The node is busy", RetryAfter: 1,
			Detail: err.Error() + ". Nothing was stamped. Try again, here or on another node.",
		}
	case errors.Is(err, store.ErrAmbiguous):
		p := problem.Of(err)
		p.Detail = "The store's answer was lost. Raise the stamps again; to do so twice does no harm."
		return p
	default:
		return problem.Of(err)
	}
}

// getStamps says what this node knows: the epoch, and whether what was fetched in an earlier one may still be used.
func (a *API) getStamps(w http.ResponseWriter, r *http.Request) {
	if !knownParameters(w, r, "scope", "fetched") {
		return
	}
	query := r.URL.Query()
	epoch, err := a.Stamps.Current(r.Context(), session.DefaultTenant)
	if err != nil {
		problem.Of(err).Write(w)
		return
	}
	answer := map[string]any{"epoch": strconv.FormatUint(epoch, 10)}
	if query.Has("fetched") {
		fetched, err := strconv.ParseUint(query.Get("fetched"), 10, 64)
		if err != nil {
			problem.BadRequest("fetched=%.32s is not an epoch: give the decimal number of an earlier answer.", query.Get("fetched")).Write(w)
			return
		}
		answer["alive"] = a.Stamps.Alive(session.DefaultTenant, fetched, query["scope"]...)
	} else if query.Has("scope") {
		problem.BadRequest("scope is looked at together with fetched, the epoch in which an object was fetched.").Write(w)
		return
	}
	a.writeJSON(w, http.StatusOK, answer)
}

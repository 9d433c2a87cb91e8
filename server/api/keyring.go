package api

import (
	"errors"
	"net/http"

	"klatch/keyring"
	"klatch/server/problem"
)

// getKeyring shows the gossip keys of all nodes, by fingerprint.
func (a *API) getKeyring(w http.ResponseWriter, r *http.Request) {
	if !knownParameters(w, r) {
		return
	}
	a.writeJSON(w, http.StatusOK, map[string]any{"nodes": a.Keys.List(r.Context())})
}

// installKey gives all nodes a further key.
func (a *API) installKey(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Key string `json:"key"`
	}
	if !knownParameters(w, r) || !a.readJSON(w, r, &body) {
		return
	}
	key, err := keyring.ParseKey(body.Key)
	if err != nil {
		problem.BadRequest(`Field "key": %v.`, err).Write(w)
		return
	}
	a.changeKeyring(w, r, keyring.Change{Step: keyring.Install, Key: key})
}

// stepKeyring makes all nodes do something with a key that they have.
func (a *API) stepKeyring(step keyring.Step) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Fingerprint string `json:"fingerprint"`
		}
		if knownParameters(w, r) && a.readJSON(w, r, &body) {
			a.changeKeyring(w, r, keyring.Change{Step: step, Fingerprint: body.Fingerprint})
		}
	}
}

func (a *API) changeKeyring(w http.ResponseWriter, r *http.Request, change keyring.Change) {
	nodes, err := a.Keys.Change(r.Context(), change)
	if err != nil {
		keyringProblem(err).Write(w)
		return
	}
	a.writeJSON(w, http.StatusOK, map[string]any{"nodes": nodes})
}

func keyringProblem(err error) problem.Problem {
	switch {
	case errors.Is(err, keyring.ErrInvalid):
		return problem.BadRequest("%v.", err)
	case errors.Is(err, keyring.ErrRefused):
		return problem.Problem{
			Name: "keyring-refused", Status: http.StatusConflict, Title: "The keys were left as they are",
			Detail: err.Error() + ".",
		}
	default:
		return problem.Problem{
			Name: "keyring-unknown", Status: http.StatusServiceUnavailable, Title: "It is unknown whether the keys were changed", RetryAfter: 1,
			Detail: err.Error() + ". Look at the keys of all nodes; to make the same change again does no harm.",
		}
	}
}

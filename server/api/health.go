package api

import "net/http"

// healthz answers as long as the process serves at all.
func (a *API) healthz(w http.ResponseWriter, _ *http.Request) {
	a.writeJSON(w, http.StatusOK, map[string]any{"node": a.Node.Name(), "status": "ok"})
}

// readyz tells balancers whether to send requests here.
func (a *API) readyz(w http.ResponseWriter, _ *http.Request) {
	ready, state := a.Node.Ready()
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	a.writeJSON(w, status, map[string]any{"node": a.Node.Name(), "ready": ready, "state": state})
}

package api

import "net/http"

// healthz answers as long as the process serves at all.
func (a *API) healthz(w http.ResponseWriter, _ *http.Request) {
	a.writeJSON(w, http.StatusOK, map[string]any{"node": a.Node.Name(), "status": "ok"})
}

// readyz tells balancers whether to send requests here. A store that is lost while the node runs does not make it
// not ready: it would be lost for all nodes, and the balancer would be left with none.
func (a *API) readyz(w http.ResponseWriter, _ *http.Request) {
	ready, state := a.Node.Ready()
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	body := map[string]any{"node": a.Node.Name(), "ready": ready, "state": state}
	if degraded := a.Node.Degraded(); degraded != "" {
		body["degraded"] = degraded
	}
	a.writeJSON(w, status, body)
}

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"klatch/server/problem"
)

// control serves the demo's own port:
//
//	GET    /nodes              lists the nodes that run
//	POST   /nodes              starts one more and waits until it is ready
//	POST   /nodes/NAME/drain   lets one leave on purpose
//	DELETE /nodes/NAME         kills one, as a crash would
func control(s *supervisor) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /nodes", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.nodes(), nil) })
	mux.HandleFunc("POST /nodes", func(w http.ResponseWriter, r *http.Request) {
		// A client that leaves does not leave half a node behind.
		info, err := s.add(context.WithoutCancel(r.Context()))
		answer(w, http.StatusCreated, info, err)
	})
	mux.HandleFunc("POST /nodes/{name}/drain", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		answer(w, http.StatusAccepted, map[string]string{"draining": name}, s.drain(name))
	})
	mux.HandleFunc("DELETE /nodes/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		answer(w, http.StatusOK, map[string]string{"killed": name}, s.kill(name))
	})
	return http.NewCrossOriginProtection().Handler(mux) // no web page may steer the demo
}

// answer answers with the body or, if there is an error, with a problem document.
func answer(w http.ResponseWriter, status int, body any, err error) {
	if err != nil {
		p := problem.Problem{Name: "demo-failed", Status: http.StatusInternalServerError, Title: "That did not work", Detail: err.Error()}
		if errors.Is(err, errNoSuchNode) {
			p.Name, p.Status, p.Title = "no-such-node", http.StatusNotFound, "No such node"
		}
		p.Write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client is gone
}

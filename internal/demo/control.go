package demo

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// control serves the demo's own port.
func (d *demo) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /nodes", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, d.nodes()) })
	mux.HandleFunc("POST /nodes", func(w http.ResponseWriter, r *http.Request) {
		info, err := d.add(context.WithoutCancel(r.Context()))
		if err != nil {
			writeJSON(w, http.StatusInternalServerError, failure{err.Error()})
			return
		}
		writeJSON(w, http.StatusCreated, info)
	})
	mux.HandleFunc("DELETE /nodes/{name}", func(w http.ResponseWriter, r *http.Request) {
		err := d.kill(r.PathValue("name"))
		switch {
		case errors.Is(err, errNoSuchNode):
			writeJSON(w, http.StatusNotFound, failure{err.Error()})
		case err != nil:
			writeJSON(w, http.StatusInternalServerError, failure{err.Error()})
		default:
			writeJSON(w, http.StatusOK, map[string]string{"killed": r.PathValue("name")})
		}
	})
	return http.NewCrossOriginProtection().Handler(mux)
}

// failure is how the control port says what went wrong.
type failure struct {
	Error string `json:"error"`
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client is gone
}

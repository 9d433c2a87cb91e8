package cbnode

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
)

// collectionName is what the server accepts as the name of a scope or collection.
var collectionName = regexp.MustCompile(`^[0-9A-Za-z-][0-9A-Za-z_%-]{0,250}$`)

// mgmt is the part of the REST API by which clients manage scopes and collections.
func (n *Node) mgmt() http.Handler {
	const scopes = "/pools/default/buckets/{bucket}/scopes"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+scopes, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, n.manifest.document())
	})
	mux.HandleFunc("POST "+scopes, func(w http.ResponseWriter, r *http.Request) {
		n.create(w, r, n.manifest.createScope)
	})
	mux.HandleFunc("POST "+scopes+"/{scope}/collections", func(w http.ResponseWriter, r *http.Request) {
		n.create(w, r, func(name string) (uint64, error) { return n.manifest.createCollection(r.PathValue("scope"), name) })
	})
	mux.HandleFunc("DELETE "+scopes+"/{scope}/collections/{collection}", func(w http.ResponseWriter, r *http.Request) {
		uid, id, err := n.manifest.dropCollection(r.PathValue("scope"), r.PathValue("collection"))
		if err == nil {
			n.documents.drop(id)
		}
		writeOutcome(w, uid, err)
	})
	mux.HandleFunc("DELETE "+scopes+"/{scope}", func(w http.ResponseWriter, r *http.Request) {
		uid, ids, err := n.manifest.dropScope(r.PathValue("scope"))
		for _, id := range ids {
			n.documents.drop(id)
		}
		writeOutcome(w, uid, err)
	})
	mux.HandleFunc("GET /pools/default/buckets/{bucket}", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{
			"name": n.options.Bucket, "uuid": n.bucketUUID, "bucketType": "membase", "nodeLocator": "vbucket",
			"replicaNumber": 0, "quota": map[string]int{"ram": 256 << 20, "rawRAM": 256 << 20}, "durabilityMinLevel": "none",
		})
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !n.passGate(r.Context()) {
			return
		}
		user, password, _ := r.BasicAuth()
		if user != n.options.User || password != n.options.Password {
			w.Header().Set("WWW-Authenticate", `Basic realm="Couchbase Server Admin / REST"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if bucket, ok := strings.CutPrefix(r.URL.Path, "/pools/default/buckets/"); ok {
			if bucket, _, _ = strings.Cut(bucket, "/"); bucket != n.options.Bucket {
				http.Error(w, "Requested resource not found.", http.StatusNotFound)
				return
			}
		}
		mux.ServeHTTP(w, r)
	})
}

// create creates what the form of r names.
func (n *Node) create(w http.ResponseWriter, r *http.Request, create func(name string) (uint64, error)) {
	name := r.FormValue("name")
	if !collectionName.MatchString(name) {
		writeJSON(w, http.StatusBadRequest, map[string]any{"errors": map[string]string{"name": "First character must not be _ or %, and the rest letters, digits, _, - or %"}})
		return
	}
	uid, err := create(name)
	writeOutcome(w, uid, err)
}

// writeOutcome answers a change of the manifest.
func writeOutcome(w http.ResponseWriter, uid uint64, err error) {
	var refusal manifestError
	if errors.As(err, &refusal) {
		writeJSON(w, refusal.status, map[string]any{"errors": map[string]string{"_": refusal.text}})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"uid": hexadecimal(uid)})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// The client has gone where this fails.
	_ = json.NewEncoder(w).Encode(v)
}

package api

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"klatch/proto"
	"klatch/server/problem"
	"klatch/session"
	"klatch/store/near"
)

// sessionBody is a session as the API shows it.
type sessionBody struct {
	ID         string                     `json:"id"`
	Version    string                     `json:"version"`
	Created    string                     `json:"created"`
	LastAccess string                     `json:"lastAccess"`
	Idle       duration                   `json:"idle"`
	Absolute   duration                   `json:"absolute"`
	Principal  string                     `json:"principal"`
	Route      string                     `json:"route"`
	Attributes map[string]json.RawMessage `json:"attributes"`
}

// attributes is the whole content of a session in JSON.
type attributes map[string]json.RawMessage

func (a attributes) values() map[string]session.Value {
	values := make(map[string]session.Value, len(a))
	for name, text := range a {
		values[name] = session.JSON(text)
	}
	return values
}

func (a *API) createSession(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Attributes attributes `json:"attributes"`
		Idle       duration   `json:"idle"`
		Absolute   duration   `json:"absolute"`
		Principal  string     `json:"principal"`
	}
	if !a.readJSON(w, r, &body) {
		return
	}
	s, err := a.Sessions.Create(r.Context(), session.Draft{
		Attributes: body.Attributes.values(),
		Idle:       time.Duration(body.Idle),
		Absolute:   time.Duration(body.Absolute),
		Principal:  body.Principal,
	})
	if err != nil {
		problem.Of(err).Write(w)
		return
	}
	w.Header().Set("Location", "/v1/sessions/"+s.ID())
	a.writeSession(w, http.StatusCreated, s)
}

func (a *API) getSession(w http.ResponseWriter, r *http.Request) {
	load, ok := loadOptions(w, r)
	if !ok {
		return
	}
	s, err := a.Sessions.Load(r.Context(), r.PathValue("id"), load)
	if err != nil {
		problem.Of(err).Write(w)
		return
	}
	if matchesAny(r.Header.Values("If-None-Match"), s.Version()) {
		w.Header().Set("ETag", etag(s.Version()))
		w.WriteHeader(http.StatusNotModified)
		return
	}
	a.writeSession(w, http.StatusOK, s)
}

func (a *API) patchSession(w http.ResponseWriter, r *http.Request) {
	var patch mergePatch
	if !a.readJSON(w, r, &patch) {
		return
	}
	if patch == nil {
		problem.BadRequest("The body must be an object: a JSON merge patch (RFC 7396) of the attributes.").Write(w)
		return
	}
	a.updateSession(w, r, patch.applyTo)
}

func (a *API) putSession(w http.ResponseWriter, r *http.Request) {
	var content attributes
	if !a.readJSON(w, r, &content) {
		return
	}
	if content == nil {
		problem.BadRequest("The body must be an object: all attributes by name.").Write(w)
		return
	}
	a.updateSession(w, r, func(s *session.Session) error {
		s.Replace(content.values())
		return nil
	})
}

// updateSession makes change on the newest revision, under the request's conditions.
func (a *API) updateSession(w http.ResponseWriter, r *http.Request, change func(*session.Session) error) {
	load, ok := loadOptions(w, r)
	if !ok {
		return
	}
	commit, ok := commitOptions(w, r)
	if !ok {
		return
	}
	load.After = max(load.After, commit.IfMatch)
	s, err := a.Sessions.Update(r.Context(), r.PathValue("id"), load, commit, change)
	if err != nil {
		problem.Of(err).Write(w)
		return
	}
	a.writeSession(w, http.StatusOK, s)
}

func (a *API) deleteSession(w http.ResponseWriter, r *http.Request) {
	if err := a.Sessions.Delete(r.Context(), r.PathValue("id")); err != nil {
		problem.Of(err).Write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *API) writeSession(w http.ResponseWriter, status int, s *session.Session) {
	body := sessionBody{
		ID:         s.ID(),
		Version:    s.Version().String(),
		Created:    s.Created().UTC().Format(time.RFC3339Nano),
		LastAccess: s.LastAccess().UTC().Format(time.RFC3339Nano),
		Idle:       duration(s.Idle()),
		Absolute:   duration(s.Absolute()),
		Principal:  s.Principal(),
		Route:      s.Route(),
		Attributes: make(map[string]json.RawMessage, s.Len()),
	}
	for name, v := range s.All() {
		body.Attributes[name] = attributeJSON(v)
	}
	w.Header().Set("ETag", etag(s.Version()))
	a.writeJSON(w, status, body)
}

// attributeJSON shows JSON as it was written and opaque bytes as {"$base64": "…"}.
func attributeJSON(v session.Value) json.RawMessage {
	if v.Kind == proto.JSON {
		return v.Data
	}
	return json.RawMessage(`{"$base64":"` + base64.StdEncoding.EncodeToString(v.Data) + `"}`)
}

// loadOptions reads how a session is to be read. If it cannot, it has answered and reports false.
func loadOptions(w http.ResponseWriter, r *http.Request) (opts session.LoadOptions, ok bool) {
	query := r.URL.Query()
	var err error
	if level := query.Get("consistency"); level != "" {
		if opts.Level, err = near.ParseLevel(level); err != nil {
			problem.BadRequest("Query parameter consistency: %v.", err).Write(w)
			return opts, false
		}
	}
	if opts.Passive, ok = flag(query, "passive"); !ok {
		problem.BadRequest("Query parameter passive: use true or false.").Write(w)
		return opts, false
	}
	if after := r.Header.Get("Klatch-After"); after != "" {
		if opts.After, err = proto.ParseVersion(after); err != nil {
			problem.BadRequest("Header Klatch-After: %v.", err).Write(w)
			return opts, false
		}
	}
	return opts, true
}

// flag reads a parameter that is true when it is there without a value.
func flag(query map[string][]string, name string) (value, ok bool) {
	values, given := query[name]
	if !given {
		return false, true
	}
	if values[0] == "" {
		return true, true
	}
	value, err := strconv.ParseBool(values[0])
	return value, err == nil
}

// matchesNothing is an If-Match that no session has.
const matchesNothing = proto.MaxVersion

// commitOptions reads the conditions of a change. If it cannot, it has answered and reports false.
func commitOptions(w http.ResponseWriter, r *http.Request) (opts session.CommitOptions, ok bool) {
	if mode := r.URL.Query().Get("conflict"); mode != "" {
		var err error
		if opts.Conflict, err = session.ParseConflict(mode); err != nil {
			problem.BadRequest("Query parameter conflict: use merge or strict.").Write(w)
			return opts, false
		}
	}
	condition := strings.Join(r.Header.Values("If-Match"), ",")
	switch {
	case condition == "" || condition == "*":
	case strings.Contains(condition, ","):
		problem.BadRequest("Header If-Match: send one entity tag, the ETag of the version that you have read.").Write(w)
		return opts, false
	default:
		opts.IfMatch = matchesNothing
		if version, ok := parseETag(condition); ok {
			opts.IfMatch = version
		}
	}
	return opts, true
}

func etag(v proto.Version) string { return `"` + v.String() + `"` }

// parseETag reads a strong entity tag that this API has made. If-Match compares strongly (RFC 9110, 13.1.1).
func parseETag(s string) (proto.Version, bool) {
	s = strings.TrimSpace(s)
	inner, found := strings.CutPrefix(s, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	version, err := proto.ParseVersion(inner)
	return version, found && closed && err == nil && version > 0
}

// matchesAny implements If-None-Match, which compares weakly (RFC 9110, 13.1.2).
func matchesAny(fields []string, version proto.Version) bool {
	for tag := range strings.SplitSeq(strings.Join(fields, ","), ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || strings.TrimPrefix(tag, "W/") == etag(version) {
			return true
		}
	}
	return false
}

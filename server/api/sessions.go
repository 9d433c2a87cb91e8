package api

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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

// UnmarshalJSON implements json.Unmarshaler. A name with half of a surrogate pair is refused: decoded, two such
// names would become one.
func (a *attributes) UnmarshalJSON(text []byte) error {
	return unmarshalNamed(text, (*map[string]json.RawMessage)(a))
}

func unmarshalNamed(text []byte, into *map[string]json.RawMessage) error {
	if err := json.Unmarshal(text, into); err != nil {
		return err
	}
	for name := range *into {
		if strings.ContainsRune(name, utf8.RuneError) {
			return fmt.Errorf("attribute name %.64q has a character that is not Unicode", name)
		}
	}
	return nil
}

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
	if !knownParameters(w, r) || !a.readJSON(w, r, &body) {
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
	load, ok := loadOptions(w, r, "consistency", "passive")
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
	a.updateSession(w, r, patch.applyTo)
}

func (a *API) putSession(w http.ResponseWriter, r *http.Request) {
	var content attributes
	if !a.readJSON(w, r, &content) {
		return
	}
	a.updateSession(w, r, func(s *session.Session) error {
		s.Replace(content.values())
		return nil
	})
}

// updateSession makes change on the newest revision, under the request's conditions.
func (a *API) updateSession(w http.ResponseWriter, r *http.Request, change func(*session.Session) error) {
	load, ok := loadOptions(w, r, "consistency", "passive", "conflict")
	if !ok {
		return
	}
	commit, ok := commitOptions(w, r)
	if !ok {
		return
	}
	commit.Passive = load.Passive
	s, err := a.Sessions.Update(r.Context(), r.PathValue("id"), load, commit, change)
	if err != nil {
		problem.Of(err).Write(w)
		return
	}
	a.writeSession(w, http.StatusOK, s)
}

func (a *API) deleteSession(w http.ResponseWriter, r *http.Request) {
	if !knownParameters(w, r) {
		return
	}
	condition, ok := ifMatch(w, r)
	if !ok {
		return
	}
	var unconfirmed []string
	var err error
	if condition == 0 {
		unconfirmed, err = a.Sessions.Delete(r.Context(), r.PathValue("id"))
	} else {
		unconfirmed, err = a.Sessions.DeleteIfMatch(r.Context(), r.PathValue("id"), condition)
	}
	if err != nil {
		problem.Of(err).Write(w)
		return
	}
	if len(unconfirmed) > 0 {
		w.Header().Set("Klatch-Unconfirmed", strings.Join(unconfirmed, ", "))
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

// knownParameters refuses a query parameter that the resource does not have: one that is mistyped would be
// ignored in silence. If there is one, it has answered and reports false.
func knownParameters(w http.ResponseWriter, r *http.Request, known ...string) bool {
	for name := range r.URL.Query() {
		if !slices.Contains(known, name) {
			problem.BadRequest("Query parameter %.64q is unknown here. Known: %s.", name, strings.Join(known, ", ")).Write(w)
			return false
		}
	}
	return true
}

// loadOptions reads how a session is to be read. If it cannot, it has answered and reports false.
func loadOptions(w http.ResponseWriter, r *http.Request, parameters ...string) (opts session.LoadOptions, ok bool) {
	if !knownParameters(w, r, parameters...) {
		return opts, false
	}
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
	opts.IfMatch, ok = ifMatch(w, r)
	return opts, ok
}

// ifMatch reads the version that a change demands, zero for any. If it cannot, it has answered and reports false.
func ifMatch(w http.ResponseWriter, r *http.Request) (version proto.Version, ok bool) {
	fields := r.Header.Values("If-Match")
	condition := strings.TrimSpace(strings.Join(fields, ","))
	tag := strings.TrimPrefix(condition, "W/")
	switch {
	case len(fields) == 0 || condition == "*":
		return 0, true
	case strings.Contains(condition, ",") || len(tag) < 2 || tag[0] != '"' || tag[len(tag)-1] != '"':
		problem.BadRequest(`Header If-Match: send one entity tag in quotes, the ETag of the version that you have read, such as "%d".`, proto.VersionAt(time.Now())).Write(w)
		return 0, false
	}
	version, err := proto.ParseVersion(condition[1 : len(condition)-1])
	if err != nil || etag(version) != condition || version == 0 {
		return matchesNothing, true // a tag that this API has not made; If-Match compares strongly (RFC 9110, 13.1.1)
	}
	return version, true
}

func etag(v proto.Version) string { return `"` + v.String() + `"` }

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

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.yaml.in/yaml/v3"

	"klatch/cluster"
	"klatch/proto"
	"klatch/session"
	"klatch/stamps"
	"klatch/store"
	"klatch/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fakeNode struct {
	state    proto.NodeState
	degraded string
	drained  chan bool
}

func (n *fakeNode) Name() string { return "n1" }
func (n *fakeNode) Ready() (bool, string) {
	return n.state == proto.Ready, n.state.String()
}
func (n *fakeNode) Degraded() string            { return n.degraded }
func (n *fakeNode) Drain(waitForBalancers bool) { n.drained <- waitForBalancers }

type alone struct{}

func (alone) Publish(...proto.Item) {}

func (alone) Confirm(context.Context, ...proto.Item) []string { return nil }
func (alone) Members() []cluster.Member {
	return []cluster.Member{
		{Name: "n1", Address: "127.0.0.1:1", Meta: proto.NodeMeta{State: proto.Ready}, Self: true, Alive: true},
		{Name: "n2", Address: "127.0.0.1:2", Meta: proto.NodeMeta{State: proto.Ready}},
	}
}
func (alone) Forget(_ context.Context, name string) error {
	switch name {
	case "n1":
		return cluster.ErrAlive
	case "n9":
		return cluster.ErrUnreachable
	default:
		return nil
	}
}

func (alone) Join(_ context.Context, addresses ...string) (int, error) {
	if addresses[0] == "dead:1" {
		return 0, cluster.ErrUnreachable
	}
	return len(addresses), nil
}

type rig struct {
	t       *testing.T
	node    *fakeNode
	store   *memory.Store
	manager *session.Manager
	api     *API
	server  *httptest.Server
}

func newRig(t *testing.T, token *Token) *rig {
	t.Helper()
	r := &rig{t: t, node: &fakeNode{state: proto.Ready, drained: make(chan bool, 1)}, store: memory.New(memory.Options{})}
	var err error
	r.manager, err = session.New(session.Options{Store: r.store, News: alone{}, Node: "n1", Writer: 1, MaxBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	register, err := stamps.New(stamps.Options{Store: r.store, News: alone{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(register.Close)
	r.api = New(Options{Sessions: r.manager, Stamps: register, Node: r.node, Membership: alone{}, Token: token, Metrics: http.NotFoundHandler(), Logger: zap.NewNop()})
	r.server = httptest.NewServer(r.api.Admin())
	t.Cleanup(func() {
		r.server.Client().CloseIdleConnections()
		r.server.Close()
		r.manager.Close()
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

type answer struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

// do sends a request; headers are "Name: value".
func (r *rig) do(method, path, body string, headers ...string) answer {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Add(name, value)
	}
	response, err := r.server.Client().Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	a := answer{status: response.StatusCode, header: response.Header, text: string(text)}
	decoder := json.NewDecoder(strings.NewReader(a.text))
	decoder.UseNumber()
	_ = decoder.Decode(&a.body) // tests look at the body only where it is JSON
	return a
}

// expect sends a request and demands a status.
func (r *rig) expect(status int, method, path, body string, headers ...string) answer {
	r.t.Helper()
	a := r.do(method, path, body, headers...)
	if a.status != status {
		r.t.Fatalf("%s %s %.80s: status %d, want %d: %s", method, path, body, a.status, status, a.text)
	}
	return a
}

func (r *rig) expectProblem(status int, name, method, path, body string, headers ...string) answer {
	r.t.Helper()
	a := r.expect(status, method, path, body, headers...)
	if a.body["type"] != "urn:klatch:error:"+name || a.header.Get("Content-Type") != "application/problem+json" {
		r.t.Errorf("%s %s %.80s: %s", method, path, body, a.text)
	}
	for _, member := range []string{"title", "status", "detail"} {
		if a.body[member] == nil || a.body[member] == "" {
			r.t.Errorf("%s %s %.80s: the problem document lacks %q: %s", method, path, body, member, a.text)
		}
	}
	return a
}

func (r *rig) create(body string) (path string, created answer) {
	r.t.Helper()
	created = r.expect(http.StatusCreated, http.MethodPost, "/v1/sessions", body)
	return created.header.Get("Location"), created
}

func TestASessionsLife(t *testing.T) {
	r := newRig(t, nil)
	path, created := r.create(`{"attributes":{"cart":{"items":[1]}},"idle":"10m","absolute":3600,"principal":"ann"}`)
	if created.header.Get("ETag") != `"`+created.body["version"].(string)+`"` || created.header.Get("Klatch-Node") != "n1" {
		t.Errorf("headers %v", created.header)
	}
	if path != "/v1/sessions/"+created.body["id"].(string) {
		t.Errorf("Location %q", path)
	}
	for member, want := range map[string]string{"idle": "10m", "absolute": "1h", "principal": "ann", "route": "n1"} {
		if created.body[member] != want {
			t.Errorf("%s is %v, want %s", member, created.body[member], want)
		}
	}
	for _, member := range []string{"created", "lastAccess"} {
		if _, err := time.Parse(time.RFC3339, created.body[member].(string)); err != nil {
			t.Errorf("%s: %v", member, err)
		}
	}
	r.expect(http.StatusOK, http.MethodGet, path, "")
	r.expect(http.StatusOK, http.MethodHead, path, "")
	r.expect(http.StatusNotModified, http.MethodGet, path, "", "If-None-Match: "+created.header.Get("ETag"))
	r.expect(http.StatusOK, http.MethodGet, path+"?consistency=latest&passive=true", "")
	r.expect(http.StatusNoContent, http.MethodDelete, path, "")
	r.expect(http.StatusNoContent, http.MethodDelete, path, "")
	r.expectProblem(http.StatusNotFound, "session-gone", http.MethodGet, path, "")
	r.expectProblem(http.StatusNotFound, "session-gone", http.MethodPatch, path, `{"x":1}`)
}

func TestDefaultsOfASession(t *testing.T) {
	r := newRig(t, nil)
	for _, body := range []string{`{}`, `{"idle":null,"attributes":null}`} {
		_, created := r.create(body)
		if created.body["idle"] != "30m" || created.body["absolute"] != "never" {
			t.Errorf("%s: idle %v, absolute %v", body, created.body["idle"], created.body["absolute"])
		}
	}
}

func TestJSONSurvivesUnchanged(t *testing.T) {
	const attributes = `{"big":1234567890123456789012345678901234567890,"deep":{"a":[[[{"b":null}]]]},"exp":1e400,"float":0.10,` +
		`"html":"<a href=\"x\">&</a>","minus":-0,"null":null,"text":"\u0000 \ud83d\ude00 ünïcode","":"empty name"}`
	r := newRig(t, nil)
	path, _ := r.create(`{"attributes":` + attributes + `}`)
	check := func(step string) {
		t.Helper()
		var got, want struct{ Attributes map[string]json.RawMessage }
		if err := json.Unmarshal([]byte(r.expect(http.StatusOK, http.MethodGet, path, "").text), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(`{"attributes":`+attributes+`}`), &want); err != nil {
			t.Fatal(err)
		}
		if !maps.EqualFunc(got.Attributes, want.Attributes, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
			t.Errorf("%s: got %s", step, got.Attributes)
		}
	}
	check("POST")
	r.expect(http.StatusOK, http.MethodPut, path, `{"other":1}`)
	r.expect(http.StatusOK, http.MethodPut, path, attributes)
	check("PUT")
}

func TestPatchIsAJSONMergePatch(t *testing.T) {
	// The cases of RFC 7396, appendix A, each on the attribute "v".
	for _, c := range []struct{ before, patch, after string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"n":1.0}`, `{"m":1e400}`, `{"m":1e400,"n":1.0}`},
	} {
		r := newRig(t, nil)
		path, _ := r.create(`{"attributes":{"v":` + c.before + `,"w":1}}`)
		got := r.expect(http.StatusOK, http.MethodPatch, path, `{"v":`+c.patch+`,"w":null,"new":2}`).text
		if want := `"attributes":{"new":2,"v":` + c.after + `}`; !strings.Contains(got, want) {
			t.Errorf("%s patched by %s: got %s, want %s", c.before, c.patch, got, want)
		}
	}
}

func TestIfMatch(t *testing.T) {
	r := newRig(t, nil)
	path, created := r.create(`{"attributes":{"x":0}}`)
	first := created.header.Get("ETag")
	second := r.expect(http.StatusOK, http.MethodPatch, path, `{"x":1}`, "If-Match: "+first).header.Get("ETag")
	for _, condition := range []string{first, `"1"`, `"9223372036854775807"`, `"abc"`, `W/` + second, `"0` + second[1:]} {
		for _, method := range []string{http.MethodPatch, http.MethodPut} {
			a := r.expectProblem(http.StatusPreconditionFailed, "precondition-failed", method, path, `{"x":2}`, "If-Match: "+condition)
			if `"`+fmt.Sprint(a.body["currentVersion"])+`"` != second {
				t.Errorf("currentVersion %v, want %s", a.body["currentVersion"], second)
			}
		}
	}
	r.expect(http.StatusOK, http.MethodPut, path, `{"x":2}`, "If-Match: *")
	for _, malformed := range []string{`"1", "2"`, "1", `"1`, " "} {
		for _, method := range []string{http.MethodPatch, http.MethodPut, http.MethodDelete} {
			r.expectProblem(http.StatusBadRequest, "bad-request", method, path, `{"x":2}`, "If-Match: "+malformed)
		}
	}
	r.expectProblem(http.StatusPreconditionFailed, "precondition-failed", http.MethodDelete, path, "", "If-Match: "+second)
	current := r.expect(http.StatusOK, http.MethodGet, path, "").header.Get("ETag")
	r.expect(http.StatusNoContent, http.MethodDelete, path, "", "If-Match: "+current)
	r.expectProblem(http.StatusNotFound, "session-gone", http.MethodDelete, path, "", "If-Match: "+current)
}

func TestBadRequestsAreRefusedAndChangeNothing(t *testing.T) {
	r := newRig(t, nil)
	path, created := r.create(`{"attributes":{"x":0}}`)
	big := strings.Repeat("b", 70<<10)
	for _, c := range []struct {
		status           int
		name             string
		method, at, body string
		header           string
	}{
		{400, "bad-request", "POST", "/v1/sessions", ``, ""},
		{400, "bad-request", "POST", "/v1/sessions", `{`, ""},
		{400, "bad-request", "POST", "/v1/sessions", `{} {}`, ""},
		{400, "bad-request", "POST", "/v1/sessions", `[]`, ""},
		{400, "bad-request", "POST", "/v1/sessions", `null`, ""},
		{400, "bad-request", "POST", "/v1/sessions", `{"idle":1e-10}`, ""},
		{400, "bad-request", "POST", "/v1/sessions", `{"idle":"2400000h"}`, ""},
		{400, "bad-request", "POST", "/v1/sessions", `{"absolute":"2562047h"}`, ""},
		{400, "bad-request", "POST", "/v1/sessions", `{"attributes":{"\ud800":1,"\ud801":2}}`, ""},
		{400, "bad-request", "POST", "/v1/sessions?idle=5m", `{}`, ""},
		{400, "bad-request", "PATCH", path, `{"v":` + strings.Repeat(`{"a":`, 70) + `1` + strings.Repeat(`}`, 70) + `}`, ""},
		{400, "bad-request", "POST", "/v1/sessions", `{"attributes":[1]}`, ""},
		{400, "bad-request", "POST", "/v1/sessions", `{"idel":"5m"}`, ""},
		{400, "bad-request", "POST", "/v1/sessions", `{"idle":"soon"}`, ""},
		{400, "bad-request", "POST", "/v1/sessions", `{"idle":-1}`, ""},
		{400, "bad-request", "POST", "/v1/sessions", `{"idle":1e300}`, ""},
		{400, "bad-request", "POST", "/v1/sessions", `{"idle":"1ms"}`, ""},
		{400, "bad-request", "POST", "/v1/sessions", `{"principal":7}`, ""},
		{400, "bad-request", "POST", "/v1/sessions", "{\"attributes\":{\"x\":\"\xff\"}}", ""},
		{413, "too-large", "POST", "/v1/sessions", `{"attributes":{"x":"` + big + `"}}`, ""},
		{413, "too-large", "PATCH", path, `{"x":"` + big + `"}`, ""},
		{400, "bad-request", "PATCH", path, `null`, ""},
		{400, "bad-request", "PATCH", path, `7`, ""},
		{400, "bad-request", "PUT", path, `null`, ""},
		{400, "bad-request", "PUT", path + "?conflict=maybe", `{}`, ""},
		{400, "bad-request", "GET", path + "?consistency=eventual", ``, ""},
		{400, "bad-request", "GET", path + "?passive=perhaps", ``, ""},
		{400, "bad-request", "GET", path + "?consistencey=latest", ``, ""},
		{400, "bad-request", "GET", path + "?consistency=latest;x", ``, ""},
		{400, "bad-request", "GET", path + "?conflict=strict", ``, ""},
		{400, "bad-request", "GET", path, ``, "Klatch-After: yesterday"},
		{404, "session-gone", "GET", "/v1/sessions/short", ``, ""},
		{404, "session-gone", "GET", "/v1/sessions/" + strings.Repeat("a", 27), ``, ""},
		{404, "not-found", "GET", "/v1/session", ``, ""},
		{404, "not-found", "GET", "/", ``, ""},
		{405, "method-not-allowed", "POST", path, ``, ""},
		{405, "method-not-allowed", "GET", "/v1/sessions", ``, ""},
		{405, "method-not-allowed", "DELETE", "/readyz", ``, ""},
		{400, "bad-request", "POST", "/v1/cluster/join", `{"addresses":[]}`, ""},
		{400, "bad-request", "POST", "/v1/stamps", `{}`, ""},
		{400, "bad-request", "POST", "/v1/stamps", `{"scopes":["a"],"all":true}`, ""},
		{400, "bad-request", "POST", "/v1/stamps", `{"scopes":["a",""]}`, ""},
		{400, "bad-request", "POST", "/v1/stamps", `{"scopes":["` + strings.Repeat("a", 129) + `"]}`, ""},
		{400, "bad-request", "GET", "/v1/stamps?fetched=yesterday", ``, ""},
		{400, "bad-request", "GET", "/v1/stamps?scope=a", ``, ""},
		{502, "join-failed", "POST", "/v1/cluster/join", `{"addresses":["dead:1"]}`, ""},
		{400, "bad-request", "POST", "/v1/cluster/forget", `{}`, ""},
		{409, "node-alive", "POST", "/v1/cluster/forget", `{"name":"n1"}`, ""},
		{503, "not-forgotten", "POST", "/v1/cluster/forget", `{"name":"n9"}`, ""},
		{400, "bad-request", "POST", "/v1/keyring/install", `{"key":"c2hvcnQ="}`, ""},
		{400, "bad-request", "POST", "/v1/keyring/use", `{"key":"c2hvcnQ="}`, ""},
		{403, "cross-origin", "POST", "/v1/cluster/drain", ``, "Sec-Fetch-Site: cross-site"},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{c.header}
		}
		r.expectProblem(c.status, c.name, c.method, c.at, c.body, headers...)
	}
	if now := r.expect(http.StatusOK, http.MethodGet, path, ""); now.body["version"] != created.body["version"] {
		t.Errorf("a refused request changed the session: %s", now.text)
	}
}

func TestKlatchAfterBelowTheTruthIsHarmless(t *testing.T) {
	r := newRig(t, nil)
	path, created := r.create(`{}`)
	for _, after := range []string{"0", "1", created.body["version"].(string), "9223372036854775807"} {
		r.expect(http.StatusOK, http.MethodGet, path, "", "Klatch-After: "+after)
	}
}

func TestAPassiveChangeDoesNotExtendTheSession(t *testing.T) {
	r := newRig(t, nil)
	path, created := r.create(`{}`)
	for _, c := range []struct{ method, query string }{{http.MethodPatch, "?passive"}, {http.MethodPut, "?passive=true"}} {
		got := r.expect(http.StatusOK, c.method, path+c.query, `{"x":"`+c.method+`"}`)
		if got.body["lastAccess"] != created.body["lastAccess"] {
			t.Errorf("%s moved lastAccess from %v to %v", c.method, created.body["lastAccess"], got.body["lastAccess"])
		}
	}
}

func TestADamagedSessionIsAClearError(t *testing.T) {
	r := newRig(t, nil)
	path, created := r.create(`{}`)
	key := proto.NewKey(session.DefaultTenant, proto.KindSession, created.body["id"].(string))
	if _, err := r.store.Put(t.Context(), key, []byte{1}, store.PutOptions{TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	r.expectProblem(http.StatusInternalServerError, "session-corrupt", http.MethodGet, path+"?consistency=latest", "")
}

func TestAStoreThatFailsIsA503ThatSaysWhenToTryAgain(t *testing.T) {
	r := newRig(t, nil)
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	unknown := "/v1/sessions/" + strings.Repeat("a", 27)
	for _, a := range []answer{
		r.expectProblem(http.StatusServiceUnavailable, "store-unavailable", http.MethodPost, "/v1/stamps", `{"all":true}`),
		r.expectProblem(http.StatusServiceUnavailable, "store-unavailable", http.MethodGet, "/v1/stamps", ""),
		r.expectProblem(http.StatusServiceUnavailable, "store-unavailable", http.MethodPost, "/v1/sessions", `{}`),
		r.expectProblem(http.StatusServiceUnavailable, "store-unavailable", http.MethodGet, unknown, ""),
	} {
		if a.header.Get("Retry-After") == "" {
			t.Errorf("no Retry-After: %v", a.header)
		}
	}
}

func TestReadiness(t *testing.T) {
	r := newRig(t, nil)
	r.expect(http.StatusOK, http.MethodGet, "/readyz", "")
	r.node.state = proto.Draining
	if a := r.expect(http.StatusServiceUnavailable, http.MethodGet, "/readyz", ""); a.body["state"] != "draining" {
		t.Errorf("answer %s", a.text)
	}
	r.expect(http.StatusOK, http.MethodGet, "/healthz", "")
}

func TestANodeWithoutItsStoreIsReadyAndSaysSo(t *testing.T) {
	r := newRig(t, nil)
	path, _ := r.create(`{}`)
	r.node.degraded = "store"
	if a := r.expect(http.StatusOK, http.MethodGet, "/readyz", ""); a.body["degraded"] != "store" {
		t.Errorf("answer %s", a.text)
	}
	if a := r.expect(http.StatusOK, http.MethodGet, path, ""); a.header.Get("Klatch-Degraded") != "store" {
		t.Errorf("headers %v", a.header)
	}
}

func TestTheCluster(t *testing.T) {
	r := newRig(t, nil)
	a := r.expect(http.StatusOK, http.MethodGet, "/v1/cluster", "")
	for _, want := range []string{`"name":"n1"`, `"state":"ready"`, `"state":"vanished"`} {
		if !strings.Contains(a.text, want) {
			t.Errorf("%s lacks %s", a.text, want)
		}
	}
	r.expect(http.StatusOK, http.MethodPost, "/v1/cluster/join", `{"addresses":["127.0.0.1:1"]}`)
	r.expect(http.StatusAccepted, http.MethodPost, "/v1/cluster/drain", "")
	if !<-r.node.drained {
		t.Error("drain did not wait for the balancers")
	}
	r.expect(http.StatusAccepted, http.MethodPost, "/v1/cluster/leave", "")
	if <-r.node.drained {
		t.Error("leave waited for the balancers")
	}
}

func TestStampsKillWhatWasFetchedBefore(t *testing.T) {
	r := newRig(t, nil)
	before := r.expect(http.StatusOK, http.MethodGet, "/v1/stamps", "").body["epoch"]
	object := fmt.Sprintf("/v1/stamps?fetched=%v&scope=url:/a&scope=tag:red", before)
	alive := func(path string) any { return r.expect(http.StatusOK, http.MethodGet, path, "").body["alive"] }
	if alive(object) != true {
		t.Error("dead before it was killed")
	}
	receipt := r.expect(http.StatusOK, http.MethodPost, "/v1/stamps", `{"scopes":["tag:red"]}`)
	if want := `{"epoch":"1","acknowledged":["n1"],"unconfirmed":[],"bound":"3s"}`; strings.TrimSpace(receipt.text) != want {
		t.Errorf("receipt %s, want %s", receipt.text, want)
	}
	if alive(object) != false || alive("/v1/stamps?fetched=1&scope=tag:red") != true || alive("/v1/stamps?fetched=0&scope=tag:blue") != true {
		t.Error("the stamp kills too little or too much")
	}
	r.expect(http.StatusOK, http.MethodPost, "/v1/stamps", `{"all":true}`)
	if alive("/v1/stamps?fetched=1&scope=tag:blue") != false {
		t.Error("the stamp of everything does not kill everything")
	}
}

func TestTheTokenGuardsAllButHealth(t *testing.T) {
	r := newRig(t, NewToken("a-secret-of-some-length"))
	for _, header := range []string{"X-None: 1", "Authorization: Bearer wrong", "Authorization: Basic a-secret-of-some-length", "Authorization: a-secret-of-some-length"} {
		r.expectProblem(http.StatusUnauthorized, "unauthorized", http.MethodPost, "/v1/sessions", `{}`, header)
		r.expectProblem(http.StatusUnauthorized, "unauthorized", http.MethodGet, "/v1/cluster", ``, header)
	}
	r.expect(http.StatusCreated, http.MethodPost, "/v1/sessions", `{}`, "Authorization: Bearer a-secret-of-some-length")
	r.expect(http.StatusOK, http.MethodGet, "/readyz", "")
}

func TestThePublicListenerHasNoClusterResources(t *testing.T) {
	r := newRig(t, nil)
	public := httptest.NewServer(r.api.Public())
	defer public.Close()
	r.server.Config.Handler, public.Config.Handler = public.Config.Handler, r.server.Config.Handler
	r.expectProblem(http.StatusNotFound, "not-found", http.MethodGet, "/v1/cluster", "")
	r.expectProblem(http.StatusNotFound, "not-found", http.MethodPost, "/v1/cluster/drain", "")
	r.expectProblem(http.StatusNotFound, "not-found", http.MethodPost, "/v1/stamps", `{"all":true}`)
}

func TestTheOpenAPIFileListsWhatIsServed(t *testing.T) {
	text, err := os.ReadFile("../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	var documented, served []string
	for path, operations := range document.Paths {
		for method := range operations {
			if method != "parameters" {
				documented = append(documented, strings.ToUpper(method)+" "+path)
			}
		}
	}
	api := newRig(t, nil).api
	for _, part := range []resources{api.sessionResources(), api.clusterResources(), api.stampResources(), api.metricsResources(), api.healthResources()} {
		for path, methods := range part {
			for method := range methods {
				served = append(served, method+" "+path)
			}
		}
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("documented:\n%s\nserved:\n%s", strings.Join(documented, "\n"), strings.Join(served, "\n"))
	}
}

//go:build e2e && linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"klatch/internal/history"
	"klatch/proto"
)

// stalenessBound is the design's. No margin is needed: what a client was answered before was published before, and
// a node decides about a copy after it was asked.
const stalenessBound = 3 * time.Second

// requestLimit is longer than a node is ever frozen, so that what waits in it is answered and checked.
const requestLimit = 40 * time.Second

// traffic is what recorded clients do to the sessions of a network, and what they were answered.
type traffic struct {
	t        *testing.T
	network  *network
	recorder *history.Recorder
	stop     context.CancelFunc
	stopped  context.Context
	running  sync.WaitGroup

	mu     sync.Mutex // guards all below
	ids    map[string]string
	living []string // keys of sessions that nobody has asked to delete
	dead   []string // keys of those that somebody has
	count  int      // of keys, clients and values given out
}

// newTraffic makes so many sessions, and no traffic yet.
func newTraffic(n *network, sessions int) *traffic {
	n.t.Helper()
	stopped, stop := context.WithCancel(n.t.Context())
	tr := &traffic{t: n.t, network: n, recorder: history.NewRecorder(time.Now), stop: stop, stopped: stopped, ids: map[string]string{}}
	setup := tr.client("setup", n.nodes...)
	for range sessions {
		if setup.create(); n.t.Failed() {
			n.t.FailNow()
		}
	}
	return tr
}

// client is one recorded client. It is used by one goroutine.
type client struct {
	traffic *traffic
	name    string
	nodes   []*netNode // it asks any of these
	rand    *rand.Rand
	tokens  map[string]proto.Version // the highest version seen of each key
}

func (tr *traffic) client(name string, nodes ...*netNode) *client {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.count++
	return &client{tr, fmt.Sprintf("%s%d", name, tr.count), nodes, rand.New(rand.NewPCG(uint64(tr.count), 0)), map[string]proto.Version{}}
}

// run lets n clients work at once until the traffic is stopped: each does one step, pauses, and so on.
func (tr *traffic) run(n int, pause time.Duration, name string, step func(*client), nodes ...*netNode) {
	for range n {
		c := tr.client(name, nodes...)
		tr.running.Go(func() {
			for tr.stopped.Err() == nil {
				step(c)
				select {
				case <-tr.stopped.Done():
				case <-time.After(pause/2 + time.Duration(c.rand.Int64N(int64(pause)))):
				}
			}
		})
	}
}

// finish stops the traffic and waits for its end.
func (tr *traffic) finish() {
	tr.stop()
	tr.running.Wait()
}

// The steps.

func (c *client) reads() {
	key := c.anyKey()
	c.read(c.anyNode(), key, []string{history.Local, history.Session, history.Session, history.Latest}[c.rand.IntN(4)])
}

func (c *client) writes() {
	if key := c.livingKey(); c.rand.IntN(4) == 0 && c.tokens[key] > 0 {
		c.write(c.anyNode(), key, c.tokens[key])
	} else {
		c.write(c.anyNode(), key, 0)
	}
}

// writesAndReads writes on one node and reads on another, as the requests of one browser are spread.
func (c *client) writesAndReads() {
	key := c.livingKey()
	c.write(c.anyNode(), key, 0)
	c.read(c.anyNode(), key, history.Session)
}

// deletes puts a new session into the place of the one that it deletes.
func (c *client) deletes() {
	c.delete(c.anyNode())
	c.create()
}

func (c *client) anyNode() *netNode { return c.nodes[c.rand.IntN(len(c.nodes))] }

func (c *client) livingKey() string {
	c.traffic.mu.Lock()
	defer c.traffic.mu.Unlock()
	return c.traffic.living[c.rand.IntN(len(c.traffic.living))]
}

// anyKey is that of a dead session now and then: it might have come back.
func (c *client) anyKey() string {
	c.traffic.mu.Lock()
	defer c.traffic.mu.Unlock()
	keys := c.traffic.living
	if dead := c.traffic.dead; len(dead) > 0 && c.rand.IntN(4) == 0 {
		keys = dead[max(0, len(dead)-10):]
	}
	return keys[c.rand.IntN(len(keys))]
}

func (tr *traffic) next(prefix string) string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.count++
	return fmt.Sprintf("%s%d", prefix, tr.count)
}

func (c *client) create() {
	tr := c.traffic
	key, value, element := tr.next("s"), tr.next("v"), tr.next("e")
	got := c.ask(c.anyNode(), history.Operation{Key: key, Kind: history.Create, Value: value, Element: element},
		http.MethodPost, "/v1/sessions", fmt.Sprintf(`{"attributes":{"value":%q,%q:1}}`, value, element))
	if got.status == http.StatusCreated {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.ids[key] = got.session.ID
		tr.living = append(tr.living, key)
	}
}

func (c *client) read(n *netNode, key, level string) answer {
	o := history.Operation{Key: key, Kind: history.Read, Level: level}
	var headers []string
	if level == history.Session && c.tokens[key] > 0 {
		o.Token = c.tokens[key]
		headers = []string{"Klatch-After: " + o.Token.String()}
	}
	return c.ask(n, o, http.MethodGet, c.path(key)+"?consistency="+level, "", headers...)
}

// write changes what all writers change and adds what is its own. Its condition is expect, if it is not 0.
func (c *client) write(n *netNode, key string, expect proto.Version) answer {
	o := history.Operation{Key: key, Kind: history.Write, Value: c.traffic.next("v"), Element: c.traffic.next("e"), Expect: expect}
	var headers []string
	if expect > 0 {
		o.Kind, headers = history.CAS, []string{fmt.Sprintf(`If-Match: "%s"`, expect)}
	}
	return c.ask(n, o, http.MethodPatch, c.path(key), fmt.Sprintf(`{"value":%q,%q:1}`, o.Value, o.Element), headers...)
}

func (c *client) delete(n *netNode) {
	tr := c.traffic
	tr.mu.Lock()
	i := c.rand.IntN(len(tr.living))
	key := tr.living[i]
	tr.living = slices.Delete(tr.living, i, i+1)
	tr.dead = append(tr.dead, key)
	tr.mu.Unlock()
	c.ask(n, history.Operation{Key: key, Kind: history.Delete}, http.MethodDelete, c.path(key), "")
}

func (c *client) path(key string) string {
	c.traffic.mu.Lock()
	defer c.traffic.mu.Unlock()
	return "/v1/sessions/" + c.traffic.ids[key]
}

// ask sends one request and takes down what it was answered.
func (c *client) ask(n *netNode, o history.Operation, method, path, body string, headers ...string) answer {
	o.Client, o.Node = c.name, n.name
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.traffic.t.Context()), requestLimit)
	defer cancel()
	pending := c.traffic.recorder.Begin(o)
	got, err := request(ctx, method, "http://"+n.api+path, body, headers...)
	result, wrong := outcome(o, got, err)
	pending.End(result)
	if wrong != nil {
		c.traffic.t.Errorf("%s %s at %s: %v", method, path, n.name, wrong)
	}
	if result.Outcome == history.OK {
		c.tokens[o.Key] = max(c.tokens[o.Key], result.Version)
	}
	return got
}

// outcome tells what a client knows after an answer. An answer that makes no sense is an error.
func outcome(o history.Operation, got answer, err error) (history.Answer, error) {
	var refused *net.OpError
	switch {
	case errors.As(err, &refused) && refused.Op == "dial", err != nil && o.Kind == history.Read:
		return history.Answer{Outcome: history.Failed, Note: err.Error()}, nil
	case err != nil:
		return history.Answer{Outcome: history.Unknown, Note: err.Error()}, nil
	case got.problem.Type == "urn:klatch:error:outcome-unknown":
		return history.Answer{Outcome: history.Unknown, Note: got.problem.Type}, nil
	case got.status == http.StatusServiceUnavailable:
		return history.Answer{Outcome: history.Failed, Note: got.problem.Type}, nil
	case got.problem.Type == "urn:klatch:error:session-gone":
		return history.Answer{Outcome: history.Absent}, nil
	case got.status == http.StatusPreconditionFailed && o.Kind == history.CAS:
		version, err := proto.ParseVersion(got.problem.CurrentVersion)
		return history.Answer{Outcome: history.Conflict, Version: version}, err
	case got.status == http.StatusNoContent && o.Kind == history.Delete:
		return history.Answer{Outcome: history.OK, Unconfirmed: got.unconfirmed}, nil
	case got.status == http.StatusOK || got.status == http.StatusCreated:
		version, err := proto.ParseVersion(got.session.Version)
		return history.Answer{Outcome: history.OK, Version: version, Value: strings.Trim(got.attribute("value"), `"`)}, err
	default:
		return history.Answer{Outcome: history.Unknown}, fmt.Errorf("unexpected answer %+v", got)
	}
}

// agreeWithin is how long after all faults nodes may take until they answer the same. It is less than the time at
// which a copy is checked for its age alone.
const agreeWithin = 15 * time.Second

// check demands that every node, at every level, answers what the store holds, for every session touched, and that
// the history keeps all promises.
func (tr *traffic) check() {
	tr.t.Helper()
	final := tr.settle()
	h := tr.recorder.History()
	err := history.Check(h,
		history.Linearizable{},
		history.ReadYourWrites{}, history.MonotonicReads{}, history.TokenHonoured{},
		history.NoResurrection{Grace: stalenessBound},
		history.BoundedStaleness{Bound: stalenessBound},
		history.NothingLost{Final: final},
	)
	if err != nil {
		tr.t.Error(err)
	}
	tr.report(h)
}

// settle waits until all nodes answer the same, and returns it.
func (tr *traffic) settle() map[string]history.Final {
	tr.t.Helper()
	final := map[string]history.Final{}
	nodes := tr.network.nodes
	c := tr.client("check", nodes...)
	deadline := time.Now().Add(agreeWithin)
	for _, key := range slices.Concat(tr.living, tr.dead) {
		truth := c.read(nodes[0], key, history.Latest)
		for _, n := range nodes {
			for _, level := range []string{history.Local, history.Session, history.Latest} {
				got := c.read(n, key, level)
				for ; got.status != truth.status || got.session.Version != truth.session.Version; got = c.read(n, key, level) {
					if time.Now().After(deadline) {
						tr.t.Fatalf("%s at %s: status %d, version %s; the store has %d, %s", n.name, level, got.status, got.session.Version, truth.status, truth.session.Version)
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		}
		final[key] = finalOf(truth)
	}
	return final
}

// finalOf tells what a read of the store has found.
func finalOf(a answer) history.Final {
	if a.status != http.StatusOK {
		return history.Final{}
	}
	var attributes map[string]json.RawMessage
	_ = json.Unmarshal(a.session.Attributes, &attributes) // the API's own
	version, _ := proto.ParseVersion(a.session.Version)   // was read before
	f := history.Final{Found: true, Version: version, Value: strings.Trim(a.attribute("value"), `"`)}
	for name := range attributes {
		if name != "value" {
			f.Elements = append(f.Elements, name)
		}
	}
	return f
}

// report prints what was measured.
func (tr *traffic) report(h history.History) {
	tr.t.Helper()
	outcomes := map[history.Outcome]int{}
	for _, o := range h {
		outcomes[o.Outcome]++
	}
	tr.t.Logf("%d operations on %d sessions checked: %v", len(h), len(tr.ids), outcomes)
	for _, level := range []string{history.Local, history.Session} {
		if lags := history.Staleness(h, level); len(lags) > 0 {
			tr.t.Logf("%d reads at %s: staleness p50 %s, p99 %s, max %s", len(lags), level, lags[len(lags)/2].Round(time.Microsecond),
				lags[len(lags)*99/100].Round(time.Microsecond), lags[len(lags)-1].Round(time.Microsecond))
		}
	}
}

// failures counts the operations after a moment that were not answered as a cluster does that works.
func (tr *traffic) failures() (failed int) {
	for _, o := range tr.recorder.History() {
		if o.Outcome == history.Failed || o.Outcome == history.Unknown {
			failed++
		}
	}
	return failed
}

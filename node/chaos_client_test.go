package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"klatch/internal/history"
	"klatch/proto"
	"klatch/session"
	"klatch/store"
	"klatch/store/near"
)

// keys are the sessions of a run that all clients know, by a short name for each.
type keys struct {
	mu     sync.Mutex // guards all below
	living []string
	dead   []string
	ids    map[string]string
}

func (k *keys) add(key, id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ids[key] = id
	k.living = append(k.living, key)
}

// pick returns a session; now and then one that somebody has asked to delete, if dead may be.
func (k *keys) pick(r *rand.Rand, dead bool) (key, id string, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	from := k.living
	if dead && len(k.dead) > 0 && r.IntN(4) == 0 {
		from = k.dead
	}
	if len(from) == 0 {
		return "", "", false
	}
	key = from[r.IntN(len(from))]
	return key, k.ids[key], true
}

func (k *keys) bury(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.living, key); i >= 0 {
		k.living = slices.Delete(k.living, i, i+1)
		k.dead = append(k.dead, key)
	}
}

// chaosClient is a user whose requests go to any node.
type chaosClient struct {
	rig      *rig
	name     string
	rand     *rand.Rand
	recorder *history.Recorder
	keys     *keys
	tokens   map[string]proto.Version
	count    int
}

// run does things until the time is over.
func (c *chaosClient) run(until time.Time) {
	for time.Now().Before(until) {
		c.step()
		time.Sleep(time.Duration(c.rand.Int64N(int64(60 * time.Millisecond))))
	}
}

func (c *chaosClient) step() {
	at := c.rig.nodes[c.rand.IntN(len(c.rig.nodes))]
	switch dice := c.rand.IntN(100); {
	case dice < 3:
		c.create(at)
	case dice < 6:
		c.delete(at)
	case dice < 30:
		c.write(at, false)
	case dice < 40:
		c.write(at, true)
	default:
		c.read(at, []string{history.Local, history.Session, history.Session, history.Latest}[c.rand.IntN(4)])
	}
}

// next returns something that nobody else writes.
func (c *chaosClient) next() string {
	c.count++
	return fmt.Sprintf("%s-%d", c.name, c.count)
}

// ask does an operation on a node and takes down what the client was answered. A node that is down answers nothing,
// and one that dies meanwhile does not either.
func (c *chaosClient) ask(at *chaosNode, o history.Operation, do func(context.Context, *session.Manager) (history.Answer, error)) {
	o.Client, o.Node = c.name, at.name
	pending := c.recorder.Begin(o)
	engine := at.running()
	if engine == nil {
		pending.End(history.Answer{Outcome: history.Failed, Note: "the node is down"})
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answer, err := do(ctx, engine.sessions)
	if engine.store.dead.Load() {
		return
	}
	if err != nil {
		answer = refusal(o, err)
	}
	pending.End(answer)
	if answer.Outcome == history.OK {
		c.tokens[o.Key] = max(c.tokens[o.Key], answer.Version)
	}
}

// refusal tells what a client knows after an error.
func refusal(o history.Operation, err error) history.Answer {
	answer := history.Answer{Outcome: history.Unknown, Note: err.Error()}
	var conflict *session.ConflictError
	switch {
	case errors.As(err, &conflict):
		answer.Outcome, answer.Version = history.Conflict, conflict.Current
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrGone):
		answer.Outcome = history.Absent
	case errors.Is(err, session.ErrOutcomeUnknown), errors.Is(err, store.ErrAmbiguous):
	case errors.Is(err, store.ErrUnavailable), o.Kind == history.Read:
		answer.Outcome = history.Failed
	}
	return answer
}

func found(s *session.Session, err error) (history.Answer, error) {
	if err != nil {
		return history.Answer{}, err
	}
	value, _ := s.Get("value")
	return history.Answer{Outcome: history.OK, Version: s.Version(), Value: string(value.Data)}, nil
}

func (c *chaosClient) read(at *chaosNode, level string) {
	key, id, ok := c.keys.pick(c.rand, true)
	if !ok {
		return
	}
	o := history.Operation{Key: key, Kind: history.Read, Level: level}
	if level == history.Session {
		o.Token = c.tokens[key]
	}
	parsed, err := near.ParseLevel(level)
	if err != nil {
		c.rig.t.Error(err)
	}
	c.ask(at, o, func(ctx context.Context, m *session.Manager) (history.Answer, error) {
		return found(m.Load(ctx, id, session.LoadOptions{Level: parsed, After: o.Token}))
	})
}

func (c *chaosClient) write(at *chaosNode, conditional bool) {
	key, id, ok := c.keys.pick(c.rand, true)
	if !ok {
		return
	}
	o := history.Operation{Key: key, Kind: history.Write, Value: c.next(), Element: c.next()}
	if conditional && c.tokens[key] > 0 {
		o.Kind, o.Expect = history.CAS, c.tokens[key]
	}
	c.ask(at, o, func(ctx context.Context, m *session.Manager) (history.Answer, error) {
		return found(m.Update(ctx, id, session.LoadOptions{}, session.CommitOptions{IfMatch: o.Expect}, func(s *session.Session) error {
			s.Set("value", session.Bytes([]byte(o.Value)))
			s.Set(o.Element, session.Bytes(nil))
			return nil
		}))
	})
}

func (c *chaosClient) create(at *chaosNode) {
	o := history.Operation{Key: c.next(), Kind: history.Create, Value: c.next(), Element: c.next()}
	engine := at.running()
	if engine == nil {
		return
	}
	s, err := engine.sessions.Start(session.Draft{Attributes: map[string]session.Value{
		"value": session.Bytes([]byte(o.Value)), o.Element: session.Bytes(nil),
	}})
	if err != nil {
		c.rig.t.Error(err)
		return
	}
	id := s.ID()
	c.ask(at, o, func(ctx context.Context, m *session.Manager) (history.Answer, error) {
		return found(s, m.Commit(ctx, s, session.CommitOptions{}))
	})
	if c.tokens[o.Key] > 0 { // nobody learns the id of a session that may not have been saved
		c.keys.add(o.Key, id)
	}
}

func (c *chaosClient) delete(at *chaosNode) {
	key, id, ok := c.keys.pick(c.rand, false)
	if !ok {
		return
	}
	c.keys.bury(key)
	c.ask(at, history.Operation{Key: key, Kind: history.Delete}, func(ctx context.Context, m *session.Manager) (history.Answer, error) {
		unconfirmed, err := m.Delete(ctx, id)
		return history.Answer{Outcome: history.OK, Unconfirmed: unconfirmed}, err
	})
}

// final reads what the store holds of every session.
func (k *keys) final(at *chaosNode) (map[string]history.Final, error) {
	all := map[string]history.Final{}
	for key, id := range k.ids {
		s, err := at.running().sessions.Load(context.Background(), id, session.LoadOptions{Level: near.Latest, Passive: true})
		if errors.Is(err, session.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f := history.Final{Found: true, Version: s.Version()}
		for name, value := range s.All() {
			if name == "value" {
				f.Value = string(value.Data)
			} else if strings.Contains(name, "-") {
				f.Elements = append(f.Elements, name)
			}
		}
		all[key] = f
	}
	return all, nil
}

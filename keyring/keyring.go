package keyring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"klatch/cluster"
)

// Peers are the members of the cluster.
type Peers interface {
	Ask(ctx context.Context, member, method string, body []byte) ([]byte, error)
	AskAll(ctx context.Context, method string, body []byte) []cluster.Reply
	Members() []cluster.Member
	Unseen() []string
}

var _ Peers = (*cluster.Cluster)(nil)

// Keeper keeps the keys with which the node starts, the one that encrypts first.
type Keeper interface {
	Load() ([][]byte, error)
	Save(keys [][]byte) error
}

// Options configure a [Rotation]. All are required.
type Options struct {
	Ring   *cluster.Keyring
	Peers  Peers
	Keeper Keeper
}

// Rotation changes the keys of the cluster, and those of this node when a peer asks for it. It is safe for concurrent
// use.
type Rotation struct {
	opts Options

	mu sync.Mutex // held while a change goes through this node
}

// New returns the rotation of a node.
func New(opts Options) *Rotation { return &Rotation{opts: opts} }

// Node is one node's keys, by fingerprint.
type Node struct {
	Name    string   `json:"name"`
	Keys    []string `json:"keys"`              // in use, the one that encrypts first; null if not known
	Saved   []string `json:"saved"`             // with which it would start again
	Problem string   `json:"problem,omitempty"` // what is not as it should be
}

// The requests that nodes send each other.
const (
	methodList   = "keyring/list"
	methodChange = "keyring/change"
	methodApply  = "keyring/apply"
)

const (
	// askTimeout bounds one round to all nodes.
	askTimeout = 3 * time.Second
	// changeTimeout bounds a change, which takes two.
	changeTimeout = 8 * time.Second
)

// List returns the keys of all nodes that belong to the cluster, by name.
func (r *Rotation) List(ctx context.Context) []Node {
	return append(r.askAll(ctx, methodList, nil), r.unseen()...)
}

// Change makes all nodes take a step. It returns their keys thereafter; a node that has not taken it, or cannot save
// it, says so in its Problem. It fails with ErrInvalid or ErrRefused; nothing has been changed then.
func (r *Rotation) Change(ctx context.Context, c Change) ([]Node, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if r.opts.Ring.Keys() == nil {
		return nil, fmt.Errorf("%w: the traffic of this cluster is not encrypted. Stop all nodes and start them with a gossip-key-file", ErrRefused)
	}
	request, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	text, err := r.opts.Peers.Ask(ctx, r.first(), methodChange, request)
	if err != nil {
		return nil, err
	}
	var answer changeAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("change the keys: the answer of %s: %w", r.first(), err)
	}
	if answer.Refused != "" {
		return nil, refusal(answer.Refused)
	}
	return answer.Nodes, nil
}

// changeAnswer is how a change has ended.
type changeAnswer struct {
	Nodes   []Node `json:"nodes,omitempty"`
	Refused string `json:"refused,omitempty"`
}

// refusal is the text of an ErrRefused that another node has returned.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// Is implements what errors.Is looks for.
func (r refusal) Is(target error) bool { return target == ErrRefused }

// first returns the node through which all changes go.
func (r *Rotation) first() string {
	members := r.opts.Peers.Members() // by name
	return members[slices.IndexFunc(members, func(m cluster.Member) bool { return m.Alive })].Name
}

// Answer answers what other nodes ask of this one; handled is false if the method is none of this package.
func (r *Rotation) Answer(ctx context.Context, method string, body []byte) (reply []byte, handled bool, err error) {
	var c Change
	if method == methodChange || method == methodApply {
		if err := json.Unmarshal(body, &c); err != nil {
			return nil, true, err
		}
	}
	switch method {
	case methodList:
		reply, err = json.Marshal(r.own(nil))
	case methodChange:
		reply, err = json.Marshal(r.change(ctx, c))
	case methodApply:
		reply, err = json.Marshal(r.own(r.apply(c)))
	default:
		return nil, false, nil
	}
	return reply, true, err
}

// change makes all nodes take a step unless the guard refuses.
func (r *Rotation) change(ctx context.Context, c Change) changeAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes := r.askAll(ctx, methodList, nil)
	var err error
	if c.Step != Install {
		c.Fingerprint, err = complete(c.Fingerprint, nodes)
	}
	if err == nil {
		err = c.guard(nodes, r.opts.Peers.Unseen())
	}
	if err != nil {
		return changeAnswer{Refused: err.Error()}
	}
	request, err := json.Marshal(c)
	if err != nil {
		return changeAnswer{Refused: err.Error()}
	}
	return changeAnswer{Nodes: append(r.askAll(ctx, methodApply, request), r.unseen()...)}
}

// apply takes a step on this node, and saves it.
func (r *Rotation) apply(c Change) error {
	var err error
	switch c.Step {
	case Install:
		err = r.opts.Ring.Install(c.Key)
	case Use:
		err = r.opts.Ring.Use(c.Fingerprint)
	case Remove:
		err = r.opts.Ring.Remove(c.Fingerprint)
		if errors.Is(err, cluster.ErrNoKey) {
			err = nil
		}
	default:
		err = fmt.Errorf("%w: unknown step %.20q", ErrInvalid, c.Step)
	}
	if err != nil {
		return err
	}
	keys := r.opts.Ring.Keys()
	if saved, err := r.opts.Keeper.Load(); err == nil && slices.Equal(fingerprints(saved), fingerprints(keys)) {
		return nil // by whoever keeps the file in place of this node
	}
	return r.opts.Keeper.Save(keys)
}

// own returns this node's keys, with a problem if there is one.
func (r *Rotation) own(failed error) Node {
	keys := r.opts.Ring.Keys()
	n := Node{Keys: fingerprints(keys)}
	saved, err := r.opts.Keeper.Load()
	if err == nil {
		n.Saved = fingerprints(saved)
	}
	switch {
	case failed != nil:
		n.Problem = failed.Error()
	case err != nil:
		n.Problem = err.Error()
	case !slices.Equal(n.Keys, n.Saved):
		n.Problem = "its key file has other keys, or in another order; it would start again with those"
	}
	return n
}

// askAll asks all live nodes and returns their keys.
func (r *Rotation) askAll(ctx context.Context, method string, body []byte) []Node {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var nodes []Node
	for _, reply := range r.opts.Peers.AskAll(ctx, method, body) {
		var n Node
		if reply.Err == nil {
			reply.Err = json.Unmarshal(reply.Body, &n)
		}
		if reply.Err != nil {
			n = Node{Problem: reply.Err.Error()}
		}
		n.Name = reply.Member
		nodes = append(nodes, n)
	}
	return nodes
}

// unseen returns the nodes whose keys cannot be asked for.
func (r *Rotation) unseen() (nodes []Node) {
	for _, name := range r.opts.Peers.Unseen() {
		nodes = append(nodes, Node{Name: name, Problem: "it is not heard"})
	}
	return nodes
}

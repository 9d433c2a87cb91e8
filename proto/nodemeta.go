package proto

import "fmt"

// MaxNodeMetaBytes bounds the encoded [NodeMeta]; it is memberlist's limit.
const MaxNodeMetaBytes = 512

// NodeState says how far a node is in its life.
type NodeState uint8

// The states of a node.
const (
	Joining  NodeState = 1
	Ready    NodeState = 2
	Draining NodeState = 3
)

// String returns the state as operators see it.
func (s NodeState) String() string {
	switch s {
	case Joining:
		return "joining"
	case Ready:
		return "ready"
	case Draining:
		return "draining"
	default:
		return fmt.Sprintf("state-%d", uint8(s))
	}
}

// NodeMeta is what every member tells of itself with its membership.
type NodeMeta struct {
	Release string
	HTTP    string // address of the HTTP API
	Admin   string // address of the admin listener
	State   NodeState
	// Started is when this boot of the node began, in Unix milliseconds of its own clock. Of two boots of one
	// name the later counts.
	Started uint64
}

const nodeMetaFields = 6

// Encode returns the msgpack form.
func (m NodeMeta) Encode() []byte {
	e := newEncoder()
	e.array(nodeMetaFields)
	e.uint(WireVersion)
	e.string(m.Release)
	e.string(m.HTTP)
	e.string(m.Admin)
	e.uint(uint64(m.State))
	e.uint(m.Started)
	return e.buf.Bytes()
}

// DecodeNodeMeta reads the msgpack form.
func DecodeNodeMeta(p []byte) (NodeMeta, error) {
	d := newDecoder(p)
	fields := d.array(nodeMetaFields)
	d.schema(WireVersion)
	m := NodeMeta{Release: d.string(), HTTP: d.string(), Admin: d.string()}
	state := d.uint()
	if state > 255 {
		d.fail(fmt.Errorf("%w: node state %d", ErrCorrupt, state))
	}
	m.State = NodeState(state)
	m.Started = d.uint()
	d.trailing(fields - nodeMetaFields)
	if err := d.end(); err != nil {
		return NodeMeta{}, fmt.Errorf("node meta: %w", err)
	}
	return m, nil
}

package proto

import (
	"fmt"
	"time"
)

// WireVersion is the first byte of every message on the bus. It changes only when the frame itself does;
// new kinds of message or item do not change it.
const WireVersion = 1

// MaxMessageBytes bounds a message that is sent as one datagram, so that it fits the common path MTU with
// room for memberlist's label and encryption. memberlist itself enforces no size.
const MaxMessageBytes = 1200

// Message is what one node sends another: [Batch], [Mark], [Farewell] or [State].
type Message interface{ messageKind() messageKind }

type messageKind uint64

const (
	kindBatch    messageKind = 1
	kindMark     messageKind = 2
	kindFarewell messageKind = 3
	kindState    messageKind = 4
)

// Origin names the numbering that a batch belongs to: a node and one of its boots.
type Origin struct {
	Node string
	Boot uint64 // new at each start of the node
}

// Batch carries news. Sequences of one origin are gap-free and begin at 1.
type Batch struct {
	Origin Origin
	Seq    uint64
	Items  []Item
	// Unknown counts items of kinds that this release does not know; they were skipped.
	Unknown int
}

// Mark tells the last sequence that its origin has sent, so that the loss of a last batch is found too.
type Mark struct {
	Origin Origin
	Last   uint64
}

// Farewell is the last message of a node that leaves on purpose. It carries the node's last sequence.
type Farewell struct {
	Origin Origin
	Last   uint64
}

// State is exchanged when two nodes synchronise in full: marks, never data.
type State struct {
	Marks []Mark
}

func (Batch) messageKind() messageKind    { return kindBatch }
func (Mark) messageKind() messageKind     { return kindMark }
func (Farewell) messageKind() messageKind { return kindFarewell }
func (State) messageKind() messageKind    { return kindState }

// Item is one piece of news: [Invalidate] or [Touched]. Items are idempotent and commute, so they are
// applied on arrival whatever the order.
type Item interface{ itemKind() itemKind }

type itemKind uint64

const (
	kindInvalidate itemKind = 1
	kindTouched    itemKind = 2
)

// Invalidate says that the record of Key is now at Version or above, or, if Dead, gone for ever.
type Invalidate struct {
	Key     Key
	Version Version
	Dead    bool
}

// Touched says that somebody has recorded an access to the session of Key. Its content has not changed.
type Touched struct {
	Key        Key
	LastAccess time.Time
}

func (Invalidate) itemKind() itemKind { return kindInvalidate }
func (Touched) itemKind() itemKind    { return kindTouched }

// EncodeItem returns the msgpack form of one item, ready to be packed by [PackBatch].
func EncodeItem(item Item) []byte {
	e := newEncoder()
	switch it := item.(type) {
	case Invalidate:
		e.array(4)
		e.uint(uint64(kindInvalidate))
		e.string(it.Key.Wire())
		e.version(it.Version)
		e.bool(it.Dead)
	case Touched:
		e.array(3)
		e.uint(uint64(kindTouched))
		e.string(it.Key.Wire())
		e.time(it.LastAccess)
	}
	return e.buf.Bytes()
}

// batchOverhead bounds what a batch's frame costs beside its origin's name and its items.
const batchOverhead = 40

// PackBatch makes a batch out of as many leading items as fit into limit bytes, at least one, and returns
// the message and how many items it holds.
func PackBatch(origin Origin, seq uint64, items [][]byte, limit int) (message []byte, packed int) {
	size := batchOverhead + len(origin.Node)
	for packed < len(items) && (packed == 0 || size+len(items[packed]) <= limit) {
		size += len(items[packed])
		packed++
	}
	e := newFrame(kindBatch, 5)
	e.origin(origin)
	e.uint(seq)
	e.array(packed)
	for _, item := range items[:packed] {
		e.raw(item)
	}
	return e.buf.Bytes(), packed
}

// EncodeMessage returns the wire form of a mark, a farewell or a state. Batches are made by [PackBatch].
func EncodeMessage(m Message) []byte {
	switch m := m.(type) {
	case Mark:
		return encodeMark(kindMark, m)
	case Farewell:
		return encodeMark(kindFarewell, Mark(m))
	case State:
		e := newFrame(kindState, 2)
		e.array(len(m.Marks))
		for _, mark := range m.Marks {
			e.array(3)
			e.origin(mark.Origin)
			e.uint(mark.Last)
		}
		return e.buf.Bytes()
	default:
		panic(fmt.Sprintf("proto: %T has no encoding of its own", m))
	}
}

func encodeMark(kind messageKind, m Mark) []byte {
	e := newFrame(kind, 4)
	e.origin(m.Origin)
	e.uint(m.Last)
	return e.buf.Bytes()
}

// newFrame begins a message of so many elements, its kind included.
func newFrame(kind messageKind, elements int) *encoder {
	e := newEncoder()
	e.buf.WriteByte(WireVersion)
	e.array(elements)
	e.uint(uint64(kind))
	return e
}

// origin writes two elements.
func (e *encoder) origin(o Origin) {
	e.string(o.Node)
	e.uint(o.Boot)
}

func (d *decoder) origin() Origin { return Origin{Node: d.string(), Boot: d.uint()} }

// DecodeMessage reads the wire form of any message. The message does not share memory with p.
func DecodeMessage(p []byte) (Message, error) {
	if len(p) == 0 {
		return nil, fmt.Errorf("%w: empty message", ErrCorrupt)
	}
	if p[0] != WireVersion {
		return nil, fmt.Errorf("%w: wire version %d, this release speaks %d", ErrSchema, p[0], WireVersion)
	}
	d := newDecoder(p[1:])
	elements := d.array(1)
	var m Message
	var known int
	switch kind := messageKind(d.uint()); {
	case d.err != nil:
	case kind == kindBatch:
		known = 5
		m = decodeBatch(d)
	case kind == kindMark:
		known = 4
		m = decodeMark(d)
	case kind == kindFarewell:
		known = 4
		m = Farewell(decodeMark(d))
	case kind == kindState:
		known = 2
		m = decodeState(d)
	default:
		return nil, fmt.Errorf("%w (%d)", ErrUnknownMessage, kind)
	}
	if d.err == nil && elements < known {
		d.fail(fmt.Errorf("%w: message of %d elements, %d expected", ErrCorrupt, elements, known))
	}
	d.trailing(elements - known)
	if err := d.end(); err != nil {
		return nil, fmt.Errorf("message: %w", err)
	}
	return m, nil
}

func decodeBatch(d *decoder) Batch {
	b := Batch{Origin: d.origin(), Seq: d.uint()}
	n := d.array(0)
	b.Items = make([]Item, 0, n)
	for range n {
		item, ok := decodeItem(d)
		switch {
		case d.err != nil:
			return Batch{}
		case ok:
			b.Items = append(b.Items, item)
		default:
			b.Unknown++
		}
	}
	return b
}

// decodeItem reports false for an item of an unknown kind, which it skips.
func decodeItem(d *decoder) (Item, bool) {
	elements := d.array(1)
	var item Item
	known := 1
	switch itemKind(d.uint()) {
	case kindInvalidate:
		known = 4
		item = Invalidate{Key: d.key(), Version: d.version(), Dead: d.bool()}
	case kindTouched:
		known = 3
		item = Touched{Key: d.key(), LastAccess: d.time()}
	}
	if d.err == nil && elements < known {
		d.fail(fmt.Errorf("%w: item of %d elements, %d expected", ErrCorrupt, elements, known))
	}
	d.trailing(elements - known)
	return item, item != nil
}

func (d *decoder) key() Key {
	s := d.string()
	if d.err != nil {
		return Key{}
	}
	key, err := ParseKey(s)
	d.fail(err)
	return key
}

func decodeMark(d *decoder) Mark { return Mark{Origin: d.origin(), Last: d.uint()} }

func decodeState(d *decoder) State {
	n := d.array(0)
	s := State{Marks: make([]Mark, 0, n)}
	for range n {
		elements := d.array(3)
		s.Marks = append(s.Marks, decodeMark(d))
		d.trailing(elements - 3)
	}
	return s
}

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

// Message is what one node sends another: [Batch], [Mark], [Farewell], [State], [RepairRequest],
// [RepairReply], [Request] or [Reply].
type Message interface{ messageKind() messageKind }

type messageKind uint64

const (
	kindBatch         messageKind = 1
	kindMark          messageKind = 2
	kindFarewell      messageKind = 3
	kindState         messageKind = 4
	kindRepairRequest messageKind = 5
	kindRepairReply   messageKind = 6
	kindRequest       messageKind = 7
	kindReply         messageKind = 8
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
	// Confirm asks for a mark at once: somebody waits until the items have arrived.
	Confirm bool
	// Unknown counts items of kinds that this release does not know; they were skipped.
	Unknown int
}

// Point is a place in the numbering of an origin.
type Point struct {
	Origin Origin
	Last   uint64
}

// Mark tells a peer the last sequence that its origin has given out, so that the loss of a last batch is found
// too, and answers the peer's own marks: what has arrived, and the times from which either side works out how
// old its knowledge of the other is (as in NTP, RFC 5905, section 8).
type Mark struct {
	Origin Origin
	Last   uint64
	To     uint64 // the boot of the peer that it is for
	Sent   uint64 // microseconds of the sender's wall clock, strictly growing for each peer
	// Echo is the Sent of the latest of the peer's marks that had arrived when Last was read, or 0.
	Echo uint64
	// Held is the time from the arrival of that mark to the sending of this one. On the wire in microseconds.
	Held time.Duration
	// Applied is the peer's sequence up to which nothing is missing here, or is covered by a fence.
	Applied uint64
	Reply   ReplyPath
}

// ReplyPath says whether a [Mark] is to be answered by a mark at once, and how; or how a [RepairRequest] is.
type ReplyPath uint8

// The ways to answer.
const (
	NoReply       ReplyPath = 0
	ReplyDatagram ReplyPath = 1
	ReplyStream   ReplyPath = 2 // datagrams seem not to arrive
)

// Farewell is the last message of a node that leaves on purpose. It carries the node's last sequence.
type Farewell Point

// State is exchanged when two nodes synchronise in full. It never carries data, but the marks of the giver: its
// own first, then how far it has heard others without a gap.
type State struct {
	Points []Point
	// Items are news that must reach everybody however long ago it was said, such as stamps.
	Items []Item
}

func (Batch) messageKind() messageKind         { return kindBatch }
func (Mark) messageKind() messageKind          { return kindMark }
func (Farewell) messageKind() messageKind      { return kindFarewell }
func (State) messageKind() messageKind         { return kindState }
func (RepairRequest) messageKind() messageKind { return kindRepairRequest }
func (RepairReply) messageKind() messageKind   { return kindRepairReply }
func (Request) messageKind() messageKind       { return kindRequest }
func (Reply) messageKind() messageKind         { return kindReply }

// Item is one piece of news: [Invalidate], [Touched] or [Stamp]. Items are idempotent and commute, so they are
// applied on arrival whatever the order.
type Item interface{ itemKind() itemKind }

type itemKind uint64

const (
	kindInvalidate itemKind = 1
	kindTouched    itemKind = 2
	kindStamp      itemKind = 3
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

// Stamp says that everything of Tenant under Scope whose fetch began before Epoch is dead.
type Stamp struct {
	Tenant string
	Scope  string
	Epoch  uint64
}

func (Invalidate) itemKind() itemKind { return kindInvalidate }
func (Touched) itemKind() itemKind    { return kindTouched }
func (Stamp) itemKind() itemKind      { return kindStamp }

// Urgent reports whether somebody on a peer may be waiting for an item, so that it is not to wait for others to share a
// datagram with.
func Urgent(item Item) bool {
	switch it := item.(type) {
	case Invalidate:
		return it.Dead
	case Touched:
		return false
	default:
		return true
	}
}

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
	case Stamp:
		e.array(4)
		e.uint(uint64(kindStamp))
		e.string(it.Tenant)
		e.string(it.Scope)
		e.uint(it.Epoch)
	}
	return e.buf.Bytes()
}

// batchOverhead bounds what a batch's frame costs beside its origin's name and its items.
const batchOverhead = 40

// PackBatch makes a batch out of as many leading items as fit into limit bytes, at least one, and returns
// the message and how many items it holds.
func PackBatch(origin Origin, seq uint64, items [][]byte, confirm bool, limit int) (message []byte, packed int) {
	size := batchOverhead + len(origin.Node)
	for packed < len(items) && (packed == 0 || size+len(items[packed]) <= limit) {
		size += len(items[packed])
		packed++
	}
	e := newFrame(kindBatch, batchElements)
	e.origin(origin)
	e.uint(seq)
	e.array(packed)
	for _, item := range items[:packed] {
		e.raw(item)
	}
	e.bool(confirm)
	return e.buf.Bytes(), packed
}

// The elements of each kind of message, its kind included.
const (
	batchElements         = 6
	markElements          = 10
	farewellElements      = 4
	stateElements         = 3
	repairRequestElements = 6
	repairReplyElements   = 5
	requestElements       = 6
	replyElements         = 6
)

// EncodeMessage returns the wire form of any message but a batch; those are made by [PackBatch].
func EncodeMessage(m Message) []byte {
	var e *encoder
	switch m := m.(type) {
	case Mark:
		e = newFrame(kindMark, markElements)
		e.origin(m.Origin)
		e.uint(m.Last)
		e.uint(m.To)
		e.uint(m.Sent)
		e.uint(m.Echo)
		e.uint(uint64(max(m.Held, 0) / time.Microsecond))
		e.uint(m.Applied)
		e.uint(uint64(m.Reply))
	case Farewell:
		e = newFrame(kindFarewell, farewellElements)
		e.point(Point(m))
	case State:
		e = newFrame(kindState, stateElements)
		e.array(len(m.Points))
		for _, point := range m.Points {
			e.array(3)
			e.point(point)
		}
		e.array(len(m.Items))
		for _, item := range m.Items {
			e.raw(EncodeItem(item))
		}
	case RepairRequest:
		e = newFrame(kindRepairRequest, repairRequestElements)
		e.origin(m.From)
		e.uint(m.To)
		e.ranges(m.Missing)
		e.uint(uint64(m.Reply))
	case RepairReply:
		e = newFrame(kindRepairReply, repairReplyElements)
		e.origin(m.Origin)
		e.array(len(m.Batches))
		for _, batch := range m.Batches {
			e.bytes(batch)
		}
		e.ranges(m.Gone)
	case Request:
		e = newFrame(kindRequest, requestElements)
		e.origin(m.From)
		e.uint(m.ID)
		e.string(m.Method)
		e.bytes(m.Body)
	case Reply:
		e = newFrame(kindReply, replyElements)
		e.origin(m.From)
		e.uint(m.ID)
		e.bytes(m.Body)
		e.string(m.Error)
	default:
		panic(fmt.Sprintf("proto: %T has no encoding of its own", m))
	}
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

// point writes three elements.
func (e *encoder) point(p Point) {
	e.origin(p.Origin)
	e.uint(p.Last)
}

func (d *decoder) point() Point { return Point{Origin: d.origin(), Last: d.uint()} }

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
		known = batchElements
		m = decodeBatch(d)
	case kind == kindMark:
		known = markElements
		m = decodeMark(d)
	case kind == kindFarewell:
		known = farewellElements
		m = Farewell(d.point())
	case kind == kindState:
		known = stateElements
		m = decodeState(d)
	case kind == kindRepairRequest:
		known = repairRequestElements
		m = RepairRequest{From: d.origin(), To: d.uint(), Missing: d.ranges(), Reply: d.replyPath()}
	case kind == kindRepairReply:
		known = repairReplyElements
		m = decodeRepairReply(d)
	case kind == kindRequest:
		known = requestElements
		m = Request{From: d.origin(), ID: d.uint(), Method: d.string(), Body: d.bytes()}
	case kind == kindReply:
		known = replyElements
		m = Reply{From: d.origin(), ID: d.uint(), Body: d.bytes(), Error: d.string()}
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
	b.Items, b.Unknown = d.items()
	b.Confirm = d.bool()
	return b
}

// items reads an array of items and counts those of unknown kinds.
func (d *decoder) items() (items []Item, unknown int) {
	n := d.array(0)
	items = make([]Item, 0, n)
	for range n {
		item, ok := decodeItem(d)
		switch {
		case d.err != nil:
			return nil, 0
		case ok:
			items = append(items, item)
		default:
			unknown++
		}
	}
	return items, unknown
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
	case kindStamp:
		known = 4
		item = Stamp{Tenant: d.string(), Scope: d.string(), Epoch: d.uint()}
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

func decodeMark(d *decoder) Mark {
	m := Mark{Origin: d.origin(), Last: d.uint(), To: d.uint(), Sent: d.uint(), Echo: d.uint()}
	m.Held = time.Duration(min(d.uint(), maxMicros)) * time.Microsecond
	m.Applied = d.uint()
	m.Reply = d.replyPath()
	return m
}

func (d *decoder) replyPath() ReplyPath { return ReplyPath(min(d.uint(), uint64(ReplyStream))) }

// maxMicros keeps a decoded time inside what time.Duration can hold.
const maxMicros = 9e15

func decodeState(d *decoder) State {
	n := d.array(0)
	s := State{Points: make([]Point, 0, n)}
	for range n {
		elements := d.array(3)
		s.Points = append(s.Points, d.point())
		d.trailing(elements - 3)
	}
	s.Items, _ = d.items()
	return s
}

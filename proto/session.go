package proto

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	sessionSchema = 1
	sessionFields = 14

	// MaxWrites is how many recent writes a record remembers. A writer whose answer was lost looks for
	// itself among them. One "last writer" was measured not to be enough: with it 44 of 62 ambiguous
	// writes stayed undecided, with a list none of 91.
	MaxWrites = 16
)

// ContentKind says how the bytes of an attribute are to be read. klatch itself never looks inside, except
// to print JSON as JSON.
type ContentKind uint8

// The content kinds.
const (
	Opaque ContentKind = 0
	JSON   ContentKind = 1
)

// Attribute is one named value of a session. Data is shared and must not be changed.
type Attribute struct {
	Kind ContentKind
	Data []byte
}

// Write names one write: versions are unique per writer.
type Write struct {
	Version Version
	Writer  uint64
}

// Lease is a lock on a session. While it lives only its holder may change attributes.
type Lease struct {
	Token  Version // the record's version when the lease was taken: the fencing token
	Holder string  // the node that holds it
	TTL    time.Duration
}

// Session is the record of one session. Decoded records are shared between requests: a request that
// changes one works on a [Session.Clone].
type Session struct {
	Version Version // of the last write of any sort
	Writer  uint64  // the boot of the node that made it
	Changed Version // of the last change to the content; what clients see as the version
	Writes  []Write // the last MaxWrites writes, newest last

	Created    time.Time // millisecond precision, as all times here
	LastAccess time.Time
	Idle       time.Duration // idle limit; 0 means never
	Absolute   time.Duration // absolute limit, counted from Created; 0 means never

	Principal      string // the user it is bound to, or empty
	PrincipalEpoch uint64 // the principal's epoch when it was bound
	Route          string // the node that owns it; a hint for the balancer
	Lease          *Lease // nil when it is free

	Attributes map[string]Attribute

	trailing      []byte // elements of a later release, kept byte for byte
	trailingCount int
}

// Clone returns a copy whose attributes and list of writes may be changed without touching s.
func (s *Session) Clone() *Session {
	c := *s
	c.Attributes = maps.Clone(s.Attributes)
	if c.Attributes == nil {
		c.Attributes = map[string]Attribute{}
	}
	c.Writes = slices.Clone(s.Writes)
	return &c
}

// Stamp records that writer makes the next write of s at version v.
func (s *Session) Stamp(v Version, writer uint64) {
	s.Version, s.Writer = v, writer
	if surplus := len(s.Writes) + 1 - MaxWrites; surplus > 0 {
		s.Writes = append(s.Writes[:0:0], s.Writes[surplus:]...)
	}
	s.Writes = append(s.Writes, Write{Version: v, Writer: writer})
}

// Encode returns the msgpack form. Equal records encode to equal bytes.
func (s *Session) Encode() []byte {
	e := newEncoder()
	e.array(sessionFields + s.trailingCount)
	e.uint(sessionSchema)
	e.version(s.Version)
	e.uint(s.Writer)
	e.version(s.Changed)
	e.array(2 * len(s.Writes))
	for _, w := range s.Writes {
		e.version(w.Version)
		e.uint(w.Writer)
	}
	e.time(s.Created)
	e.time(s.LastAccess)
	e.millis(s.Idle)
	e.millis(s.Absolute)
	e.string(s.Principal)
	e.uint(s.PrincipalEpoch)
	e.string(s.Route)
	if s.Lease == nil {
		e.nil()
	} else {
		e.array(3)
		e.version(s.Lease.Token)
		e.string(s.Lease.Holder)
		e.millis(s.Lease.TTL)
	}
	e.array(3 * len(s.Attributes))
	for _, name := range slices.Sorted(maps.Keys(s.Attributes)) {
		a := s.Attributes[name]
		e.string(name)
		e.uint(uint64(a.Kind))
		e.bytes(a.Data)
	}
	e.raw(s.trailing)
	return e.buf.Bytes()
}

// DecodeSession reads the msgpack form. The record does not share memory with p.
func DecodeSession(p []byte) (*Session, error) {
	d := newDecoder(p)
	fields := d.array(1)
	d.schema(sessionSchema)
	if d.err == nil && fields < sessionFields {
		d.fail(fmt.Errorf("%w: session record of %d fields, %d expected", ErrCorrupt, fields, sessionFields))
	}
	s := &Session{
		Version: d.version(),
		Writer:  d.uint(),
		Changed: d.version(),
		Writes:  decodeWrites(d),

		Created:    d.time(),
		LastAccess: d.time(),
		Idle:       d.duration(),
		Absolute:   d.duration(),

		Principal:      d.string(),
		PrincipalEpoch: d.uint(),
		Route:          d.string(),
		Lease:          decodeLease(d),

		Attributes: decodeAttributes(d),
	}
	if d.err == nil {
		s.trailingCount = fields - sessionFields
		s.trailing = d.trailing(s.trailingCount)
	}
	if err := d.end(); err != nil {
		return nil, fmt.Errorf("session record: %w", err)
	}
	return s, nil
}

func decodeWrites(d *decoder) []Write {
	n := d.array(0)
	if n%2 != 0 || n > 2*MaxWrites {
		d.fail(fmt.Errorf("%w: list of writes of length %d", ErrCorrupt, n))
		return nil
	}
	writes := make([]Write, 0, n/2)
	for range n / 2 {
		writes = append(writes, Write{Version: d.version(), Writer: d.uint()})
	}
	return writes
}

func decodeLease(d *decoder) *Lease {
	if d.isNil() {
		return nil
	}
	if n := d.array(3); d.err == nil && n != 3 {
		d.fail(fmt.Errorf("%w: lease of %d elements", ErrCorrupt, n))
	}
	return &Lease{Token: d.version(), Holder: d.string(), TTL: d.duration()}
}

func decodeAttributes(d *decoder) map[string]Attribute {
	n := d.array(0)
	if n%3 != 0 {
		d.fail(fmt.Errorf("%w: attribute list of length %d", ErrCorrupt, n))
		return nil
	}
	attributes := make(map[string]Attribute, n/3)
	for range n / 3 {
		name := d.string()
		kind := d.uint()
		data := d.bytes()
		if kind > 255 {
			d.fail(fmt.Errorf("%w: content kind %d", ErrCorrupt, kind))
		}
		if d.err != nil {
			return nil
		}
		attributes[name] = Attribute{Kind: ContentKind(kind), Data: data}
	}
	return attributes
}

package proto

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// maxTrailing bounds the unknown trailing elements that a record may carry, so that a damaged one cannot
// make the decoder recurse without end.
const maxTrailing = 64 << 10

// encoder writes msgpack into memory. Writing into a bytes.Buffer cannot fail, so its verbs return nothing.
type encoder struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
}

func newEncoder() *encoder {
	e := &encoder{}
	e.enc = msgpack.NewEncoder(&e.buf)
	return e
}

func (e *encoder) array(n int)            { must(e.enc.EncodeArrayLen(n)) }
func (e *encoder) uint(n uint64)          { must(e.enc.EncodeUint(n)) }
func (e *encoder) version(v Version)      { e.uint(uint64(v)) }
func (e *encoder) string(s string)        { must(e.enc.EncodeString(s)) }
func (e *encoder) bytes(p []byte)         { must(e.enc.EncodeBytes(p)) }
func (e *encoder) bool(b bool)            { must(e.enc.EncodeBool(b)) }
func (e *encoder) nil()                   { must(e.enc.EncodeNil()) }
func (e *encoder) raw(p []byte)           { e.buf.Write(p) }
func (e *encoder) millis(d time.Duration) { e.uint(uint64(max(d, 0) / time.Millisecond)) }
func (e *encoder) time(t time.Time)       { e.uint(uint64(max(t.UnixMilli(), 0))) }

func must(err error) {
	if err != nil {
		panic("proto: writing to memory failed: " + err.Error())
	}
}

// decoder reads msgpack from memory. The first failure sticks: after it every verb returns a zero value,
// so that a decoding function reads straight down and looks at err once.
type decoder struct {
	src *bytes.Reader
	dec *msgpack.Decoder
	err error
}

func newDecoder(p []byte) *decoder {
	d := &decoder{src: bytes.NewReader(p)}
	d.dec = msgpack.NewDecoder(d.src)
	return d
}

func (d *decoder) fail(err error) {
	if d.err != nil || err == nil {
		return
	}
	if !errors.Is(err, ErrSchema) && !errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	d.err = err
}

// read runs one verb of the msgpack decoder unless an earlier one has failed.
func read[T any](d *decoder, verb func() (T, error)) T {
	var zero T
	if d.err != nil {
		return zero
	}
	v, err := verb()
	if err != nil {
		d.fail(err)
		return zero
	}
	return v
}

func (d *decoder) uint() uint64   { return read(d, d.dec.DecodeUint64) }
func (d *decoder) string() string { return string(d.bytes()) }
func (d *decoder) bool() bool     { return read(d, d.dec.DecodeBool) }

// bytes reads a string or bytes. The msgpack decoder would allocate whatever length a few damaged bytes claim, up
// to 4 GiB, so the length is read alone and checked first.
func (d *decoder) bytes() []byte {
	n := read(d, d.dec.DecodeBytesLen)
	if d.err != nil || n < 0 { // below zero: nil
		return nil
	}
	if n > d.src.Len() {
		d.fail(fmt.Errorf("%w: %d bytes are claimed, %d remain", ErrCorrupt, n, d.src.Len()))
		return nil
	}
	p := make([]byte, n)
	_, err := io.ReadFull(d.src, p)
	d.fail(err)
	return p
}

// array reads the length of an array that must hold at least atLeast elements. A claim of more elements
// than bytes remain is refused before anything is allocated for it.
func (d *decoder) array(atLeast int) int {
	n := read(d, d.dec.DecodeArrayLen)
	if d.err == nil && (n < atLeast || n > d.src.Len()) {
		d.fail(fmt.Errorf("%w: array of %d elements, at least %d expected, %d bytes remain", ErrCorrupt, n, atLeast, d.src.Len()))
		return 0
	}
	return n
}

func (d *decoder) version() Version {
	v := Version(d.uint())
	if v > MaxVersion {
		d.fail(fmt.Errorf("%w: version %d out of range", ErrCorrupt, uint64(v)))
		return 0
	}
	return v
}

// maxMillis keeps decoded times and durations inside what time.Time and time.Duration can hold: about 285 years.
const maxMillis = 9e12

func (d *decoder) millis() int64 {
	n := d.uint()
	if n > maxMillis {
		d.fail(fmt.Errorf("%w: %d ms is out of range", ErrCorrupt, n))
		return 0
	}
	return int64(n)
}

func (d *decoder) time() time.Time         { return time.UnixMilli(d.millis()) }
func (d *decoder) duration() time.Duration { return time.Duration(d.millis()) * time.Millisecond }

// schema reads the schema number that begins a record and refuses one above newest.
func (d *decoder) schema(newest uint64) {
	if n := d.uint(); d.err == nil && (n == 0 || n > newest) {
		d.fail(fmt.Errorf("%w: schema %d, this release reads up to %d", ErrSchema, n, newest))
	}
}

// isNil consumes a nil and reports true, or consumes nothing and reports false.
func (d *decoder) isNil() bool {
	if d.err != nil {
		return false
	}
	code, err := d.dec.PeekCode()
	if err != nil {
		d.fail(err)
		return false
	}
	const nilCode = 0xc0
	if code != nilCode {
		return false
	}
	d.fail(d.dec.DecodeNil())
	return true
}

// trailing returns the bytes of the last n elements, unread.
func (d *decoder) trailing(n int) []byte {
	if n > 0 && d.src.Len() > maxTrailing {
		d.fail(fmt.Errorf("%w: more than %d bytes of unknown elements", ErrCorrupt, maxTrailing))
	}
	var kept []byte
	for ; n > 0 && d.err == nil; n-- {
		kept = append(kept, read(d, d.dec.DecodeRaw)...)
	}
	return kept
}

// end fails if input is left over.
func (d *decoder) end() error {
	if d.err == nil && d.src.Len() > 0 {
		d.fail(fmt.Errorf("%w: %d bytes after the end", ErrCorrupt, d.src.Len()))
	}
	return d.err
}

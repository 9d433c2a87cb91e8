package netsim

import (
	"net"
	"os"
	"syscall"
	"time"
)

// kind is what a segment says.
type kind uint8

const (
	opened kind = iota // the dialler has its end: accept yours
	data
	finish // nothing more will come
	reset  // the stream is broken
)

// maxSegment bounds the bytes that are lost or delayed as one.
const maxSegment = 16 << 10

// segment is a piece of a stream.
type segment struct {
	kind  kind
	data  []byte
	begun time.Time // when it was first sent
	due   time.Time // when it arrives, if nothing holds it up
}

// flow is one direction of a stream: segments that arrive in order, each however often it must be sent.
type flow struct {
	segments []segment
	bytes    int       // in segments
	last     time.Time // when the last one is due
	tries    int       // in vain, of the first one
	epoch    int       // raised by clear, which makes appointments for what was cleared void
}

// sendAgain is when a segment that did not get through is sent again; each pause is twice the last. It is the
// least that Linux takes.
const sendAgain = 200 * time.Millisecond

func (f *flow) clear() {
	f.segments, f.bytes, f.tries = nil, 0, 0
	f.epoch++
}

// transmit sends a segment. The network's lock is held here and below.
func (e *end) transmit(s segment, now time.Time) {
	f, n := &e.sending, e.network
	c := n.conditionsOf(e.link)
	s.begun, s.due = now, now.Add(c.delay(&e.link.streams))
	if s.due.Before(f.last) {
		s.due = f.last
	}
	f.last = s.due
	f.segments = append(f.segments, s)
	f.bytes += len(s.data)
	if len(f.segments) == 1 {
		e.expect(s.due)
	}
}

// expect makes the appointment for the first segment.
func (e *end) expect(due time.Time) {
	epoch := e.sending.epoch
	e.network.at(due, e.link.tie, func(now time.Time) {
		if e.sending.epoch == epoch {
			e.attempt(now)
		}
	})
}

// attempt gets the first segment through, or tries again later.
func (e *end) attempt(now time.Time) {
	f, n := &e.sending, e.network
	first := f.segments[0]
	if lost, _ := e.link.drawSegment(n.conditionsOf(e.link)); lost || !n.passable(e.link) {
		pause := sendAgain << f.tries
		f.tries++
		if now.Add(pause).Sub(first.begun) > giveUp {
			e.fail(os.NewSyscallError("write", syscall.ETIMEDOUT))
			f.clear()
			return
		}
		e.expect(now.Add(pause))
		return
	}
	f.tries = 0
	f.bytes -= len(first.data)
	f.segments[0] = segment{}
	if f.segments = f.segments[1:]; len(f.segments) > 0 {
		next := f.segments[0].due
		if next.Before(now) {
			next = now
		}
		e.expect(next)
	}
	e.peer.receive(first, now)
}

// receive takes a segment that has come through.
func (e *end) receive(s segment, now time.Time) {
	if e.failed != nil {
		return
	}
	switch s.kind {
	case opened:
		e.accept()
	case data:
		if e.closed {
			e.sending.clear()
			e.transmit(segment{kind: reset}, now)
			return
		}
		e.arrived = append(e.arrived, s.data...)
		e.node.counts.StreamBytesReceived += uint64(len(s.data))
		e.network.total.StreamBytesReceived += uint64(len(s.data))
		e.notify()
	case finish:
		e.finished = true
		e.notify()
	case reset:
		e.fail(os.NewSyscallError("read", syscall.ECONNRESET))
	}
}

// accept hands this end to the node that was dialled.
func (e *end) accept() {
	if t := e.node.transport; t != nil {
		select {
		case t.streams <- net.Conn(e):
			return
		default:
		}
	}
	e.abort(syscall.ECONNRESET)
}

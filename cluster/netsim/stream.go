package netsim

import (
	"io"
	"net"
	"os"
	"slices"
	"time"
)

// window bounds the bytes of one direction of a stream that have been written and not yet read. A writer waits
// for room.
const window = 256 << 10

// end is one end of a stream. All its state is guarded by the network's lock.
type end struct {
	network       *Network
	node          *node
	peer          *end
	link          *link // to the peer
	local, remote net.Addr

	readBy, writeBy time.Time
	changed         chan struct{} // closed when something changes; nil: nobody waits for it

	arrived  []byte // not yet read
	finished bool   // nothing more will arrive
	closed   bool   // by the owner
	failed   error  // what broke the stream

	sending flow // to the peer
}

var _ net.Conn = (*end)(nil)

// LocalAddr implements net.Conn.
func (e *end) LocalAddr() net.Addr { return e.local }

// RemoteAddr implements net.Conn.
func (e *end) RemoteAddr() net.Addr { return e.remote }

// SetDeadline implements net.Conn.
func (e *end) SetDeadline(t time.Time) error { return e.setDeadlines(&t, &t) }

// SetReadDeadline implements net.Conn.
func (e *end) SetReadDeadline(t time.Time) error { return e.setDeadlines(&t, nil) }

// SetWriteDeadline implements net.Conn.
func (e *end) SetWriteDeadline(t time.Time) error { return e.setDeadlines(nil, &t) }

func (e *end) setDeadlines(read, write *time.Time) error {
	e.network.mu.Lock()
	defer e.network.mu.Unlock()
	if e.closed {
		return e.fault("set", net.ErrClosed)
	}
	if read != nil {
		e.readBy = *read
	}
	if write != nil {
		e.writeBy = *write
	}
	e.notify()
	return nil
}

// Read implements net.Conn.
func (e *end) Read(p []byte) (int, error) {
	e.network.mu.Lock()
	defer e.network.mu.Unlock()
	for {
		switch err := e.state(e.readBy); {
		case err != nil:
			return 0, e.fault("read", err)
		case len(p) == 0:
			return 0, nil
		case len(e.arrived) > 0:
			n := copy(p, e.arrived)
			if e.arrived = e.arrived[n:]; len(e.arrived) == 0 {
				e.arrived = nil
			}
			e.peer.notify() // there is room to write
			return n, nil
		case e.finished:
			return 0, io.EOF
		}
		e.wait(e.readBy)
	}
}

// Write implements net.Conn.
func (e *end) Write(p []byte) (int, error) {
	e.network.mu.Lock()
	defer e.network.mu.Unlock()
	written := 0
	for {
		if err := e.state(e.writeBy); err != nil {
			return written, e.fault("write", err)
		}
		if written == len(p) {
			return written, nil
		}
		room := window - e.sending.bytes - len(e.peer.arrived)
		if n := min(len(p)-written, maxSegment, room); n > 0 {
			e.transmit(segment{kind: data, data: slices.Clone(p[written : written+n])}, time.Now())
			e.node.counts.StreamBytesSent += uint64(n)
			e.network.total.StreamBytesSent += uint64(n)
			written += n
			continue
		}
		e.wait(e.writeBy)
	}
}

// Close implements net.Conn. What was written still arrives, unless something that arrived here was not read:
// then, as with TCP, the stream is reset.
func (e *end) Close() error {
	e.network.mu.Lock()
	defer e.network.mu.Unlock()
	if e.closed {
		return e.fault("close", net.ErrClosed)
	}
	e.closed = true
	delete(e.node.ends, e)
	e.notify()
	switch {
	case e.failed != nil:
	case len(e.arrived) > 0:
		e.arrived = nil
		e.sending.clear()
		e.transmit(segment{kind: reset}, time.Now())
	default:
		e.transmit(segment{kind: finish}, time.Now())
	}
	return nil
}

// state returns why nothing can be read or written now, if so.
func (e *end) state(deadline time.Time) error {
	switch {
	case e.closed:
		return net.ErrClosed
	case !deadline.IsZero() && !time.Now().Before(deadline):
		return os.ErrDeadlineExceeded
	default:
		return e.failed
	}
}

// wait gives the lock away until something has changed or the deadline has passed.
func (e *end) wait(deadline time.Time) {
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	changed := e.changed
	e.network.mu.Unlock()
	defer e.network.mu.Lock()
	if deadline.IsZero() {
		<-changed
		return
	}
	expired := time.NewTimer(time.Until(deadline))
	defer expired.Stop()
	select {
	case <-changed:
	case <-expired.C:
	}
}

// notify wakes whoever waits.
func (e *end) notify() {
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// fail breaks this end of the stream; the other one does not learn of it.
func (e *end) fail(err error) {
	if e.failed != nil {
		return
	}
	e.failed = err
	e.arrived = nil
	e.sending.clear()
	delete(e.node.ends, e)
	e.notify()
}

// abort breaks this end of the stream and tells the other one.
func (e *end) abort(err error) {
	if e.failed == nil {
		e.fail(err)
		e.transmit(segment{kind: reset}, time.Now())
	}
}

// fault dresses an error as package net does.
func (e *end) fault(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: e.local, Addr: e.remote, Err: err}
}

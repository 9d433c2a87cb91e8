package netsim

import (
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

const (
	// dialAgain is when the first attempt to open a stream is repeated; each pause is twice the last. It is
	// what Linux does.
	dialAgain = time.Second
	// giveUp is when the network stops to try to open a stream, or to get a piece of it through.
	giveUp = time.Minute
)

// opening is an attempt to open a stream.
type opening struct {
	network *Network
	there   *link // from the dialler
	back    *link
	done    chan struct{} // closed when it is over
	over    bool
	conn    *end
	err     error
}

func (n *Network) dial(t *Transport, to netip.AddrPort, timeout time.Duration) (*end, error) {
	n.mu.Lock()
	switch {
	case n.closed:
		n.mu.Unlock()
		return nil, ErrClosed
	case t.shut:
		n.mu.Unlock()
		return nil, net.ErrClosed
	}
	t.node.counts.StreamsDialled++
	n.total.StreamsDialled++
	peer := n.node(to)
	o := &opening{network: n, there: n.link(t.node, peer), back: n.link(peer, t.node), done: make(chan struct{})}
	if !t.crashed {
		o.try(time.Now(), dialAgain)
	}
	n.mu.Unlock()

	if timeout == 0 {
		timeout = giveUp
	}
	expired := time.NewTimer(timeout)
	defer expired.Stop()
	select {
	case <-o.done:
	case <-expired.C:
		n.mu.Lock()
		o.finish(nil, os.ErrDeadlineExceeded)
		n.mu.Unlock()
	case <-n.stop:
		n.mu.Lock()
		o.finish(nil, ErrClosed)
		n.mu.Unlock()
	}
	// What was decided first holds, also if it was decided after the time had run out.
	return o.conn, o.err
}

// finish decides the attempt, unless it is decided. The network's lock is held here and below.
func (o *opening) finish(conn *end, err error) {
	if o.over {
		return
	}
	o.over, o.conn, o.err = true, conn, err
	close(o.done)
}

// try asks once, and again after a pause that doubles.
func (o *opening) try(now time.Time, pause time.Duration) {
	o.pass(o.there, now, o.asked)
	if pause < giveUp {
		o.network.at(now.Add(pause), o.there.tie, func(now time.Time) {
			if !o.over {
				o.try(now, 2*pause)
			}
		})
	}
}

// pass sends something without data over the link, once.
func (o *opening) pass(l *link, now time.Time, arrived func(now time.Time)) {
	n := o.network
	lost, delay := l.drawSegment(n.conditionsOf(l))
	if lost || !n.passable(l) {
		return
	}
	n.at(now.Add(delay), l.tie, func(now time.Time) {
		if !o.over && n.passable(l) {
			arrived(now)
		}
	})
}

// asked happens at the node that is dialled.
func (o *opening) asked(now time.Time) {
	if o.there.to.transport == nil {
		o.pass(o.back, now, func(time.Time) {
			o.finish(nil, os.NewSyscallError("connect", syscall.ECONNREFUSED))
		})
		return
	}
	o.pass(o.back, now, o.answered)
}

// answered happens at the dialler. The other side accepts the stream when it hears that the answer arrived,
// which is the first thing that goes through the stream.
func (o *opening) answered(now time.Time) {
	from, to := o.there.from, o.there.to
	from.lastPort++
	local := &net.TCPAddr{IP: from.addr.Addr().AsSlice(), Port: 49152 + int(from.lastPort)%16384}
	here := &end{network: o.network, node: from, link: o.there, local: local, remote: to.tcp}
	there := &end{network: o.network, node: to, link: o.back, local: to.tcp, remote: local}
	here.peer, there.peer = there, here
	from.ends[here] = struct{}{}
	to.ends[there] = struct{}{}
	here.transmit(segment{kind: opened}, now)
	o.finish(here, nil)
}

package cluster

import (
	"slices"
	"time"

	"klatch/internal/clock"
	"klatch/proto"
)

// MaxLag is how old the knowledge of any live peer may be before every read is checked.
const MaxLag = 3 * time.Second

const (
	// askAfter is the age at which a peer is asked for a mark, every askEvery, instead of waited for; and
	// streamAfter that at which it is asked by TCP, since datagrams seem not to arrive.
	askAfter    = 2 * time.Second
	askEvery    = 100 * time.Millisecond
	streamAfter = 2500 * time.Millisecond
	// introduceBy is how long a new peer may take to answer datagrams before it is asked by TCP.
	introduceBy = 400 * time.Millisecond

	// sentMarks is how many of the marks sent to a peer are remembered until they are echoed.
	sentMarks = 32
	// maxClaims bounds the marks whose numbers have not all arrived.
	maxClaims = 16
)

// link is what this node and one peer know of each other.
//
// How old the knowledge of a peer is follows from marks alone, and no clocks are compared: a mark that echoes one
// of this node's own, sent at time t, was made after t. So once all numbers that it names have arrived, everything
// is known that the peer had published before t. That t is the link's basis.
type link struct {
	since time.Time // when the peer became a member, as seen here
	basis time.Time // see above; zero: nothing is known yet
	asked time.Time // when it was last asked for a mark

	sent    [sentMarks]sentMark // the marks sent last
	nSent   int                 // how many were sent in all
	heard   uint64              // the highest Sent of the peer's marks
	heardAt time.Time
	claims  []claim

	acked  uint64        // the own number up to which the peer has everything
	rtt    time.Duration // of the last mark that was answered; zero: of none
	offset time.Duration // of the peer's clock against the own
}

type sentMark struct {
	sent uint64 // as in the mark
	at   time.Time
}

// claim is a mark that waits for the numbers it names.
type claim struct {
	last  uint64
	basis time.Time
}

// send returns the time that a mark which leaves now bears. It grows even if the clock does not.
func (l *link) send(now time.Time) uint64 {
	last := l.sent[(l.nSent+sentMarks-1)%sentMarks].sent
	m := sentMark{max(uint64(now.UnixMicro()), last+1), now}
	l.sent[l.nSent%sentMarks] = m
	l.nSent++
	return m.sent
}

// sentAt returns when the mark was sent that the peer echoes.
func (l *link) sentAt(echo uint64) (time.Time, bool) {
	i := slices.IndexFunc(l.sent[:], func(m sentMark) bool { return m.sent == echo && echo != 0 })
	if i < 0 {
		return time.Time{}, false
	}
	return l.sent[i].at, true
}

// answer takes in a mark of the peer and reports whether it measured the way there and back.
func (l *link) answer(m proto.Mark, at time.Time) (measured bool) {
	if m.Sent > l.heard {
		l.heard, l.heardAt = m.Sent, at
	}
	l.acked = max(l.acked, m.Applied)
	sent, ok := l.sentAt(m.Echo)
	if !ok {
		return false
	}
	if len(l.claims) < maxClaims {
		l.claims = append(l.claims, claim{m.Last, sent})
	}
	rtt := at.Sub(sent) - m.Held
	if rtt < 0 || m.Held > MaxLag {
		return false
	}
	l.rtt = rtt
	// RFC 5905, section 8: theta = ((T2 - T1) + (T3 - T4)) / 2, by wall clocks.
	t2, t3 := int64(m.Sent)-m.Held.Microseconds(), int64(m.Sent)
	l.offset = time.Duration((t2-sent.UnixMicro())+(t3-at.UnixMicro())) * time.Microsecond / 2
	return true
}

// progress moves the basis up to the latest mark whose numbers have all arrived.
func (l *link) progress(contiguous uint64) {
	l.claims = slices.DeleteFunc(l.claims, func(c claim) bool {
		if c.last > contiguous {
			return false
		}
		if c.basis.After(l.basis) {
			l.basis = c.basis
		}
		return true
	})
}

// wants returns how the peer is to be asked for a mark now, if at all.
func (l *link) wants(now time.Time) proto.ReplyPath {
	old, stream := clock.Elapsed(l.basis, now) > askAfter, clock.Elapsed(l.basis, now) > streamAfter
	if l.basis.IsZero() {
		old, stream = true, clock.Elapsed(l.since, now) > introduceBy
	}
	switch {
	case !old || now.Sub(l.asked) < askEvery && now.Sub(l.asked) >= 0:
		return proto.NoReply
	case stream:
		return proto.ReplyStream
	default:
		return proto.ReplyDatagram
	}
}

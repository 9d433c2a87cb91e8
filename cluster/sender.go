package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"klatch/proto"
)

// maxQueued bounds the items that wait for the sender: a few megabytes.
const maxQueued = 16 << 10

// markAfter is when marks follow the last batch, so that the loss of a last batch is found soon; after that they
// go out every markEvery, which with the way there and back is the staleness bound of a healthy cluster.
var markAfter = [...]time.Duration{25 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond}

const markEvery = time.Second

// linger is the least time between two batches that nobody waits for: under load, what is published meanwhile leaves
// together. To send a datagram to a peer and to take it there costs some 50 µs of processor time, however many items it
// holds. What comes after a pause leaves at once.
const linger = 10 * time.Millisecond

// sender numbers the node's news and sends it to every live peer, and so it does with marks. One goroutine sends,
// so that what arrives while a send is under way, or soon after one, leaves together.
type sender struct {
	origin   proto.Origin
	now      func() time.Time
	roster   *roster
	links    *links
	origins  *origins
	ring     *ring
	courier  *courier
	transmit func(to *memberlist.Node, message []byte) error

	wake chan struct{} // holds one token when there is something to do

	mu        sync.Mutex                       // guards all below
	queue     [][]byte                         // encoded items
	spare     [][]byte                         // the previous queue, to be used again
	overflown bool                             // items were dropped since the last round
	urgent    bool                             // somebody waits for what is queued, here or on a peer
	waiters   []*waiter                        // of those who wait until what is queued has been confirmed
	marks     map[proto.Origin]proto.ReplyPath // peers to be marked at once, by datagram or stream
	leaving   []chan<- struct{}                // closed when the farewell has been sent

	// Only the goroutine of run uses these.
	lastBatch time.Time
	lastMarks time.Time // of all peers
	step      int       // how many times all peers have been marked since the last batch

	stats senderStats
}

// publish queues items. It never blocks. w, if not nil, waits until they are confirmed.
func (s *sender) publish(items []proto.Item, w *waiter) {
	if len(items) == 0 && w == nil {
		return
	}
	if len(s.roster.live()) == 0 {
		// A peer that is just being joined may already have been told the last number. One that came
		// between the two looks has perhaps been told it too early, so it gets the items as well.
		s.ring.skip()
		if len(s.roster.live()) == 0 && w == nil {
			return
		}
	}
	encoded := make([][]byte, len(items))
	for i, item := range items {
		encoded[i] = proto.EncodeItem(item)
	}
	s.mu.Lock()
	room := min(maxQueued-len(s.queue), len(encoded))
	s.queue = append(s.queue, encoded[:room]...)
	s.overflown = s.overflown || room < len(encoded)
	s.urgent = s.urgent || w != nil || slices.ContainsFunc(items, proto.Urgent)
	if w != nil {
		s.waiters = append(s.waiters, w)
	}
	s.mu.Unlock()
	s.stats.dropped.Add(uint64(len(encoded) - room))
	s.signal()
}

// mark sends a peer a mark at once: a new one, once it is certain that it gets everything above, or one that has
// asked. It never blocks.
func (s *sender) mark(peer proto.Origin, path proto.ReplyPath) {
	s.mu.Lock()
	s.marks[peer] = max(s.marks[peer], path)
	s.mu.Unlock()
	s.signal()
}

// farewell returns when everything queued so far, and then the farewell, have been sent.
func (s *sender) farewell(ctx context.Context) error {
	sent := make(chan struct{})
	s.mu.Lock()
	s.leaving = append(s.leaving, sent)
	s.mu.Unlock()
	s.signal()
	select {
	case <-sent:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *sender) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *sender) run(stop <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-s.wake:
			if wait := s.lingers(); wait > 0 {
				timer.Reset(min(wait, s.pause()))
				continue
			}
		case <-timer.C:
		}
		s.round()
		timer.Reset(s.pause())
	}
}

// lingers returns for how long what is queued may wait for more.
func (s *sender) lingers() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.urgent || len(s.marks) > 0 || len(s.leaving) > 0 {
		return 0
	}
	return s.lastBatch.Add(linger).Sub(s.now())
}

// pause returns how long nothing is to be done unless somebody wakes the sender.
func (s *sender) pause() time.Duration {
	return max(min(s.nextMarks().Sub(s.now()), askEvery), 0)
}

// nextMarks returns when all peers are to be marked.
func (s *sender) nextMarks() time.Time {
	next := s.lastMarks.Add(markEvery)
	if s.step < len(markAfter) {
		if early := s.lastBatch.Add(markAfter[s.step]); early.Before(next) {
			return early
		}
	}
	return next
}

// round sends what is queued at its beginning, and the marks that are due.
func (s *sender) round() {
	now := s.now()
	s.links.account(now)
	s.mu.Lock()
	var asked map[proto.Origin]proto.ReplyPath // mark goes on writing to its own
	if len(s.marks) > 0 {
		asked, s.marks = s.marks, map[proto.Origin]proto.ReplyPath{}
	}
	s.mu.Unlock()
	// What marks claim to have heard is noted before the queue is taken: what was published until then is numbered
	// before they leave.
	marks := s.draft(asked, now)

	s.mu.Lock()
	items, overflown, waiters, leaving := s.queue, s.overflown, s.waiters, s.leaving
	s.queue, s.spare, s.overflown, s.urgent, s.waiters, s.leaving = s.spare[:0], nil, false, false, nil, nil
	s.mu.Unlock()

	if overflown {
		s.ring.skip() // what was dropped was dropped before this round
	}
	s.sendBatches(items, len(waiters) > 0)
	for _, w := range waiters {
		s.links.await(w, s.ring.number(), now)
	}
	for _, m := range marks {
		s.sendMark(m)
	}
	if len(leaving) > 0 {
		s.sendAll(proto.EncodeMessage(proto.Farewell{Origin: s.origin, Last: s.ring.number()}))
	}
	for _, sent := range leaving {
		close(sent)
	}

	clear(items)
	s.mu.Lock()
	s.spare = items
	s.mu.Unlock()
}

// draft begins the marks that are due: those asked for, those to peers from whom nothing was heard for long, and
// from time to time one to everybody.
func (s *sender) draft(asked map[proto.Origin]proto.ReplyPath, now time.Time) []outgoing {
	everybody := !now.Before(s.nextMarks())
	waiting := everybody && s.links.awaited()
	if everybody {
		s.lastMarks = now
		s.step++
	}
	var marks []outgoing
	for _, peer := range s.roster.live() {
		path := s.links.wants(peer.origin, now)
		if waiting {
			path = max(path, proto.ReplyDatagram)
		}
		answer, ok := asked[peer.origin]
		if !ok && !everybody && path == proto.NoReply {
			continue
		}
		m := s.links.draft(peer, path)
		m.stream = m.stream || answer == proto.ReplyStream
		marks = append(marks, m)
	}
	return marks
}

func (s *sender) sendMark(m outgoing) {
	m.mark.Origin, m.mark.Last = s.origin, s.ring.number()
	m.mark.Applied = s.origins.contiguous(m.to.origin)
	if !s.links.stamp(&m, s.now()) {
		return
	}
	s.stats.marks.Add(1)
	message := proto.EncodeMessage(m.mark)
	if m.stream {
		s.courier.send(m.to, message, nil)
		return
	}
	s.send(m.to, message)
}

func (s *sender) sendBatches(items [][]byte, confirm bool) {
	for len(items) > 0 {
		message, packed := s.ring.pack(items, confirm)
		items = items[packed:]
		s.sendAll(message)
		s.stats.batches.Add(1)
		s.stats.items.Add(uint64(packed))
		s.lastBatch, s.step = s.now(), 0
	}
}

func (s *sender) sendAll(message []byte) {
	for _, peer := range s.roster.live() {
		s.send(peer, message)
	}
}

func (s *sender) send(to *peer, message []byte) {
	if err := s.transmit(to.node, message); err != nil {
		s.stats.errors.Add(1)
	}
}

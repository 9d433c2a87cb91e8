package cluster

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/memberlist"

	"klatch/proto"
)

// maxQueued bounds the items that wait for the sender: a few megabytes.
const maxQueued = 16 << 10

// sender numbers the node's news and sends it to every live peer. One goroutine sends, so that what arrives
// while a send is under way leaves together.
type sender struct {
	origin   proto.Origin
	peers    *roster
	transmit func(to *memberlist.Node, message []byte) error

	// last is the last number given out. Everything that is to be told uses up a number, whether it is
	// sent or not: this is how a peer to whom it was not sent knows.
	last atomic.Uint64
	wake chan struct{} // holds one token when there is something to do

	mu        sync.Mutex // guards all below
	queue     [][]byte   // encoded items
	spare     [][]byte   // the previous queue, to be used again
	overflown bool       // items were dropped since the last round
	newcomers map[string]*memberlist.Node
	leaving   []chan<- struct{} // closed when the farewell has been sent

	stats senderStats
}

func newSender(origin proto.Origin, peers *roster) *sender {
	return &sender{
		origin:    origin,
		peers:     peers,
		wake:      make(chan struct{}, 1),
		newcomers: map[string]*memberlist.Node{},
	}
}

// publish queues items. It never blocks.
func (s *sender) publish(items []proto.Item) {
	if len(items) == 0 {
		return
	}
	if len(s.peers.live()) == 0 {
		// A peer that is just being joined may already have been told the last number. One that came
		// between the two looks has perhaps been told it too early, so it gets the items as well.
		s.last.Add(1)
		if len(s.peers.live()) == 0 {
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
	s.mu.Unlock()
	s.stats.dropped.Add(uint64(len(encoded) - room))
	s.signal()
}

// greet tells a new peer the last number, once it is certain that it gets everything above. It never blocks.
func (s *sender) greet(peer *memberlist.Node) {
	s.mu.Lock()
	s.newcomers[peer.Name] = peer
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
	for {
		select {
		case <-stop:
			return
		case <-s.wake:
			s.round()
		}
	}
}

// round sends what is queued at its beginning.
func (s *sender) round() {
	s.mu.Lock()
	items, overflown, newcomers, leaving := s.queue, s.overflown, s.newcomers, s.leaving
	s.queue, s.spare, s.overflown, s.leaving = s.spare[:0], nil, false, nil
	if len(newcomers) > 0 {
		s.newcomers = map[string]*memberlist.Node{}
	}
	s.mu.Unlock()

	if overflown {
		// What was dropped was dropped before this round, so one number that nobody gets stands for it.
		s.last.Add(1)
	}
	s.sendBatches(items)
	for _, peer := range newcomers {
		s.send(peer, proto.EncodeMessage(proto.Mark{Origin: s.origin, Last: s.last.Load()}))
	}
	if len(leaving) > 0 {
		s.sendAll(proto.EncodeMessage(proto.Farewell{Origin: s.origin, Last: s.last.Load()}))
	}
	for _, sent := range leaving {
		close(sent)
	}

	clear(items)
	s.mu.Lock()
	s.spare = items
	s.mu.Unlock()
}

func (s *sender) sendBatches(items [][]byte) {
	for len(items) > 0 {
		seq := s.last.Add(1)
		message, packed := proto.PackBatch(s.origin, seq, items, proto.MaxMessageBytes)
		items = items[packed:]
		s.sendAll(message)
		s.stats.batches.Add(1)
		s.stats.items.Add(uint64(packed))
	}
}

func (s *sender) sendAll(message []byte) {
	for _, peer := range s.peers.live() {
		s.send(peer, message)
	}
}

func (s *sender) send(peer *memberlist.Node, message []byte) {
	if err := s.transmit(peer, message); err != nil {
		s.stats.errors.Add(1)
	}
}

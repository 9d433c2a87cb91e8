package cluster

import (
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"klatch/proto"
)

// A round to which nobody had asked for a mark must not look at what is asked for meanwhile. Only the race detector
// sees the difference.
func TestMarksMayBeAskedForDuringARound(t *testing.T) {
	self := proto.Origin{Node: "a", Boot: 1}
	other := proto.Origin{Node: "b", Boot: 2}
	roster := newRoster(self, time.Now)
	roster.put(&peer{origin: other, node: &memberlist.Node{}})
	links := newLinks(false, time.Now())
	links.join(other, time.Now())
	s := &sender{
		origin: self, now: time.Now, roster: roster, links: links, origins: newOrigins(self), ring: newRing(self),
		transmit: func(*memberlist.Node, []byte) error { return nil },
		wake:     make(chan struct{}, 1),
		marks:    map[proto.Origin]proto.ReplyPath{},
	}
	var asking sync.WaitGroup
	asking.Go(func() {
		for range 2000 {
			s.mark(other, proto.ReplyDatagram)
		}
	})
	for range 2000 {
		s.round()
	}
	asking.Wait()
}

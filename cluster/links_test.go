package cluster

import (
	"slices"
	"testing"
	"time"

	"klatch/proto"
)

// pair is the links of two nodes that send each other marks by hand. Each has a clock of its own.
type pair struct {
	self, peer     *links
	selfOf, peerOf *peer
	ahead          time.Duration // of the peer's clock
	now            time.Time
}

func newPair() *pair {
	p := &pair{now: start, selfOf: &peer{origin: self}, peerOf: &peer{origin: alice}}
	p.self, p.peer = newLinks(false, p.now), newLinks(false, p.now)
	p.self.join(alice, p.now)
	p.peer.join(self, p.now)
	return p
}

func (p *pair) peerNow() time.Time { return p.now.Add(p.ahead) }

// send makes a mark of the own node, or of the peer, that names the last number of its sender.
func (p *pair) send(own bool, last uint64) proto.Mark {
	from, to, now, origin := p.self, p.peerOf, p.now, self
	if !own {
		from, to, now, origin = p.peer, p.selfOf, p.peerNow(), alice
	}
	out := from.draft(to, proto.NoReply)
	from.stamp(&out, now)
	out.mark.Origin, out.mark.Last = origin, last
	return out.mark
}

// receive gives a mark to the other side, which has everything of its sender up to a number.
func (p *pair) receive(m proto.Mark, contiguous uint64) {
	to, now := p.self, p.now
	if m.Origin == self {
		to, now = p.peer, p.peerNow()
	}
	to.answer(m, now)
	to.progress(func(proto.Origin) uint64 { return contiguous })
}

func TestTrustLastsThreeSecondsFromTheOwnMarkThatWasEchoed(t *testing.T) {
	p := newPair()
	if p.self.trusted(p.now) {
		t.Fatal("a peer that has not answered is trusted")
	}
	own := p.send(true, 0)
	p.now = p.now.Add(40 * time.Millisecond)
	p.receive(own, 0)
	p.now = p.now.Add(700 * time.Millisecond)
	answer := p.send(false, 0)
	p.now = p.now.Add(40 * time.Millisecond)
	p.receive(answer, 0)

	if !p.self.trusted(start.Add(MaxLag - 1)) {
		t.Error("not trusted although the peer has answered")
	}
	if p.self.trusted(start.Add(MaxLag)) {
		t.Error("trusted three seconds after the own mark was sent: the time of its echo does not count")
	}
}

func TestMarkWithoutEchoGivesNoTrust(t *testing.T) {
	p := newPair()
	p.receive(p.send(false, 0), 0)
	if p.self.trusted(p.now) {
		t.Error("a mark that may have been under way for ever is trusted")
	}
}

func TestMarkWhoseNumbersHaveNotArrivedGivesNoTrust(t *testing.T) {
	p := newPair()
	p.receive(p.send(true, 0), 0)
	p.receive(p.send(false, 7), 6)
	if p.self.trusted(p.now) {
		t.Error("trusted although number 7 is missing")
	}
	p.self.progress(func(proto.Origin) uint64 { return 7 })
	if !p.self.trusted(p.now) {
		t.Error("not trusted although number 7 has arrived")
	}
}

func TestTrustIsTakenByWhicheverClockHasGoneFurther(t *testing.T) {
	p := newPair()
	p.now = time.Now()
	p.receive(p.send(true, 0), 0)
	p.receive(p.send(false, 0), 0)
	slept := p.now.Add(time.Hour).Round(0) // the wall clock alone went on
	if p.self.trusted(slept) {
		t.Error("a machine that slept is trusted")
	}
	if !p.self.trusted(p.now.Add(time.Second)) {
		t.Error("not trusted a second later")
	}
}

func TestMarksMeasureTheWayAndTheClocks(t *testing.T) {
	p := newPair()
	p.self.join(bob, p.now)
	p.ahead = 5 * time.Second
	own := p.send(true, 0)
	p.now = p.now.Add(30 * time.Millisecond)
	p.receive(own, 0)
	p.now = p.now.Add(time.Second)
	answer := p.send(false, 0)
	p.now = p.now.Add(30 * time.Millisecond)
	p.receive(answer, 0)

	link := p.self.known[alice]
	if link.rtt != 60*time.Millisecond || link.offset != p.ahead {
		t.Errorf("the way there and back is %v and the peer %v ahead, want 60ms and %v", link.rtt, link.offset, p.ahead)
	}
	if _, delays := p.self.measured(); delays.Count != 1 || delays.Sum != 30*time.Millisecond {
		t.Errorf("measured %+v", delays)
	}
	if _, known := p.self.clock(); known {
		t.Error("of two clocks it is said which one is wrong")
	}
}

func TestClockIsComparedWithTheMedian(t *testing.T) {
	tests := []struct {
		name    string
		offsets []time.Duration // of the peers' clocks
		ahead   time.Duration
	}{
		{"one peer is wrong", []time.Duration{0, -5 * time.Second}, 0},
		{"the other way", []time.Duration{0, 5 * time.Second}, 0},
		{"the own is wrong", []time.Duration{5 * time.Second, 5 * time.Second}, -5 * time.Second},
		{"three peers, one wrong", []time.Duration{0, 0, 5 * time.Second}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLinks(false, start)
			for i, offset := range tt.offsets {
				l.known[proto.Origin{Node: "n", Boot: uint64(i + 1)}] = &link{rtt: time.Millisecond, offset: offset}
			}
			if ahead, known := l.clock(); !known || ahead != tt.ahead {
				t.Errorf("ahead by %v (%v), want %v", ahead, known, tt.ahead)
			}
		})
	}
}

func TestPeerThatIsNotHeardIsAsked(t *testing.T) {
	p := newPair()
	steps := []struct {
		after time.Duration
		want  proto.ReplyPath
	}{
		{0, proto.NoReply},
		{askAfter, proto.NoReply},
		{askAfter + 1, proto.ReplyDatagram},
		{streamAfter + 1, proto.ReplyStream},
	}
	p.receive(p.send(true, 0), 0)
	p.receive(p.send(false, 0), 0)
	for _, step := range steps {
		if got := p.self.wants(alice, start.Add(step.after)); got != step.want {
			t.Errorf("after %v it is asked by %d, want %d", step.after, got, step.want)
		}
	}
	p.now = start.Add(streamAfter + 1)
	out := p.self.draft(p.peerOf, proto.ReplyStream)
	p.self.stamp(&out, p.now)
	if got := p.self.wants(alice, p.now.Add(askEvery-1)); got != proto.NoReply {
		t.Errorf("it is asked again at once, by %d", got)
	}
}

func TestUnheardNodesTakeTrustAway(t *testing.T) {
	look := func(after time.Duration, alive ...proto.Origin) records { return records{start.Add(after), alive} }
	onlySelf := func(o proto.Origin) bool { return o == self }
	tests := []struct {
		name    string
		happens func(l *links)
		trusted bool
		lapses  bool // at a look after ten seconds that finds nobody
	}{
		{"before the first look", func(l *links) {}, false, false},
		{"nobody else", func(l *links) { l.present(look(1, self), onlySelf) }, true, false},
		{"a node that was never met", func(l *links) { l.present(look(1, self, bob), onlySelf) }, false, true},
		{"one whose record is known to be out of date", func(l *links) {
			l.present(look(1, self, bob), func(proto.Origin) bool { return true })
		}, true, false},
		{"a member that vanished", func(l *links) {
			l.join(bob, start)
			l.depart(bob, true, start.Add(1))
			l.present(look(2, self, bob), onlySelf)
		}, false, true},
		{"and has been looked for too early", func(l *links) {
			l.join(bob, start)
			l.depart(bob, true, start.Add(2))
			l.present(look(1, self), onlySelf)
		}, false, true},
		{"a member that left", func(l *links) {
			l.present(look(1, self), onlySelf)
			l.join(bob, start)
			l.depart(bob, false, start.Add(1))
		}, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLinks(true, start)
			tt.happens(l)
			if got := l.trusted(start.Add(time.Second)); got != tt.trusted {
				t.Errorf("trusted: %v, want %v", got, tt.trusted)
			}
			later := look(10*time.Second, self)
			if got := l.lapsed(later); got != tt.lapses {
				t.Errorf("lapsed: %v, want %v", got, tt.lapses)
			}
			if l.present(later, onlySelf); !l.trusted(start.Add(10 * time.Second)) {
				t.Error("not trusted although nobody else is there any more")
			}
		})
	}
}

func TestConfirmationsAreCollected(t *testing.T) {
	p := newPair()
	p.self.join(bob, p.now)
	w := newWaiter()
	p.self.await(w, 5, p.now)
	for _, m := range []proto.Mark{{Origin: alice, Applied: 4}, {Origin: alice, Applied: 5}} {
		p.self.answer(m, p.now)
	}
	select {
	case <-w.done:
		t.Fatal("done without bob")
	default:
	}
	if got := p.self.give(w); !slices.Equal(got, []string{"bob"}) {
		t.Errorf("unconfirmed are %v, want bob", got)
	}

	w = newWaiter()
	p.self.await(w, 5, p.now)
	p.self.depart(bob, false, p.now)
	<-w.done
	if got := p.self.give(w); len(got) != 0 {
		t.Errorf("unconfirmed are %v, want none once bob has left", got)
	}
}

func TestSilentPeerIsNotWaitedForButNamed(t *testing.T) {
	p := newPair()
	p.receive(p.send(true, 0), 0)
	p.receive(p.send(false, 0), 0)
	w := newWaiter()
	p.self.await(w, 1, p.now.Add(MaxLag))
	<-w.done
	if got := p.self.give(w); !slices.Equal(got, []string{"alice"}) {
		t.Errorf("unconfirmed are %v, want alice", got)
	}
}

func TestTimeWithoutTrustIsCounted(t *testing.T) {
	l := newLinks(true, start)
	l.account(start.Add(2 * time.Second))
	l.present(records{start, nil}, nil)
	l.account(start.Add(5 * time.Second))
	if bypassed, _ := l.measured(); bypassed != 2*time.Second {
		t.Errorf("%v, want 2s", bypassed)
	}
}

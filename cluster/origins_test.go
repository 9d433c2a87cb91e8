package cluster

import (
	"fmt"
	"testing"
	"time"

	"klatch/proto"
)

var (
	self  = proto.Origin{Node: "self", Boot: 1}
	alice = proto.Origin{Node: "alice", Boot: 1}
	bob   = proto.Origin{Node: "bob", Boot: 1}
	start = time.Unix(1000, 0)
)

func TestFirstContactOncePerOrigin(t *testing.T) {
	o := newOrigins(self)
	if first := o.batch(alice, 17, start); !first {
		t.Error("an unknown origin was no first contact")
	}
	if first := o.batch(alice, 18, start); first {
		t.Error("a known origin was a first contact again")
	}
	if first := o.mark(proto.Origin{Node: "alice", Boot: 2}, 0, start); !first {
		t.Error("a new boot was no first contact")
	}
	if first := o.batch(alice, 19, start); first {
		t.Error("a late datagram of the old boot was a first contact again")
	}
	if _, missing := o.next(); missing {
		t.Error("something is missing of origins that were heard without a gap")
	}
}

func TestGapIsAskedForAfterTheGraceAndGivenUpAfterTheTimeForRepair(t *testing.T) {
	tests := []struct {
		name   string
		arrive func(o *origins)
		want   bool
	}{
		{"nothing missing", func(o *origins) { o.batch(alice, 11, start) }, false},
		{"batch skipped", func(o *origins) { o.batch(alice, 12, start) }, true},
		{"batch late", func(o *origins) { o.batch(alice, 12, start); o.batch(alice, 11, start) }, false},
		{"last batch lost, own mark", func(o *origins) { o.mark(alice, 11, start) }, true},
		{"last batch lost, mark of another", func(o *origins) {
			o.mark(bob, 5, start)
			o.state([]proto.Point{{Origin: bob, Last: 5}, {Origin: alice, Last: 11}}, start)
		}, true},
		{"mark of another that is behind", func(o *origins) {
			o.mark(bob, 5, start)
			o.state([]proto.Point{{Origin: bob, Last: 5}, {Origin: alice, Last: 3}}, start)
		}, false},
		{"last batch lost, farewell", func(o *origins) { o.farewell(alice, 11, start) }, true},
		{"settled by a fence", func(o *origins) { o.batch(alice, 12, start); o.settle() }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOrigins(self)
			o.mark(alice, 10, start)
			tt.arrive(o)

			if ask, giveUp := o.due(start.Add(grace - 1)); len(ask) > 0 || giveUp {
				t.Error("due within the grace")
			}
			if ask, giveUp := o.due(start.Add(grace)); giveUp || len(ask) > 0 != tt.want {
				t.Errorf("after the grace %v is asked for and given up is %v; something asked for: want %v", ask, giveUp, tt.want)
			}
			if _, giveUp := o.due(start.Add(repairWithin)); giveUp != tt.want {
				t.Errorf("after the time for repair given up is %v, want %v", giveUp, tt.want)
			}
		})
	}
}

func TestWhatNobodyCanRepairIsGivenUpAfterTheGrace(t *testing.T) {
	tests := []struct {
		name   string
		arrive func(o *origins)
		after  time.Duration
	}{
		{"its origin has departed", func(o *origins) { o.farewell(alice, 11, start); o.depart(alice) }, grace},
		{"too many numbers", func(o *origins) { o.mark(alice, 11+maxMissing, start) }, 0},
		{"too many gaps", func(o *origins) {
			for i := range uint64(maxGaps + 1) {
				o.batch(alice, 12+2*i, start)
			}
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOrigins(self)
			o.mark(alice, 10, start)
			tt.arrive(o)
			if _, giveUp := o.due(start.Add(tt.after)); !giveUp {
				t.Errorf("not given up after %v", tt.after)
			}
		})
	}
}

func TestRepairIsAskedForWithGrowingPauses(t *testing.T) {
	o := newOrigins(self)
	o.mark(alice, 10, start)
	o.mark(alice, 12, start)
	var asked []time.Duration
	for after := time.Duration(0); after < repairWithin; after += time.Millisecond {
		if ask, _ := o.due(start.Add(after)); len(ask) > 0 {
			asked = append(asked, after)
		}
	}
	if len(asked) != 7 || asked[0] != grace {
		t.Fatalf("asked after %v, want seven times, first after %v", asked, grace)
	}
	for i := 2; i < len(asked); i++ {
		if before, pause := asked[i-1]-asked[i-2], asked[i]-asked[i-1]; pause <= before {
			t.Errorf("asked after %v: a pause of %v follows one of %v", asked, pause, before)
		}
	}
}

func TestStateIntroducesOthersOnlyAtFirstContact(t *testing.T) {
	marks := []proto.Point{{Origin: alice, Last: 3}, {Origin: self, Last: 9}, {Origin: bob, Last: 5}}

	o := newOrigins(self)
	if !o.state(marks, start) {
		t.Error("an unknown giver was no first contact")
	}
	if first := o.batch(bob, 6, start); first {
		t.Error("bob, whom the fence for alice covers, was a first contact of its own")
	}

	o = newOrigins(self)
	o.mark(alice, 2, start)
	if o.state(marks, start) {
		t.Error("a known giver was a first contact")
	}
	if first := o.batch(bob, 6, start); !first {
		t.Error("bob, whom no fence covers, was no first contact")
	}
}

func TestDepart(t *testing.T) {
	tests := []struct {
		name   string
		arrive func(o *origins)
		polite bool
	}{
		{"never heard", func(o *origins) {}, false},
		{"no farewell", func(o *origins) { o.batch(alice, 1, start) }, false},
		{"farewell", func(o *origins) { o.batch(alice, 1, start); o.farewell(alice, 1, start) }, true},
		{"farewell overtook the last batch", func(o *origins) {
			o.batch(alice, 1, start)
			o.farewell(alice, 2, start)
			o.batch(alice, 2, start)
		}, true},
		{"news after the farewell", func(o *origins) {
			o.batch(alice, 1, start)
			o.farewell(alice, 1, start)
			o.batch(alice, 2, start)
		}, false},
		{"news after the farewell overtook it", func(o *origins) {
			o.batch(alice, 2, start)
			o.farewell(alice, 1, start)
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOrigins(self)
			tt.arrive(o)
			if got, _ := o.depart(alice); got != tt.polite {
				t.Errorf("said farewell: %v, want %v", got, tt.polite)
			}
		})
	}
}

func TestReturnedOriginGoesOnWhereItWas(t *testing.T) {
	o := newOrigins(self)
	o.batch(alice, 1, start)
	o.depart(alice)
	if points := o.points(); len(points) != 0 {
		t.Errorf("points are %v, want none of a departed origin", points)
	}
	if o.batch(alice, 2, start) {
		t.Error("it was a first contact anew")
	}
	if points := o.points(); len(points) != 1 || points[0] != (proto.Point{Origin: alice, Last: 2}) {
		t.Errorf("points are %v, want it among them again", points)
	}
	if polite, again := o.depart(alice); polite || again {
		t.Error("its second departure was taken for polite")
	}
}

func TestOriginsAreBounded(t *testing.T) {
	o := newOrigins(self)
	o.batch(alice, 1, start)
	for i := range 2 * maxOrigins {
		name := fmt.Sprintf("pod-%d", i)
		o.batch(proto.Origin{Node: name, Boot: 1}, 1, start.Add(time.Duration(i)))
		o.depart(proto.Origin{Node: name, Boot: 1})
	}
	if len(o.known) > maxOrigins {
		t.Errorf("%d origins are remembered, at most %d should be", len(o.known), maxOrigins)
	}
	if first := o.batch(alice, 2, start); first {
		t.Error("a member that is still there was forgotten for departed ones")
	}
}

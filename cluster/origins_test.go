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
	if _, first := o.batch(alice, 17, start); !first {
		t.Error("an unknown origin was no first contact")
	}
	if _, first := o.batch(alice, 18, start); first {
		t.Error("a known origin was a first contact again")
	}
	if first := o.mark(proto.Origin{Node: "alice", Boot: 2}, 0, start); !first {
		t.Error("a new boot was no first contact")
	}
	if _, first := o.batch(alice, 19, start); first {
		t.Error("a late datagram of the old boot was a first contact again")
	}
	if _, missing := o.next(); missing {
		t.Error("something is missing of origins that were heard without a gap")
	}
}

func TestGapIsOverdueAfterTheGrace(t *testing.T) {
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
			o.state([]proto.Mark{{Origin: bob, Last: 5}, {Origin: alice, Last: 11}}, start)
		}, true},
		{"mark of another that is behind", func(o *origins) {
			o.mark(bob, 5, start)
			o.state([]proto.Mark{{Origin: bob, Last: 5}, {Origin: alice, Last: 3}}, start)
		}, false},
		{"last batch lost, farewell", func(o *origins) { o.farewell(alice, 11, start) }, true},
		{"settled by a fence", func(o *origins) { o.batch(alice, 12, start); o.settle() }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOrigins(self)
			o.mark(alice, 10, start)
			tt.arrive(o)

			if o.overdue(start.Add(grace - 1)) {
				t.Error("overdue within the grace")
			}
			if got := o.overdue(start.Add(grace)); got != tt.want {
				t.Errorf("overdue after the grace: %v, want %v", got, tt.want)
			}
		})
	}
}

func TestStateIntroducesOthersOnlyAtFirstContact(t *testing.T) {
	marks := []proto.Mark{{Origin: alice, Last: 3}, {Origin: self, Last: 9}, {Origin: bob, Last: 5}}

	o := newOrigins(self)
	if !o.state(marks, start) {
		t.Error("an unknown giver was no first contact")
	}
	if _, first := o.batch(bob, 6, start); first {
		t.Error("bob, whom the fence for alice covers, was a first contact of its own")
	}

	o = newOrigins(self)
	o.mark(alice, 2, start)
	if o.state(marks, start) {
		t.Error("a known giver was a first contact")
	}
	if _, first := o.batch(bob, 6, start); !first {
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
		{"farewell of an earlier boot", func(o *origins) {
			o.farewell(alice, 1, start)
			o.batch(proto.Origin{Node: "alice", Boot: 2}, 1, start)
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOrigins(self)
			tt.arrive(o)
			if got := o.depart("alice"); got != tt.polite {
				t.Errorf("said farewell: %v, want %v", got, tt.polite)
			}
		})
	}
}

func TestReturnedOriginGoesOnWhereItWas(t *testing.T) {
	o := newOrigins(self)
	o.batch(alice, 1, start)
	o.depart("alice")
	if marks := o.marks(); len(marks) != 0 {
		t.Errorf("marks are %v, want none of a departed origin", marks)
	}
	if seen, first := o.batch(alice, 2, start); first || seen != fresh {
		t.Errorf("first contact %v, seen %v; want neither anew nor missed", first, seen)
	}
	if marks := o.marks(); len(marks) != 1 || marks[0] != (proto.Mark{Origin: alice, Last: 2}) {
		t.Errorf("marks are %v, want it among them again", marks)
	}
	if o.depart("alice") {
		t.Error("its second departure was taken for polite")
	}
}

func TestOriginsAreBounded(t *testing.T) {
	o := newOrigins(self)
	o.batch(alice, 1, start)
	for i := range 2 * maxOrigins {
		name := fmt.Sprintf("pod-%d", i)
		o.batch(proto.Origin{Node: name, Boot: 1}, 1, start.Add(time.Duration(i)))
		o.depart(name)
	}
	if len(o.known) > maxOrigins {
		t.Errorf("%d origins are remembered, at most %d should be", len(o.known), maxOrigins)
	}
	if _, first := o.batch(alice, 2, start); first {
		t.Error("a member that is still there was forgotten for departed ones")
	}
}

package history_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"klatch/internal/history"
	"klatch/proto"
)

func TestLinearizable(t *testing.T) {
	c, latest := history.Linearizable{}, history.Latest
	try(t, []example{
		{"nothing", c, false, history.History{}, nil},
		{"a life", c, false, history.History{
			read(latest, 0, 1, absent),
			create(2, 3, rev(1)), read(latest, 4, 5, rev(1)), write(6, 7, rev(2)), read(latest, 8, 9, rev(2)),
			cas(2, 10, 11, rev(3)), cas(2, 12, 13, conflict, version(3)), remove(14, 15), read(latest, 16, 17, absent),
			remove(18, 19),
		}, nil},
		{"reads on both sides of a concurrent write", c, false, history.History{
			create(0, 1, rev(1)), write(2, 10, rev(2)), read(latest, 3, 4, rev(1)), read(latest, 5, 6, rev(2)),
		}, nil},
		{"back again during a concurrent write", c, true, history.History{
			create(0, 1, rev(1)), write(2, 10, rev(2)), read(latest, 3, 4, rev(2)), read(latest, 5, 6, rev(1)),
		}, []int{3}},
		{"an old value", c, true, history.History{
			create(0, 1, rev(1)), write(2, 3, rev(2)), read(latest, 4, 5, rev(1)),
		}, []int{1, 2}},
		{"an old value at another level", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, rev(2)), read(history.Session, 4, 5, rev(1)), read(history.Local, 4, 5, absent),
		}, nil},
		{"a value with another's version", c, true, history.History{
			create(0, 1, rev(1)), write(2, 3, rev(2)), read(latest, 4, 5, version(1), value(2)),
		}, []int{2}},
		{"a version that does not grow", c, true, history.History{
			create(0, 1, rev(5)), write(2, 3, rev(4)),
		}, []int{1}},
		{"absent without a delete", c, true, history.History{
			create(0, 1, rev(1)), read(latest, 2, 3, absent),
		}, []int{1}},
		{"a write that a copy told absent", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, absent),
		}, nil},
		{"found after a delete", c, true, history.History{
			create(0, 1, rev(1)), remove(2, 3), read(latest, 4, 5, rev(1)),
		}, []int{1, 2}},
		{"written after a delete", c, true, history.History{
			create(0, 1, rev(1)), remove(2, 3), write(4, 5, rev(2)),
		}, []int{1, 2}},
		{"created twice", c, true, history.History{
			create(0, 1, rev(1)), create(2, 3, rev(2)),
		}, []int{1}},
		{"two winners", c, true, history.History{
			create(0, 1, rev(1)), cas(1, 2, 5, rev(2)), cas(1, 3, 6, rev(3)),
		}, []int{1, 2}},
		{"a winner and a loser", c, false, history.History{
			create(0, 1, rev(1)), cas(1, 2, 5, rev(2)), cas(1, 3, 6, conflict, version(2)),
		}, nil},
		{"a conflict without a cause", c, true, history.History{
			create(0, 1, rev(1)), cas(1, 2, 3, conflict),
		}, []int{1}},
		{"a conflict caused by a write without an answer", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, unknown, value(2)), cas(1, 4, 5, conflict),
		}, nil},
		{"a CAS over a write without an answer, of which a conflict told", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, unknown, value(2)), cas(1, 4, 5, conflict, version(2)), cas(2, 6, 7, rev(3)),
		}, nil},
		{"unknown and never done", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, unknown, value(2)), read(latest, 4, 5, rev(1)), read(latest, 6, 7, rev(1)),
		}, nil},
		{"unknown and done late", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, unknown, value(2)), read(latest, 4, 5, rev(1)), read(latest, 6, 7, rev(2)),
		}, nil},
		{"unknown, done and undone", c, true, history.History{
			create(0, 1, rev(1)), write(2, 3, unknown, value(2)), read(latest, 4, 5, rev(2)), read(latest, 6, 7, rev(1)),
		}, []int{2, 3}},
		{"never answered and done", c, false, history.History{
			create(0, 1, rev(1)), remove(2, 0, unknown), read(latest, 4, 5, rev(1)), read(latest, 6, 7, absent),
		}, nil},
		{"an unknown CAS that lost", c, true, history.History{
			create(0, 1, rev(1)), cas(1, 2, 3, rev(2)), cas(1, 4, 5, unknown, value(3)), read(latest, 6, 7, rev(3)),
		}, []int{3}},
		{"failed and yet there", c, true, history.History{
			create(0, 1, rev(1)), write(2, 3, failed, value(2)), read(latest, 4, 5, rev(2)),
		}, []int{2}},
		{"a value from nowhere", c, true, history.History{
			create(0, 1, rev(1)), read(latest, 4, 5, rev(7)),
		}, []int{1}},
		{"writes of something else", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, adds("x"), version(2)), read(latest, 4, 5, version(2), value(1)),
			write(6, 7, adds("y"), unknown), read(latest, 8, 9, version(3), value(1)), cas(3, 10, 11, rev(4)),
		}, nil},
		{"an unknown value under a write of something else", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, unknown, value(2)), write(4, 5, adds("x"), version(3)), read(latest, 6, 7, version(3), value(2)),
		}, nil},
		{"a lost write of something else", c, true, history.History{
			create(0, 1, rev(1)), write(2, 3, adds("x"), version(2)), read(latest, 4, 5, rev(1)),
		}, []int{2}},
		{"keys are apart", c, false, history.History{
			create(0, 1, rev(1)), create(2, 3, rev(2), on("other")), read(latest, 4, 5, rev(1)),
		}, nil},
	})
}

// TestLinearizableFindsOneWrongAnswer makes histories of a true register, which must pass, and makes one read of
// each go back by one write, which must be found. In every other one, a third of the writes were not answered.
func TestLinearizableFindsOneWrongAnswer(t *testing.T) {
	for seed := range uint64(30) {
		h := registerHistory(seed, 400)
		for i := range h {
			if o := &h[i]; seed%2 == 1 && i%3 == 0 && o.Kind == history.Write {
				o.Outcome, o.Version = history.Unknown, 0
			}
		}
		if err := history.Check(h, history.Linearizable{}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		broken, wrong := goBack(h, seed)
		err := history.Check(broken, history.Linearizable{})
		if !errors.Is(err, history.ErrViolated) {
			t.Fatalf("seed %d: the wrong answer of operation #%d is not found: %v", seed, wrong, err)
		}
	}
}

// registerHistory is what eight clients may record of one register that is right: each operation is done at a
// moment between its start and its end, some answers are lost, and some operations with them.
func registerHistory(seed uint64, count int) history.History {
	random := rand.New(rand.NewPCG(seed, 0))
	var h history.History
	current, free := proto.Version(1), [8]int{}
	h = append(h, create(0, 1, rev(1)))
	for i := range count {
		moment := 10 * (i + 1)
		client := random.IntN(len(free))
		start := max(free[client]+1, moment-random.IntN(60))
		if start >= moment {
			continue
		}
		end := moment + 1 + random.IntN(60)
		free[client] = end
		who := by(fmt.Sprint("c", client))
		next := proto.Version(i + 2)
		lost := random.IntN(40) == 0
		switch random.IntN(4) {
		case 0, 1:
			h = append(h, read(history.Latest, start, end, who, rev(current)))
		case 2:
			o := write(start, end, who, rev(next))
			if lost {
				o = write(start, end, who, unknown, value(next))
			}
			if !lost || random.IntN(2) == 0 {
				current = next
			}
			h = append(h, o)
		case 3:
			expect := current - proto.Version(random.IntN(2))
			o := cas(expect, start, end, who, conflict, value(next), version(current))
			if expect == current {
				o = cas(expect, start, end, who, rev(next))
				current = next
			}
			h = append(h, o)
		}
	}
	for i := range h {
		h[i].ID = i
	}
	return h
}

// goBack lets one read in the second half return what a read answered before it had returned, though another
// write had been acknowledged between the two.
func goBack(h history.History, seed uint64) (history.History, int) {
	broken := append(history.History{}, h...)
	from := len(h)/2 + int(seed)
	for i := from; i < len(h); i++ {
		for j := i - 1; j > 0; j-- {
			for k := j + 1; k < i; k++ {
				if h[i].Kind == history.Read && h[j].Kind == history.Read && h[k].Kind == history.Write && h[k].Outcome == history.OK &&
					h[j].End < h[k].Start && h[k].End < h[i].Start {
					broken[i].Version, broken[i].Value = h[j].Version, h[j].Value
					return broken, i
				}
			}
		}
	}
	panic("no such read")
}

func TestLinearizableSaysWhenItIsUndecided(t *testing.T) {
	h := history.History{create(0, 1, rev(1))}
	for i := range 200 {
		h = append(h, write(2, 1000, by(fmt.Sprint(i)), rev(proto.Version(1000-i))))
	}
	h = append(h, read(history.Latest, 2000, 2001, rev(5)))
	err := history.Check(h, history.Linearizable{Timeout: time.Millisecond})
	if !errors.Is(err, history.ErrUndecided) || errors.Is(err, history.ErrViolated) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkLinearizable(b *testing.B) {
	h := registerHistory(1, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if err := history.Check(h, history.Linearizable{}); err != nil {
			b.Fatal(err)
		}
	}
}

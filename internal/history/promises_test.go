package history_test

import (
	"slices"
	"testing"
	"time"

	"klatch/internal/history"
)

func TestReadYourWrites(t *testing.T) {
	c, session, latest := history.ReadYourWrites{}, history.Session, history.Latest
	try(t, []example{
		{"reads what it wrote", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, rev(2)), read(session, 4, 5, token(2), rev(2)),
		}, nil},
		{"reads something newer", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, by("d"), rev(2)), read(session, 4, 5, token(1), rev(2)),
		}, nil},
		{"reads something older", c, true, history.History{
			create(0, 1, rev(1)), write(2, 3, rev(2)), read(session, 4, 5, token(2), at("n2"), rev(1)),
		}, []int{1, 2}},
		{"with an old token", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, rev(2)), read(session, 4, 5, token(1), rev(1)),
		}, nil},
		{"with an old token, older than the token", c, true, history.History{
			create(0, 1, rev(2)), write(2, 3, rev(3)), read(session, 4, 5, token(2), rev(1)),
		}, []int{0, 2}},
		{"local is not promised", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, rev(2)), read(history.Local, 4, 5, token(2), rev(1)),
		}, nil},
		{"latest needs no token", c, true, history.History{
			create(0, 1, rev(1)), write(2, 3, rev(2)), read(latest, 4, 5, rev(1)),
		}, []int{1, 2}},
		{"another client's write", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, by("d"), rev(2)), read(session, 4, 5, token(1), rev(1)),
		}, nil},
		{"during the write", c, false, history.History{
			create(0, 1, rev(1)), write(2, 6, rev(2)), read(session, 4, 5, token(1), rev(1)),
		}, nil},
		{"does not find what it wrote", c, true, history.History{
			create(0, 1, rev(1)), read(session, 4, 5, token(1), absent),
		}, []int{0, 1}},
		{"somebody may have deleted it", c, false, history.History{
			create(0, 1, rev(1)), remove(2, 3, by("d"), unknown), read(session, 4, 5, token(1), absent),
		}, nil},
		{"nobody has deleted it yet", c, true, history.History{
			create(0, 1, rev(1)), read(session, 4, 5, token(1), absent), remove(6, 7),
		}, []int{1}},
		{"the read failed", c, false, history.History{
			create(0, 1, rev(1)), read(session, 4, 5, token(1), failed),
		}, nil},
	})
}

func TestMonotonicReads(t *testing.T) {
	c, session := history.MonotonicReads{}, history.Session
	try(t, []example{
		{"forward", c, false, history.History{
			read(session, 0, 1, rev(1)), read(session, 2, 3, token(1), at("n2"), rev(2)), read(session, 4, 5, token(2), rev(2)),
		}, nil},
		{"back", c, true, history.History{
			read(session, 0, 1, rev(2)), read(session, 2, 3, token(2), at("n2"), rev(1)),
		}, []int{0, 1}},
		{"back after a local read", c, true, history.History{
			read(history.Local, 0, 1, rev(2)), read(session, 2, 3, token(2), rev(1)),
		}, []int{0, 1}},
		{"back without a token", c, false, history.History{
			read(session, 0, 1, rev(2)), read(session, 2, 3, rev(1)),
		}, nil},
		{"back for another client", c, false, history.History{
			read(session, 0, 1, rev(2)), read(session, 2, 3, by("d"), token(2), rev(1)),
		}, nil},
		{"back on another key", c, false, history.History{
			read(session, 0, 1, rev(2)), read(session, 2, 3, on("other"), token(2), rev(1)),
		}, nil},
		{"gone", c, true, history.History{
			read(session, 0, 1, rev(2)), read(session, 2, 3, token(2), absent),
		}, []int{0, 1}},
	})
}

func TestTokenHonoured(t *testing.T) {
	c, session := history.TokenHonoured{}, history.Session
	try(t, []example{
		{"honoured", c, false, history.History{
			create(0, 1, rev(1)), read(session, 2, 3, by("d"), token(1), rev(1)),
		}, nil},
		{"handed to another client and ignored", c, true, history.History{
			create(0, 1, rev(1)), write(2, 3, rev(2)), read(session, 4, 5, by("d"), token(2), rev(1)),
		}, []int{1, 2}},
		{"forged", c, false, history.History{
			create(0, 1, rev(1)), read(session, 4, 5, token(7), rev(1)),
		}, nil},
		{"of another key", c, false, history.History{
			create(0, 1, rev(1)), create(2, 3, on("other"), rev(9)), read(session, 4, 5, token(9), rev(1)),
		}, nil},
	})
}

func TestNoResurrection(t *testing.T) {
	strict, lenient := history.NoResurrection{}, history.NoResurrection{Grace: 10 * time.Millisecond}
	session, latest := history.Session, history.Latest
	try(t, []example{
		{"gone", strict, false, history.History{
			create(0, 1, rev(1)), remove(2, 3), read(session, 4, 5, absent), write(6, 7, absent),
		}, nil},
		{"found on another node", strict, true, history.History{
			create(0, 1, rev(1)), remove(2, 3), read(session, 4, 5, at("n2"), rev(1)),
		}, []int{1, 2}},
		{"found by a read that began during the delete", strict, false, history.History{
			create(0, 1, rev(1)), remove(2, 6), read(latest, 3, 8, rev(1)),
		}, nil},
		{"saved again", strict, true, history.History{
			create(0, 1, rev(1)), remove(2, 3), write(4, 5, rev(2)),
		}, []int{1, 2}},
		{"the delete may not have been done", strict, false, history.History{
			create(0, 1, rev(1)), remove(2, 3, unknown), read(latest, 4, 5, rev(1)),
		}, nil},
		{"unconfirmed, within the grace", lenient, false, history.History{
			create(0, 1, rev(1)), remove(2, 3, unconfirmed("n2", "n3")), read(session, 4, 5, at("n3"), rev(1)),
		}, nil},
		{"unconfirmed, without grace", strict, true, history.History{
			create(0, 1, rev(1)), remove(2, 3, unconfirmed("n2")), read(session, 4, 5, at("n2"), rev(1)),
		}, []int{2}},
		{"unconfirmed, after the grace", lenient, true, history.History{
			create(0, 1, rev(1)), remove(2, 3, unconfirmed("n2")), read(session, 14, 15, at("n2"), rev(1)),
		}, []int{2}},
		{"unconfirmed elsewhere", lenient, true, history.History{
			create(0, 1, rev(1)), remove(2, 3, unconfirmed("n2")), read(session, 4, 5, at("n3"), rev(1)),
		}, []int{2}},
		{"unconfirmed, but latest", lenient, true, history.History{
			create(0, 1, rev(1)), remove(2, 3, unconfirmed("n2")), read(latest, 4, 5, at("n2"), rev(1)),
		}, []int{2}},
	})
}

func TestBoundedStaleness(t *testing.T) {
	c := history.BoundedStaleness{Bound: 100 * time.Millisecond}
	local := history.Local
	try(t, []example{
		{"within the bound", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, rev(2)), read(local, 100, 101, rev(1)),
		}, nil},
		{"over the bound", c, true, history.History{
			create(0, 1, rev(1)), write(2, 3, rev(2)), read(local, 104, 105, rev(1)),
		}, []int{1, 2}},
		{"behind a write that is younger than the bound", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, rev(2)), write(50, 51, rev(3)), read(local, 104, 105, rev(2)),
		}, nil},
		{"behind an old write that was answered late", c, false, history.History{
			create(0, 1, rev(1)), write(2, 80, rev(2)), read(local, 104, 105, rev(1)),
		}, nil},
		{"the newest counts, not the last answered", c, false, history.History{
			create(0, 1, rev(1)), write(2, 3, rev(3)), write(2, 4, by("d"), rev(2)), read(local, 200, 201, rev(3)),
		}, nil},
		{"deleted within the bound", c, false, history.History{
			create(0, 1, rev(1)), remove(2, 3), read(local, 100, 101, rev(1)),
		}, nil},
		{"deleted over the bound", c, true, history.History{
			create(0, 1, rev(1)), remove(2, 3), read(local, 104, 105, rev(1)),
		}, []int{1, 2}},
		{"not found over the bound", c, true, history.History{
			create(0, 1, rev(1)), read(local, 104, 105, absent),
		}, []int{0, 1}},
		{"deleted and not found", c, false, history.History{
			create(0, 1, rev(1)), remove(2, 3), read(local, 104, 105, absent),
		}, nil},
	})
}

func TestStaleness(t *testing.T) {
	h := history.History{
		create(0, 1, rev(1)), write(2, 3, rev(2)), write(10, 11, rev(3)),
		read(history.Local, 13, 14, rev(3)),
		read(history.Local, 13, 14, rev(2)),
		read(history.Local, 13, 14, rev(1)),
		read(history.Local, 5, 14, rev(2)),
		read(history.Session, 13, 14, rev(1)),
	}
	want := []time.Duration{0, 0, 2 * time.Millisecond, 10 * time.Millisecond}
	if got := history.Staleness(h, history.Local); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNothingLost(t *testing.T) {
	final := func(f history.Final) history.NothingLost {
		f.Found = true
		return history.NothingLost{Final: map[string]history.Final{"k": f}}
	}
	gone := history.NothingLost{}
	increments := history.History{
		create(0, 1, rev(1)), cas(1, 2, 3, rev(2), counts(1)), cas(2, 4, 5, unknown, counts(1)), cas(2, 6, 7, conflict, counts(1)),
	}
	elements := history.History{
		create(0, 1, rev(1)), write(2, 3, version(2), adds("a")), write(4, 5, unknown, adds("b")), write(6, 7, failed, adds("c")),
	}
	deleted := history.History{create(0, 1, rev(1)), remove(2, 3)}
	perhaps := history.History{create(0, 1, rev(1)), remove(2, 3, unknown)}
	try(t, []example{
		{"all there", final(history.Final{Version: 2, Counter: 1}), false, increments, nil},
		{"the unknown there too", final(history.Final{Version: 3, Counter: 2}), false, increments, nil},
		{"an increment lost", final(history.Final{Version: 2, Counter: 0}), true, increments, nil},
		{"an increment too many", final(history.Final{Version: 3, Counter: 3}), true, increments, nil},
		{"an old version", final(history.Final{Version: 1, Counter: 1}), true, increments, []int{1}},
		{"another value", final(history.Final{Version: 2, Value: "value 1", Counter: 1}), true, increments, []int{1}},
		{"the record lost", gone, true, increments, []int{1}},

		{"elements there", final(history.Final{Version: 2, Elements: []string{"a"}}), false, elements, nil},
		{"the unknown element too", final(history.Final{Version: 3, Elements: []string{"b", "a"}}), false, elements, nil},
		{"an element lost", final(history.Final{Version: 3, Elements: []string{"b"}}), true, elements, []int{1}},
		{"an element that failed", final(history.Final{Version: 3, Elements: []string{"a", "c"}}), true, elements, []int{3}},
		{"an element from nowhere", final(history.Final{Version: 3, Elements: []string{"a", "z"}}), true, elements, nil},

		{"deleted and gone", gone, false, deleted, nil},
		{"deleted and there", final(history.Final{Version: 1}), true, deleted, []int{1}},
		{"perhaps deleted, gone", gone, false, perhaps, nil},
		{"perhaps deleted, there", final(history.Final{Version: 1}), false, perhaps, nil},
	})
}

package history

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"klatch/proto"
)

// TestLinearizableAgreesWithTryingAllOrders compares the checker, which leaves out most places of the operations
// whose outcome is unknown, with one that leaves out none, on small histories of which about half are wrong.
func TestLinearizableAgreesWithTryingAllOrders(t *testing.T) {
	wrong := 0
	for seed := range uint64(6000) {
		h := smallHistory(rand.New(rand.NewPCG(seed, 0)))
		want := possible(register{}, plain(h), map[int]bool{})
		if !want {
			wrong++
		}
		if found := (Linearizable{}).Check(h); (len(found) == 0) != want {
			for _, o := range h {
				t.Log(o)
			}
			t.Fatalf("seed %d: possible %v, found %v", seed, want, found)
		}
	}
	if wrong < 1000 || wrong > 5000 {
		t.Errorf("%d of 6000 histories are wrong", wrong)
	}
}

// plain returns all operations as steps, with the versions that can be known, but without a conclusion on when
// they were done.
func plain(h History) []step {
	seen, owned := sightings(h)
	var steps []step
	for _, o := range h {
		if o.writes() && o.Outcome == Unknown {
			o.Version = seen[o.Value].Version
		}
		s := step{Operation: o, foreign: !owned[o.Version]}
		if o.Kind == CAS && o.Outcome != Conflict {
			s.foreign = !owned[o.Expect]
		}
		if s.telling() {
			steps = append(steps, s)
		}
	}
	return steps
}

// possible reports whether the rest of the steps can be done in some order, without some of the unknown ones.
func possible(r register, steps []step, done map[int]bool) bool {
	end, certain := time.Duration(1<<62), false
	for i, s := range steps {
		if !done[i] && s.Outcome != Unknown {
			end, certain = min(end, s.End), true
		}
	}
	if !certain {
		return true
	}
	for i, s := range steps {
		if done[i] || s.Start > end {
			continue
		}
		if can, next := r.take(s); can {
			done[i] = true
			if possible(next, steps, done) {
				return true
			}
			delete(done, i)
		}
	}
	return false
}

// smallHistory records three clients of a true register, loses many answers, and falsifies one half of the time.
func smallHistory(random *rand.Rand) History {
	var h History
	var r register
	free := [3]int{}
	mixed := random.IntN(3) == 0 // some writes leave the value alone
	for i := range 11 {
		moment := 10 * (i + 1)
		client := random.IntN(len(free))
		start := max(free[client]+1, moment-random.IntN(40))
		if start >= moment {
			continue
		}
		end := moment + 1 + random.IntN(40)
		free[client] = end
		o := Operation{ID: len(h), Client: fmt.Sprint("c", client), Key: "k", Start: time.Duration(start), End: time.Duration(end), Outcome: OK}
		o.Kind = []Kind{Read, Read, Read, Write, Write, CAS, CAS, CAS, Delete}[random.IntN(9)]
		if r.phase == unborn {
			o.Kind = Create
		}
		lost := random.IntN(2) == 0
		applied := !lost || random.IntN(2) == 0
		version := proto.Version(i + 1)
		switch o.Kind {
		case Read:
			o.Level, o.Version, o.Value, lost = Latest, r.version, r.value, false
			if r.phase == dead {
				o.Outcome, o.Version, o.Value = Absent, 0, ""
			}
		case CAS:
			o.Expect = max(1, r.version-proto.Version(random.IntN(2)))
			if r.phase == dead {
				continue
			}
			if o.Expect != r.version {
				applied, o.Outcome, o.Version = false, Conflict, r.version
				if random.IntN(3) == 0 {
					o.Version = 0
				}
				break
			}
			o.Version = version
		case Delete:
			if applied {
				r.phase = dead
			}
			applied = false
		default:
			if r.phase == dead {
				continue
			}
			o.Version = version
		}
		if o.writes() && !(mixed && o.Kind == Write && random.IntN(2) == 0) {
			o.Value = fmt.Sprint("value ", version)
		}
		if applied && o.writes() {
			r.phase, r.version = live, version
			if o.Value != "" {
				r.value = o.Value
			}
		}
		if lost {
			o.Outcome, o.Version = Unknown, 0
		}
		h = append(h, o)
	}
	if random.IntN(2) == 0 && len(h) > 2 {
		falsify(random, h)
	}
	return h
}

// falsify changes one answer.
func falsify(random *rand.Rand, h History) {
	for range 20 {
		o, other := &h[random.IntN(len(h))], h[random.IntN(len(h))]
		switch {
		case o.Kind == Read && o.Outcome == OK && other.Kind == Read && other.Outcome == OK && other.Version != o.Version:
			o.Version, o.Value = other.Version, other.Value
			return
		case o.Kind == Read && o.Outcome == OK && random.IntN(4) == 0:
			o.Outcome, o.Version, o.Value = Absent, 0, ""
			return
		case o.Kind == CAS && o.Outcome == Conflict && random.IntN(4) == 0:
			o.Outcome, o.Version, o.Value = OK, 100, "value 100"
			return
		case o.Outcome == Unknown && random.IntN(4) == 0:
			o.Outcome = Failed
			return
		}
	}
}

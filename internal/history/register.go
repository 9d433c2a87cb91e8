package history

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"klatch/proto"
)

// phase is where a key is in its life. It never goes back.
type phase uint8

const (
	unborn phase = iota
	live
	dead
)

// register is the state of one key.
type register struct {
	phase   phase
	version proto.Version // 0: written by a step whose outcome is unknown
	highest proto.Version // that is known so far; one that is not known is above it
	value   string

	certain int          // steps done so far whose outcome is known
	fresh   bool         // the last step has an unknown outcome, and nobody has noticed it yet
	used    [classes]int // steps of unknown outcome that were tried
}

// model is what one key may do.
//
// A step whose outcome is unknown could be anywhere or nowhere, and to try all subsets of them would take for
// ever. But if nobody notices it before it is overwritten, it is as if it had never been done; and that it was
// never done is the same as being done after everything else. So it is tried in two places only: just before
// a step that notices it, and at the end. Of those that nobody can tell apart, the one that began first is tried
// first, since all that could have been done at a moment can be done later.
var model = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, _ any) (bool, any) {
		r, s := state.(register), input.(step)
		if s.Outcome == Unknown {
			return r.perhaps(s)
		}
		if r.fresh && !s.notices() {
			return false, r
		}
		possible, next := r.take(s)
		next.certain, next.fresh = r.certain+1, false
		return possible, next
	},
	Hash: func(state any) uint64 {
		r := state.(register)
		return uint64(r.version)<<2 | uint64(r.phase)
	},
	DescribeOperation: func(input, _ any) string { return input.(step).String() },
	DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
}

// perhaps does a step whose outcome is unknown.
func (r register) perhaps(s step) (bool, register) {
	if r.certain == s.certain {
		return true, r
	}
	if r.fresh && s.Kind != CAS || s.class != distinct && s.rank != r.used[s.class] {
		return false, r
	}
	possible, next := r.take(s)
	next.fresh = true
	next.used[s.class]++
	return possible, next
}

// notices reports whether the step's answer depends on the one before, or leaves something of it in place.
func (s step) notices() bool {
	switch s.Kind {
	case Create, Delete:
		return s.Outcome != OK
	case Write:
		return s.Outcome != OK || s.Value == ""
	default:
		return true
	}
}

// take returns whether the step is possible, and the state after it.
func (r register) take(s step) (bool, register) {
	switch s.Outcome {
	case Absent:
		return r.phase != live, r
	case Conflict:
		possible := r.phase == live && r.version != s.Expect && (s.Version == 0 || r.matches(s, s.Version))
		return possible, r.seen(s)
	}
	switch s.Kind {
	case Read:
		return r.phase == live && r.matches(s, s.Version) && (s.Value == "" || s.Value == r.value), r.seen(s)
	case Create:
		return r.phase == unborn, r.write(s)
	case Write:
		return r.phase != dead && r.grows(s), r.write(s)
	case CAS:
		return r.phase == live && r.matches(s, s.Expect) && r.grows(s), r.write(s)
	default: // Delete
		r.phase, r.version, r.highest, r.value = dead, 0, 0, ""
		return true, r
	}
}

// seen remembers the version that a step has told.
func (r register) seen(s step) register {
	if r.version == 0 {
		r.version = s.Version
	}
	r.highest = max(r.highest, s.Version)
	return r
}

func (r register) write(s step) register {
	r.phase, r.version, r.highest = live, s.Version, max(r.highest, s.Version)
	if s.Value != "" {
		r.value = s.Value
	}
	return r
}

// grows reports whether the version that a write was given is above that of the record.
func (r register) grows(s step) bool { return s.Version == 0 || s.Version > r.highest }

// matches reports whether the record can have the version. If it was written by a step whose outcome is unknown,
// it can have any higher one that is not known to be another write's.
func (r register) matches(s step, version proto.Version) bool {
	return r.version == version || r.version == 0 && s.foreign && version > r.highest
}

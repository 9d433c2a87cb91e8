package history

import (
	"slices"

	"klatch/proto"
)

// Final is what the store held of a key at the end, after all operations had ended.
type Final struct {
	// Found is false if there is no record.
	Found   bool
	Version proto.Version
	// Value is the register in the record. Empty: it was not looked at.
	Value string
	// Elements is the set in the record.
	Elements []string
	// Counter is the counter in the record, which began at zero.
	Counter int64
}

// NothingLost checks that the store reflects at the end what was acknowledged, and nothing that certainly failed.
type NothingLost struct {
	// Final is what the store holds of each key. A key that is missing has no record.
	Final map[string]Final
}

// Check implements Checker.
func (c NothingLost) Check(h History) []Violation {
	f := &findings{promise: "nothing lost"}
	for name, key := range h.ByKey() {
		final := c.Final[name]
		written, deleted := newTimeline(key, Operation.writes), deletes(key)
		newest, isWritten := written.before(1<<63 - 1)
		mayBeGone := slices.ContainsFunc(key, func(o Operation) bool { return o.Kind == Delete && o.possible() })
		switch {
		case final.Found && len(deleted.operations) > 0:
			f.add(deleted.operations[:1], "the record was deleted and is there at the end, with version %s", final.Version)
		case !final.Found && isWritten && !mayBeGone:
			f.add([]Operation{newest}, "the record was written and is not there at the end")
		case final.Found:
			content(f, key, final)
			if final.Version < newest.Version {
				f.add([]Operation{newest}, "the record has version %s at the end, and a higher one was acknowledged", final.Version)
			}
		}
	}
	return f.found
}

// content compares a record that is there with what was written to it.
func content(f *findings, key History, final Final) {
	known := map[string]bool{}
	var least, most int64
	for _, o := range key {
		if !o.writes() {
			continue
		}
		value(f, o, final)
		element(f, o, final)
		known[o.Element] = true
		switch {
		case o.acknowledged():
			least, most = least+o.Delta, most+o.Delta
		case o.possible():
			least, most = least+min(o.Delta, 0), most+max(o.Delta, 0)
		}
	}
	if final.Counter < least || final.Counter > most {
		f.add(nil, "the counter of %s is %d at the end, and what was acknowledged or may have been done makes %d to %d", key[0].Key, final.Counter, least, most)
	}
	for _, e := range final.Elements {
		if !known[e] {
			f.add(nil, "element %s is in %s at the end, and nobody has added it", e, key[0].Key)
		}
	}
}

func value(f *findings, o Operation, final Final) {
	if o.Value == "" || final.Value == "" {
		return
	}
	switch {
	case o.acknowledged() && o.Version == final.Version && o.Value != final.Value:
		f.add([]Operation{o}, "the record has the value %s at the end, and its version was written with another one", final.Value)
	case !o.possible() && o.Value == final.Value:
		f.add([]Operation{o}, "the record has the value of a write that certainly failed")
	}
}

func element(f *findings, o Operation, final Final) {
	if o.Element == "" {
		return
	}
	switch there := slices.Contains(final.Elements, o.Element); {
	case o.acknowledged() && !there:
		f.add([]Operation{o}, "element %s was acknowledged and is not in the record at the end", o.Element)
	case !o.possible() && there:
		f.add([]Operation{o}, "element %s certainly failed and is in the record at the end", o.Element)
	}
}

package history

import "klatch/proto"

// ReadYourWrites checks that a client that carries its token reads what it has written, or something newer. A
// read is looked at if it asks for latest, or if its token is not below the version of the write.
type ReadYourWrites struct{}

// Check implements Checker.
func (ReadYourWrites) Check(h History) []Violation {
	f := &findings{promise: "read your writes"}
	eachRead(h, f, Operation.writes, "the client reads something older than it has written")
	return f.found
}

// MonotonicReads checks that a client that carries its token never reads something older than it has read
// before. A read is looked at if it asks for latest, or if its token is not below the version of the read before.
type MonotonicReads struct{}

// Check implements Checker.
func (MonotonicReads) Check(h History) []Violation {
	f := &findings{promise: "monotonic reads"}
	eachRead(h, f, func(o Operation) bool { return o.Kind == Read }, "the client reads something older than it has read before")
	return f.found
}

// eachRead compares the reads of each client with what it saw before, in the operations that sees wants.
func eachRead(h History, f *findings, sees func(Operation) bool, wrong string) {
	keys := map[string]History{}
	for key, operations := range h.ByKey() {
		keys[key] = operations
	}
	for _, client := range h.ByClient() {
		for key, operations := range client.ByKey() {
			seen := newTimeline(operations, sees)
			for _, read := range operations {
				if f.full() {
					return
				}
				if earlier, ok := promised(read, seen); ok && falls(keys[key], read, earlier.Version) {
					f.add([]Operation{earlier, read}, "%s", wrong)
				}
			}
		}
	}
}

// promised returns the newest of what a client has seen that its read must not fall behind.
func promised(read Operation, seen timeline) (Operation, bool) {
	switch {
	case read.Kind != Read:
		return Operation{}, false
	case read.Level == Latest:
		return seen.before(read.Start)
	case read.Level != Local && read.Token > 0:
		return seen.notAbove(read.Token, read.Start)
	default:
		return Operation{}, false
	}
}

// falls reports whether a read returned less than a version of its key.
func falls(key History, read Operation, version proto.Version) bool {
	switch read.Outcome {
	case OK:
		return read.Version < version
	case Absent:
		return version > 0 && !mayBeDeleted(key, read)
	default:
		return false
	}
}

// TokenHonoured checks that whoever carries a token that some client was given never reads something older, also
// if it was given to another client. Tokens that nobody was given are not looked at: what the store says of
// them is final.
type TokenHonoured struct{}

// Check implements Checker.
func (TokenHonoured) Check(h History) []Violation {
	f := &findings{promise: "token honoured"}
	for _, key := range h.ByKey() {
		given := map[proto.Version]Operation{}
		for _, o := range key {
			if old, ok := given[o.Version]; o.acknowledged() && o.Version > 0 && (!ok || o.End < old.End) {
				given[o.Version] = o
			}
		}
		for _, read := range key {
			giver, ok := given[read.Token]
			if read.Kind == Read && read.Level != Local && ok && giver.before(read) && falls(key, read, read.Token) {
				f.add([]Operation{giver, read}, "the read returns something older than its token")
			}
		}
	}
	return f.found
}

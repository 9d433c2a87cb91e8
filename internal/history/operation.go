package history

import (
	"fmt"
	"strings"
	"time"

	"klatch/proto"
)

// Kind is what a client asked for.
type Kind string

// The kinds of operations.
const (
	Read   Kind = "read"
	Create Kind = "create"
	Write  Kind = "write" // whatever the version is
	CAS    Kind = "cas"   // only if the version is Operation.Expect
	Delete Kind = "delete"
)

// The levels of reads, as the HTTP API names them.
const (
	Local   = "local"
	Session = "session"
	Latest  = "latest"
)

// Outcome is what a client knows of its operation.
type Outcome string

// The outcomes of operations.
const (
	// OK means that it was done. A delete of what was deleted before is OK.
	OK Outcome = "ok"
	// Absent means that the answer was that there is no such record. Nothing was written.
	Absent Outcome = "absent"
	// Conflict means that the answer was that the version is another one. Nothing was written.
	Conflict Outcome = "conflict"
	// Failed means that it was certainly not done, and the answer says nothing of the record.
	Failed Outcome = "failed"
	// Unknown means that it may have been done, or be done at any time to come.
	Unknown Outcome = "unknown"
)

// Operation is one thing that a client asked of a node, and the answer. Versions of zero mean "none".
type Operation struct {
	// ID numbers the operations of a history, in the order of their start.
	ID int `json:"id"`
	// Client is who asked. What it had been answered before it asked is what it has seen.
	Client string `json:"client"`
	// Node is who was asked.
	Node string `json:"node"`
	// Key is what it is about.
	Key  string `json:"key"`
	Kind Kind   `json:"kind"`
	// Level is the consistency that a read asked for.
	Level string `json:"level,omitempty"`

	// Start and End are when it was asked and answered, since the start of the recorder. No two of a
	// history are equal. End is zero if there was no answer.
	Start time.Duration `json:"start"`
	End   time.Duration `json:"end,omitempty"`

	// Token is the version that the client gave as the last one that it had seen.
	Token proto.Version `json:"token,omitempty"`
	// Expect is the version that a CAS demands.
	Expect proto.Version `json:"expect,omitempty"`

	// Value is the register in the record: what was written, or what was read. Empty: this operation does
	// not touch it, or did not look at it.
	Value string `json:"value,omitempty"`
	// Element is what a write adds to the set in the record.
	Element string `json:"element,omitempty"`
	// Delta is what a write adds to the counter in the record.
	Delta int64 `json:"delta,omitempty"`

	// Version is that of the record: as it was written, as it was read, or as a conflict told it. A read or
	// write that is OK must have one.
	Version proto.Version `json:"version,omitempty"`
	Outcome Outcome       `json:"outcome"`
	// Unconfirmed are the nodes of which the answer to a delete said that they may not have heard of it.
	Unconfirmed []string `json:"unconfirmed,omitempty"`
	// Note is for who reads the history, for example the text of an error.
	Note string `json:"note,omitempty"`
}

// writes reports whether the operation puts something into the record.
func (o Operation) writes() bool { return o.Kind == Create || o.Kind == Write || o.Kind == CAS }

// acknowledged reports whether the client was told that it was done.
func (o Operation) acknowledged() bool { return o.Outcome == OK }

// possible reports whether it may have been done.
func (o Operation) possible() bool { return o.Outcome == OK || o.Outcome == Unknown }

// before reports whether the operation was answered before the other one was asked.
func (o Operation) before(other Operation) bool { return o.answered() && o.End < other.Start }

// answered reports whether there was an answer that ended the operation.
func (o Operation) answered() bool { return o.Outcome != Unknown && o.End > 0 }

// String returns the operation on one line.
func (o Operation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s at %s: %s %s", o.ID, o.Client, o.Node, o.Kind, o.Key)
	for _, part := range []struct {
		name  string
		value string
	}{
		{"level", o.Level}, {"token", text(o.Token)}, {"expect", text(o.Expect)}, {"value", o.Value},
		{"element", o.Element}, {"unconfirmed", strings.Join(o.Unconfirmed, ",")},
	} {
		if part.value != "" {
			fmt.Fprintf(&b, " %s=%s", part.name, part.value)
		}
	}
	if o.Delta != 0 {
		fmt.Fprintf(&b, " delta=%+d", o.Delta)
	}
	fmt.Fprintf(&b, " -> %s", o.Outcome)
	if o.Version != 0 {
		fmt.Fprintf(&b, " version=%s", o.Version)
	}
	if o.Note != "" {
		fmt.Fprintf(&b, " (%s)", o.Note)
	}
	end := "never"
	if o.End > 0 {
		end = o.End.String()
	}
	fmt.Fprintf(&b, " [%s to %s]", o.Start, end)
	return b.String()
}

func text(v proto.Version) string {
	if v == 0 {
		return ""
	}
	return v.String()
}

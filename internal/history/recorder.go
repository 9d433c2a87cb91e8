package history

import (
	"sync"
	"time"

	"klatch/proto"
)

// Recorder takes down operations. It is safe for concurrent use. It keeps everything in memory, about half a
// kilobyte for each operation.
type Recorder struct {
	now   func() time.Time
	start time.Time

	mu         sync.Mutex // guards all below
	last       time.Duration
	operations History
}

// NewRecorder returns a recorder whose time begins now. The clock must be monotonic, as time.Now is; that of a
// testing/synctest bubble is.
func NewRecorder(now func() time.Time) *Recorder {
	return &Recorder{now: now, start: now()}
}

// stamp returns the time, later than any before. Operations in a bubble take no time at all, and their order
// would be lost; it is that of the calls, which the lock has put in a row. The lock is held.
func (r *Recorder) stamp() time.Duration {
	r.last = max(r.now().Sub(r.start), r.last+1)
	return r.last
}

// Pending is an operation that was not answered yet.
type Pending struct {
	recorder *Recorder
	id       int
}

// Begin takes down that a client is about to ask. What the answer will tell is ignored. Until End is called,
// the outcome is unknown.
func (r *Recorder) Begin(asked Operation) *Pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked.ID = len(r.operations)
	asked.Outcome, asked.Version, asked.Unconfirmed, asked.Note = Unknown, 0, nil, ""
	asked.Start, asked.End = r.stamp(), 0
	r.operations = append(r.operations, asked)
	return &Pending{r, asked.ID}
}

// Answer is what a client was told.
type Answer struct {
	Outcome Outcome
	// Version is that of the record: as it was written, as it was read, or as a conflict told it.
	Version proto.Version
	// Value is the register in the record that was read.
	Value string
	// Unconfirmed are the nodes of which the answer to a delete said that they may not have heard of it.
	Unconfirmed []string
	// Note is for who reads the history, for example the text of an error.
	Note string
}

// End takes down the answer. Only the first call counts.
func (p *Pending) End(answer Answer) {
	r := p.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &r.operations[p.id]
	if o.End > 0 {
		return
	}
	o.End = r.stamp()
	o.Outcome, o.Version, o.Unconfirmed, o.Note = answer.Outcome, answer.Version, answer.Unconfirmed, answer.Note
	if o.Kind == Read {
		o.Value = answer.Value
	}
}

// History returns what has been taken down so far.
func (r *Recorder) History() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(History(nil), r.operations...)
}

package cbnode

import (
	"time"

	"github.com/couchbase/gocbcore/v10/memd"
)

// Request is one request as a Hook sees it.
type Request struct {
	// Number counts the requests of the node from 1, over all connections and restarts.
	Number uint64
	// Connection tells connections apart. Numbers are not used again.
	Connection uint64

	Command memd.CmdCode
	// Key is the key of the document without its collection, empty where the command has none.
	Key string
	// Collection is the id of the collection, 0 for the default one.
	Collection uint32
	CAS        uint64
	Value      []byte
	Durable    bool
}

// Reads says whether the command reads a document and changes nothing.
func (r Request) Reads() bool {
	switch r.Command {
	case memd.CmdGet, memd.CmdGetMeta, memd.CmdSubDocMultiLookup:
		return true
	}
	return false
}

// Writes says whether the command changes a document: its value, its expiry, its lock or its being there.
func (r Request) Writes() bool {
	switch r.Command {
	case memd.CmdSet, memd.CmdAdd, memd.CmdReplace, memd.CmdDelete, memd.CmdTouch, memd.CmdGAT, memd.CmdGetLocked, memd.CmdUnlockKey:
		return true
	}
	return false
}

// Fault is what goes wrong with a request.
type Fault int

const (
	// None: the request is applied and answered.
	None Fault = iota
	// DropAnswer applies the request and never answers.
	DropAnswer
	// DropRequest neither applies nor answers.
	DropRequest
	// CloseAfter applies the request and closes the connection instead of answering.
	CloseAfter
	// CloseBefore closes the connection and does not apply.
	CloseBefore
	// Refuse does not apply and answers with Action.Status.
	Refuse
)

// faultNames are the words for faults on a command line.
var faultNames = map[string]Fault{
	"none": None, "drop-answer": DropAnswer, "drop-request": DropRequest,
	"close-after": CloseAfter, "close-before": CloseBefore, "refuse": Refuse,
}

// ParseFault returns the fault of a name: none, drop-answer, drop-request, close-after, close-before, refuse.
func ParseFault(name string) (Fault, bool) {
	fault, ok := faultNames[name]
	return fault, ok
}

// Action is the fate of one request. The zero value is a good node's.
type Action struct {
	Fault Fault
	// Status is what Refuse answers. Zero means a temporary failure, which clients retry.
	Status memd.StatusCode

	// Before passes before the request is applied or refused, After between that and the answer. Other
	// requests do not wait meanwhile, not even those of the same connection. The request is applied even
	// if its client has gone by then, as on a real node that is slow.
	Before, After time.Duration
}

// Hook decides the fate of a request. It is called for every request, those that set up a connection
// included, by many goroutines at once and with no lock held; it may call the methods of Node that do not
// stop it. It must not keep or change Value.
type Hook func(Request) Action

// OnWrites is the hook that calls decide for requests that write documents, and leaves the others alone.
func OnWrites(decide Hook) Hook {
	return func(r Request) Action {
		if !r.Writes() {
			return Action{}
		}
		return decide(r)
	}
}

// Always is the hook with one action for all.
func Always(action Action) Hook { return func(Request) Action { return action } }

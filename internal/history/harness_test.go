package history_test

import (
	"errors"
	"testing"
	"time"

	"klatch/internal/history"
	"klatch/proto"
)

// change alters an operation of a test.
type change func(*history.Operation)

// operation is one of client c on key k, asked and answered at those milliseconds, and done.
func operation(kind history.Kind, start, end int, changes ...change) history.Operation {
	o := history.Operation{
		Client: "c", Node: "n1", Key: "k", Kind: kind, Outcome: history.OK,
		Start: time.Duration(start) * time.Millisecond, End: time.Duration(end) * time.Millisecond,
	}
	for _, change := range changes {
		change(&o)
	}
	return o
}

func create(start, end int, changes ...change) history.Operation {
	return operation(history.Create, start, end, changes...)
}

func write(start, end int, changes ...change) history.Operation {
	return operation(history.Write, start, end, changes...)
}

func cas(expect proto.Version, start, end int, changes ...change) history.Operation {
	o := operation(history.CAS, start, end, changes...)
	o.Expect = expect
	return o
}

func remove(start, end int, changes ...change) history.Operation {
	return operation(history.Delete, start, end, changes...)
}

func read(level string, start, end int, changes ...change) history.Operation {
	o := operation(history.Read, start, end, changes...)
	o.Level = level
	return o
}

// rev is the version and the value that belongs to it.
func rev(version proto.Version) change {
	return func(o *history.Operation) { o.Version, o.Value = version, "value "+version.String() }
}

// value is a value without a version: of a write that was not answered.
func value(of proto.Version) change {
	return func(o *history.Operation) { o.Value = "value " + of.String() }
}

func version(v proto.Version) change { return func(o *history.Operation) { o.Version = v } }

func token(v proto.Version) change { return func(o *history.Operation) { o.Token = v } }

func by(client string) change { return func(o *history.Operation) { o.Client = client } }

func at(node string) change { return func(o *history.Operation) { o.Node = node } }

func on(key string) change { return func(o *history.Operation) { o.Key = key } }

func adds(element string) change { return func(o *history.Operation) { o.Element = element } }

func counts(delta int64) change { return func(o *history.Operation) { o.Delta = delta } }

func outcome(outcome history.Outcome) change {
	return func(o *history.Operation) { o.Outcome = outcome }
}

func unconfirmed(nodes ...string) change {
	return func(o *history.Operation) { o.Unconfirmed = nodes }
}

var (
	unknown  = outcome(history.Unknown)
	failed   = outcome(history.Failed)
	absent   = outcome(history.Absent)
	conflict = outcome(history.Conflict)
)

// example is a history that a checker must find right or wrong.
type example struct {
	name     string
	checker  history.Checker
	broken   bool
	history  history.History
	evidence []int // if broken: the operations that must be named, among others
}

func try(t *testing.T, examples []example) {
	t.Helper()
	for _, example := range examples {
		t.Run(example.name, func(t *testing.T) {
			for i := range example.history {
				example.history[i].ID = i
			}
			err := history.Check(example.history, example.checker)
			if got := errors.Is(err, history.ErrViolated); got != example.broken {
				t.Fatalf("found broken: %v, want %v: %v", got, example.broken, err)
			}
			if !example.broken {
				return
			}
			named := map[int]bool{}
			for _, violation := range err.(history.Violations) {
				for _, o := range violation.Operations {
					named[o.ID] = true
				}
			}
			for _, id := range example.evidence {
				if !named[id] {
					t.Errorf("operation %d is not named in: %v", id, err)
				}
			}
		})
	}
}

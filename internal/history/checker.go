package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

var (
	// ErrViolated is what every [Violations] wraps if the history shows that a promise was broken.
	ErrViolated = errors.New("a promise was broken")

	// ErrUndecided is what a [Violations] wraps if a checker ran out of time before it knew. Give it more,
	// or record fewer operations on one key.
	ErrUndecided = errors.New("it could not be decided whether a promise was broken")
)

// Checker looks for one kind of broken promise.
type Checker interface {
	// Check returns what it found, the clearest first and at most [MaxViolations].
	Check(h History) []Violation
}

// CheckerFunc is a function that is a Checker.
type CheckerFunc func(h History) []Violation

// Check implements Checker.
func (f CheckerFunc) Check(h History) []Violation { return f(h) }

// MaxViolations bounds what one checker returns. One fault is often seen by thousands of operations.
const MaxViolations = 10

// Violation is one broken promise.
type Violation struct {
	// Promise names it.
	Promise string
	// Text says what is wrong.
	Text string
	// Operations show it, in the order of their start.
	Operations []Operation
	// Undecided means that the checker ran out of time.
	Undecided bool
}

// String returns the violation and one line for each operation.
func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.Promise, v.Text)
	for _, o := range v.Operations {
		fmt.Fprintf(&b, "\n\t%s", o)
	}
	return b.String()
}

// Violations is the error that [Check] returns. It wraps ErrViolated or ErrUndecided.
type Violations []Violation

// Error implements error.
func (v Violations) Error() string {
	texts := []string{}
	for _, violation := range v {
		texts = append(texts, violation.String())
	}
	return fmt.Sprintf("%v:\n%s", v.Unwrap(), strings.Join(texts, "\n"))
}

// Unwrap returns ErrViolated or, if nothing is certain, ErrUndecided.
func (v Violations) Unwrap() error {
	if slices.ContainsFunc(v, func(v Violation) bool { return !v.Undecided }) {
		return ErrViolated
	}
	return ErrUndecided
}

// Check returns nil if no checker finds anything, or [Violations].
func Check(h History, checkers ...Checker) error {
	var found Violations
	for _, checker := range checkers {
		found = append(found, checker.Check(h)...)
	}
	if len(found) == 0 {
		return nil
	}
	return found
}

// findings collects violations of one promise.
type findings struct {
	promise string
	found   []Violation
}

func (f *findings) full() bool { return len(f.found) >= MaxViolations }

func (f *findings) add(operations []Operation, format string, args ...any) {
	if f.full() {
		return
	}
	operations = slices.Clone(operations)
	slices.SortStableFunc(operations, func(a, b Operation) int { return cmp.Compare(a.Start, b.Start) })
	f.found = append(f.found, Violation{Promise: f.promise, Text: fmt.Sprintf(format, args...), Operations: operations})
}

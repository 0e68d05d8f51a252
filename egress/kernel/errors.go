package kernel

import (
	"errors"
	"fmt"
	"strings"
)

// ErrForeign is wrapped by the error of an Add where there is an object already that
// we did not make, or did not know of.
var ErrForeign = errors.New("exists already and is not ours: remove it or use another key")

// Failure is an operation that the kernel refused.
type Failure struct {
	// Index is the operation's place in the call.
	Index int
	Op    Op
	// Err has the kernel's own text where there is one.
	Err error
}

// ApplyError says how far an Apply came.
type ApplyError struct {
	// Attempted is how many operations were tried, from the first on. Those of them
	// which are not in Failed were done, unless Lost is set.
	Attempted int
	Failed    []Failure
	// Lost is set when an answer of the kernel was lost. Nobody knows then which of the
	// last attempted operations were done: read the state again.
	Lost error
	// Stopped is the context's error when that ended it.
	Stopped error
}

const failuresShown = 3

// Error names the first failures and how many there are.
func (e *ApplyError) Error() string {
	var parts []string
	for _, f := range e.Failed[:min(len(e.Failed), failuresShown)] {
		parts = append(parts, fmt.Sprintf("`%s`: %s", f.Op, f.Err))
	}
	if more := len(e.Failed) - failuresShown; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	if e.Lost != nil {
		parts = append(parts, fmt.Sprintf("the kernel's answer was lost: %s", e.Lost))
	}
	if e.Stopped != nil {
		parts = append(parts, fmt.Sprintf("stopped: %s", e.Stopped))
	}
	return fmt.Sprintf("applying kernel state, %d operations attempted: %s", e.Attempted, strings.Join(parts, "; "))
}

// Unwrap gives all causes to errors.Is.
func (e *ApplyError) Unwrap() []error {
	var causes []error
	for _, f := range e.Failed {
		causes = append(causes, f.Err)
	}
	for _, cause := range []error{e.Lost, e.Stopped} {
		if cause != nil {
			causes = append(causes, cause)
		}
	}
	return causes
}

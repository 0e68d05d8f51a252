package kernel

import (
	"context"
	"errors"
)

// ErrForeign is wrapped by the error of an Add where somebody else's object is.
var ErrForeign = errors.New("exists already and is not ours: remove it or use another key")

// Options of an [Applier].
type Options struct {
	// Protocol marks what is ours; [Protocol] when 0. Two agents in one network
	// namespace need two numbers, or each removes what the other made.
	Protocol uint8
}

// Applier reads and writes the kernel's state in the network namespace where it was
// opened. It is safe for concurrent use; operations of one call stay in order.
type Applier struct{}

// Open returns an applier for the calling thread's network namespace. It needs
// CAP_NET_ADMIN there.
func Open(opts Options) (*Applier, error) { panic("todo") }

// Close frees the sockets. What was applied stays.
func (a *Applier) Close() error { panic("todo") }

// Read returns what carries our protocol number, and the tunnel source.
func (a *Applier) Read(ctx context.Context) (State, error) { panic("todo") }

// Apply executes ops in order, many in each system call. At the first run of alike
// operations in which some failed it stops and returns an [*ApplyError].
func (a *Applier) Apply(ctx context.Context, ops []Op) error { panic("todo") }

// EnsureAnchor makes sure that a device of this name is up, whose carrier never
// goes, to hang SRv6 nexthops on: a dummy where the kernel has them, else a veth
// pair whose other end is name+"p". mtu is in bytes: that of the underlay.
func (a *Applier) EnsureAnchor(ctx context.Context, name string, mtu uint32) error { panic("todo") }

// Failure is an operation that the kernel refused.
type Failure struct {
	// Index is the operation's place in the call.
	Index int
	Op    Op
	// Err has the kernel's own words where it has any.
	Err error
}

// ApplyError tells how far an Apply came.
type ApplyError struct {
	// Attempted is how many operations were tried, from the first on. Those of them
	// which are not in Failed were done.
	Attempted int
	Failed    []Failure
	// Lost is set when an answer of the kernel was lost, so that nobody knows
	// which of the attempted operations were done: read the state again.
	Lost error
}

// Error names the first failures and how many there are.
func (e *ApplyError) Error() string { panic("todo") }

// Unwrap gives all causes to errors.Is.
func (e *ApplyError) Unwrap() []error { panic("todo") }

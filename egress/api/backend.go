package api

import (
	"context"
	"errors"
	"net/netip"
)

// The errors that a [Backend]'s errors wrap, and the client's, too.
var (
	// ErrNotFound: there is no path or policy of that name.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the request is not of the form that docs/egress-api.yaml gives.
	ErrInvalid = errors.New("invalid")
	// ErrConflict: the request contradicts itself, or names what does not exist.
	ErrConflict = errors.New("conflict")
	// ErrUnsupported: not in this role, configuration or kernel.
	ErrUnsupported = errors.New("not supported")
)

// Backend is the agent behind the API. Its methods are called from many
// goroutines at once; they return copies, in the order of names.
type Backend interface {
	Status(ctx context.Context) (Status, error)
	Paths(ctx context.Context) ([]Path, error)
	Sessions(ctx context.Context) ([]Session, error)
	// Lookup returns the paths that reach all of a prefix, whose host bits are clear.
	Lookup(ctx context.Context, client netip.Prefix) (Lookup, error)
	// SetDrain drains a path, or ends that where drain is nil. It returns when
	// the kernel has it and it would survive a crash.
	SetDrain(ctx context.Context, path string, drain *Drain) (Path, error)
	Policies(ctx context.Context) ([]Policy, error)
	// SetPolicy makes a policy or replaces the one of its name. It returns when
	// it would survive a crash.
	SetPolicy(ctx context.Context, policy Policy) error
	DeletePolicy(ctx context.Context, name string) error
	// SetConnection takes the edge server's knowledge of an MPTCP connection.
	SetConnection(ctx context.Context, connection Connection) error
}

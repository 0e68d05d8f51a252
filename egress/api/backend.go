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
	// Routers returns the routers that hand on the routes of egress peers.
	Routers(ctx context.Context) ([]Router, error)
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
	// Routes returns up to limit routes that overlap a prefix, by prefix and path; all where it
	// is not valid.
	Routes(ctx context.Context, within netip.Prefix, limit int) (RouteList, error)
	// Why explains how packets to a client may leave. Its host bits are clear.
	Why(ctx context.Context, client netip.Prefix) (Explanation, error)
	// Peers returns the egress peers of a border's configuration.
	Peers(ctx context.Context) ([]Peer, error)
	// SetPeer adds a peer to the configuration, or replaces the one of its name that was
	// added so; nil settings remove it. It returns when it would survive a crash, with the
	// changes, as sentences.
	SetPeer(ctx context.Context, name string, settings PeerSettings) ([]string, error)
	// Reload reads the configuration again and takes it, or changes nothing. It returns what
	// has changed, as sentences.
	Reload(ctx context.Context) ([]string, error)
	// Connections returns up to limit MPTCP connections of clients within a prefix, oldest first;
	// all where it is not valid.
	Connections(ctx context.Context, within netip.Prefix, limit int) (ConnectionList, error)
	// SetConnection takes the edge server's knowledge of an MPTCP connection.
	SetConnection(ctx context.Context, connection Connection) error
}

package api

import (
	"context"
	"iter"
	"net/netip"
)

// Client asks an agent. Its errors wrap [ErrNotFound], [ErrInvalid] or
// [ErrUnsupported] where the agent's do.
type Client struct{}

// NewClient returns a client of the socket at path. It connects when it is
// first asked.
func NewClient(path string) *Client { panic("not yet") }

// Status returns the agent in short.
func (c *Client) Status(ctx context.Context) (Status, error) { panic("not yet") }

// Paths returns all paths.
func (c *Client) Paths(ctx context.Context) ([]Path, error) { panic("not yet") }

// Path returns one path.
func (c *Client) Path(ctx context.Context, name string) (Path, error) { panic("not yet") }

// Sessions returns all BGP sessions.
func (c *Client) Sessions(ctx context.Context) ([]Session, error) { panic("not yet") }

// Lookup tells which paths reach a client.
func (c *Client) Lookup(ctx context.Context, client netip.Prefix) (Lookup, error) { panic("not yet") }

// Drain drains a path.
func (c *Client) Drain(ctx context.Context, path, reason string) (Path, error) { panic("not yet") }

// Undrain ends a drain.
func (c *Client) Undrain(ctx context.Context, path string) (Path, error) { panic("not yet") }

// Policies returns all policies.
func (c *Client) Policies(ctx context.Context) ([]Policy, error) { panic("not yet") }

// SetPolicy makes a policy or replaces the one of its name.
func (c *Client) SetPolicy(ctx context.Context, policy Policy) error { panic("not yet") }

// DeletePolicy removes a policy.
func (c *Client) DeletePolicy(ctx context.Context, name string) error { panic("not yet") }

// SetConnection tells the agent of an MPTCP connection.
func (c *Client) SetConnection(ctx context.Context, connection Connection) error { panic("not yet") }

// Events yields what happens, a snapshot first. It ends with an error when the
// agent does, or when ctx ends.
func (c *Client) Events(ctx context.Context) iter.Seq2[Event, error] { panic("not yet") }

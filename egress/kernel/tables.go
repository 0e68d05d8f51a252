package kernel

import "context"

// Change is a step from one state to the next: Put is to exist as given, Remove is
// to be gone. Of what is removed only the keys matter: a route's table, prefix and
// metric, a nexthop's ID, an address's device and address; all fields of a rule.
//
// Removing a nexthop removes its routes.
type Change struct {
	Put, Remove State
}

// Tables remembers what is in the kernel, in about 50 bytes a route, and applies
// changes at the cost of what they change.
//
// It is safe for concurrent use: a large change is applied in small steps, between
// which others get their turn. Changes that run at the same time must not concern
// the same objects (one goroutine for each peer fits).
type Tables struct{}

// LoadTables reads the kernel once.
func LoadTables(ctx context.Context, applier *Applier) (*Tables, error) { panic("todo") }

// Apply makes one change, in the order of [Diff]. What is already as wanted costs
// nothing. On an error the rest is not done; Tables knows what was.
func (t *Tables) Apply(ctx context.Context, change Change) error { panic("todo") }

// Drop makes the route's prefix a blackhole at once, past every change that is
// being applied, with a single message on a socket of its own.
func (t *Tables) Drop(ctx context.Context, route Route) error { panic("todo") }

// Reset makes want the whole state: it reads the kernel again and applies the
// difference. Use it on start, after a device came back, and after an error.
func (t *Tables) Reset(ctx context.Context, want State) error { panic("todo") }

// Snapshot returns what is remembered, sorted.
func (t *Tables) Snapshot() State { panic("todo") }

// Routes returns how many routes are remembered in a table.
func (t *Tables) Routes(table uint32) int { panic("todo") }

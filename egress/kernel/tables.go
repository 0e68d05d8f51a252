package kernel

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Change is a step from one state to the next: Put is to exist as given, Remove is to be
// gone. Of removed objects only the keys matter: a route's table, prefix and metric, a
// nexthop's ID, an address's device and address. Of a rule all fields matter.
//
// A route in both is put. Removing a nexthop removes its routes.
type Change struct {
	Put, Remove State
}

// ErrFamily is wrapped when a [Change] would give a nexthop another family, under
// routes that it does not name.
var ErrFamily = errors.New("a nexthop in use cannot change its family: remove it first")

// Tables remembers the state of the kernel and applies changes at the cost of the objects
// that they change.
//
// It is safe for concurrent use: a large change is applied in batches, between which
// others get their turn. Changes that run at the same time must not concern the same
// objects (one goroutine for each peer fits).
type Tables struct {
	applier *Applier
	mu      sync.Mutex
	held    index
	// stale is set when an answer of the kernel was lost, so that held may be wrong.
	stale bool
	// resetAt is when the last Reset that succeeded began to read.
	resetAt time.Time
	// shut counts the calls of Shut for a route that were not answered by Release.
	shut map[RouteKey]int
	// sending is held from the check of shut until the batch is executed.
	sending sync.Mutex
}

// LoadTables reads the kernel once.
func LoadTables(ctx context.Context, applier *Applier) (*Tables, error) {
	t := &Tables{applier: applier, shut: make(map[RouteKey]int)}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t, t.reload(ctx)
}

// Apply makes one change, in the order of [Diff]. Objects that must be gone soonest, as a
// withdrawn prefix, go into a change of their own. Objects that are already as wanted cost
// nothing. After an error the rest is not done, and Tables knows how far it came.
func (t *Tables) Apply(ctx context.Context, change Change) error {
	ops, err := t.plan(ctx, change)
	if err != nil {
		return err
	}
	return t.execute(ctx, ops)
}

// Drop makes the route's prefix a blackhole at once, past every change that is being
// applied. It uses a single message on a socket of its own. Its table, prefix and metric
// count. A change that is being applied may put the route again behind it: see Shut.
func (t *Tables) Drop(ctx context.Context, route Route) error {
	drop := []Op{route.Drop()}
	err := t.applier.apply(ctx, t.applier.urgent, drop, func(ops []Op, send sender) ([]Failure, error) {
		failed, err := send(ops)
		if err == nil {
			t.record(ops, failed)
		}
		return failed, err
	})
	if t.noteLoss(err); err != nil {
		return err
	}
	// The batch that is in the kernel now may have put the route.
	return t.execute(ctx, drop)
}

// Shut is Drop for a caller that notices a loss before those that make changes. Until as
// many calls of Release the route stays a blackhole, whatever changes and states say. They
// may remove it.
func (t *Tables) Shut(ctx context.Context, route Route) error {
	t.mu.Lock()
	t.shut[route.Key()]++
	t.mu.Unlock()
	return t.Drop(ctx, route)
}

// Release says that changes know of what Shut was called for: those that begin from now
// on mean what they say of the route.
func (t *Tables) Release(route Route) {
	key := route.Key()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shut[key]--; t.shut[key] <= 0 {
		delete(t.shut, key)
	}
}

// Reset makes want the whole state: it reads the kernel again and applies the
// difference. No change may run meanwhile but Drop and Shut.
func (t *Tables) Reset(ctx context.Context, want State) error {
	began := time.Now()
	t.mu.Lock()
	err := t.reload(ctx)
	ops := []Op(nil)
	if err == nil {
		ops = Diff(t.held.state(), want)
	}
	t.mu.Unlock()
	if err == nil {
		err = t.execute(ctx, ops)
	}
	if err == nil {
		t.mu.Lock()
		t.resetAt = began
		t.mu.Unlock()
	}
	return err
}

// Restore puts back remembered state that others have removed, and returns it. State that
// hangs on a device that is down is left out, since the kernel would refuse it. Reset when
// the device is up again puts it back. An overrun needs Reset, too. No change may run
// meanwhile but Drop and Shut.
func (t *Tables) Restore(ctx context.Context, loss Loss) (State, error) {
	links, err := t.applier.links()
	if err != nil {
		return State{}, err
	}
	up := make(map[string]bool)
	for _, l := range links {
		up[l.Device] = l.Up
	}
	t.mu.Lock()
	var lost State
	if loss.Until.After(t.resetAt) {
		lost = t.held.lost(loss.Removed, up)
		t.held.forget(lost)
	}
	t.mu.Unlock()
	return lost, t.Apply(ctx, Change{Put: lost})
}

// Snapshot returns the remembered state, sorted.
func (t *Tables) Snapshot() State {
	t.mu.Lock()
	s := t.held.state()
	t.mu.Unlock() // sorting takes long enough to hold others up
	s.sort()
	return s
}

// Routes returns how many routes are remembered in a table.
func (t *Tables) Routes(table uint32) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.held.routes(table))
}

// Route returns the route with this key and whether there is one.
func (t *Tables) Route(key RouteKey) (Route, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held.route(key)
}

// plan compares the objects that the change names, and no others.
func (t *Tables) plan(ctx context.Context, change Change) ([]Op, error) {
	have, err := t.named(ctx, change)
	if err != nil {
		return nil, err
	}
	for _, routes := range [][]Route{change.Put.Routes, change.Remove.Routes} {
		for some := range slices.Chunk(routes, batchSize) {
			t.mu.Lock()
			have.Routes = t.held.namedRoutes(have.Routes, some)
			t.mu.Unlock()
		}
	}
	return Diff(have, change.Put), nil
}

// named returns the held state of the change's objects, but for the routes: they are many,
// and others wait meanwhile.
func (t *Tables) named(ctx context.Context, change Change) (State, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stale {
		if err := t.reload(ctx); err != nil {
			return State{}, err
		}
	}
	for _, n := range change.Put.Nexthops {
		if old, ok := t.held.nexthops[n.ID]; ok && old.Family != n.Family {
			return State{}, &ApplyError{Failed: []Failure{{Op: Op{Replace, n}, Err: ErrFamily}}}
		}
	}
	return t.held.named(change), nil
}

func (t *Tables) execute(ctx context.Context, ops []Op) error {
	err := t.applier.apply(ctx, t.applier.writing, ops, func(ops []Op, send sender) ([]Failure, error) {
		// So that the second message of Drop comes behind changes that did not know of it.
		t.sending.Lock()
		defer t.sending.Unlock()
		ops = t.withoutShut(ops)
		failed, err := send(ops)
		if err == nil {
			t.record(ops, failed)
		}
		return failed, err
	})
	t.noteLoss(err)
	return err
}

// withoutShut makes blackholes of the routes that are shut.
func (t *Tables) withoutShut(ops []Op) []Op {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.shut) == 0 {
		return ops
	}
	cloned := false
	for i, op := range ops {
		r, isRoute := op.Object.(Route)
		if !isRoute || op.Verb == Delete || t.shut[r.Key()] == 0 {
			continue
		}
		if !cloned {
			ops, cloned = slices.Clone(ops), true
		}
		ops[i] = r.Drop()
	}
	return ops
}

// noteLoss remembers that an answer of the kernel was lost.
func (t *Tables) noteLoss(err error) {
	var failed *ApplyError
	if errors.As(err, &failed) && failed.Lost != nil {
		t.mu.Lock()
		t.stale = true
		t.mu.Unlock()
	}
}

func (t *Tables) record(ops []Op, failed []Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	refused := 0
	for _, op := range ops {
		if refused < len(failed) && failed[refused].Op == op {
			refused++ // failures come in the order of their operations
			continue
		}
		t.held.record(op)
	}
}

func (t *Tables) reload(ctx context.Context) error {
	state, err := t.applier.Read(ctx)
	if err != nil {
		return err
	}
	t.held = newIndex()
	t.held.load(state)
	t.stale = false
	return nil
}

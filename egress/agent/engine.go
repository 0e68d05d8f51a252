package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/fib"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
)

// Options of an agent.
type Options struct {
	// Version is returned by the API.
	Version string
	// Log is slog.Default() when nil.
	Log *slog.Logger
	// DryRun, when set, gets the commands that would be executed and the routes that
	// would be announced; nothing is. The agent then speaks BGP to learn, and
	// ends when all neighbours have sent everything, or after bgp.stale_time.
	DryRun io.Writer
	// Source is what the configuration was read from; nil: it cannot be read again.
	Source *config.Source
	// HangUps has a signal whenever the configuration is to be read again.
	HangUps <-chan os.Signal
	// Level is that of Log, which a reload may change; nil: it stays.
	Level *slog.LevelVar
}

// tables has the methods that an agent needs of [kernel.Tables].
type tables interface {
	Apply(context.Context, kernel.Change) error
	Drop(context.Context, kernel.Route) error
	Shut(context.Context, kernel.Route) error
	Release(kernel.Route)
	Reset(context.Context, kernel.State) error
	Restore(context.Context, kernel.Loss) (kernel.State, error)
	Snapshot() kernel.State
}

// role has the parts that differ between a border and a server. All but work are called with
// the engine's mutex held.
type role interface {
	// handle takes an event of BGP.
	handle(speaker.Event)
	// expire ends the patience with the state of a former run.
	expire()
	// names are the parts that are planned and can fail on their own.
	names() []string
	pending(name string) bool
	// want is all that the kernel shall hold.
	want() kernel.State
	// fail takes a part out of use, retry into use again.
	fail(name string, err error)
	retry(name string)
	// link says that a device went up or down.
	link(kernel.Link)
	// uses reports whether something of ours in the kernel hangs on a device, and the
	// parts that it can take out of use.
	uses(device string) (parts []string, used bool)
	// mainChanged takes changes of the main table; many: more than the prefixes.
	mainChanged(prefixes []netip.Prefix, many bool)
	// watched are neighbours whose link-layer addresses setNeighbours wants.
	watched() []kernel.MainHop
	setNeighbours(map[kernel.MainHop]string)
	// drain begins or ends a drain.
	drain(name string, drain bool) error
	paths() []api.Path
	lookup(client netip.Prefix) api.Lookup
	routes(api.Session) api.Routes
	// imports fills in what the import policy makes of an egress peer's routes.
	imports(*api.Session)
	// caches are the states of the RPKI caches.
	rpkiCaches() []api.RPKICache
	// routers are those that hand on routes of peers.
	routers() []api.Router
	problems() []string

	// work does the next steps of one part.
	work(ctx context.Context, name string) error
	// pathsChanged is called by the loop after the state of a path has changed.
	pathsChanged()
}

// batchSize bounds the prefixes that are planned at once.
const batchSize = 1024

// engine is the loop with its state.
type engine struct {
	common   *config.Common
	roleName config.Role
	opts     Options
	log      *slog.Logger
	tables   tables
	bgp      bgp
	role     role
	hub      api.Hub
	features kernel.Features
	// main mirrors the main table, which plain packets follow.
	main    *fib.Table
	started time.Time
	// life ends with the agent.
	life context.Context

	// leave restores settings from before the agent that are not ours to remove.
	leave func(context.Context) error

	calls chan func(context.Context) // with the loop's context
	links chan kernel.Link
	// losses are removals by others; reading: the loop is about to read all again.
	losses  chan kernel.Loss
	reading bool

	// changing is held while settings are saved, then put into force.
	changing sync.Mutex
	save     func(api.Settings) error

	// mu guards the planner, which only the loop changes, and all below.
	mu       sync.Mutex
	sessions *sessions
	settings api.Settings
	since    map[string]time.Time // of the state of paths
	shown    map[string]api.Path  // the paths as watchers know them
	failed   map[string]failure
	troubles map[string]string // problems that were logged, by their text without counts
	ready    bool
	counts   counts
}

// failure is when to try again with a part that the kernel refused.
type failure struct {
	wait time.Duration
	last time.Time
}

const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// healthy is how long after a failure the next one begins with firstRetry.
	healthy = 5 * time.Minute
)

// loop works until ctx ends or BGP does. In a dry run it ends when all is known.
func (e *engine) loop(ctx context.Context) error {
	patience := time.NewTimer(e.common.BGP.StaleTime)
	defer patience.Stop()
	announced := false // all that neighbours had when they came up
	e.show()
	for {
		if err := e.next(ctx, patience.C); err != nil {
			if errors.Is(err, errDone) {
				return nil
			}
			return err
		}
		e.gather()
		for _, name := range e.role.names() {
			e.step(ctx, name)
		}
		e.show()
		if announced || e.busy() || !e.complete() {
			continue
		}
		if e.opts.DryRun != nil {
			return nil
		}
		announced = true
		e.bgp.AnnouncedAll()
	}
}

// errDone ends the loop.
var errDone = errors.New("done")

// next takes the first event, and waits for it unless there is work to do.
func (e *engine) next(ctx context.Context, patience <-chan time.Time) error {
	var idle chan struct{}
	if e.busy() {
		idle = make(chan struct{})
		close(idle)
	}
	select {
	case <-ctx.Done():
		return errDone
	case event, ok := <-e.bgp.Events():
		switch {
		case ok:
			e.take(event)
		case ctx.Err() != nil: // BGP ends with ctx
			return errDone
		default:
			return errors.New("the BGP speaker has ended")
		}
	case call := <-e.calls:
		call(ctx)
	case link := <-e.links:
		e.linkChanged(ctx, link)
	case loss := <-e.losses:
		e.restore(ctx, loss)
	case <-patience:
		e.locked(e.role.expire)
		if e.opts.DryRun != nil {
			return errDone
		}
	case <-idle:
	}
	return nil
}

// gather takes all waiting events, which costs less together.
func (e *engine) gather() {
	for range 64 {
		select {
		case event, ok := <-e.bgp.Events():
			if !ok {
				return
			}
			e.take(event)
		default:
			return
		}
	}
}

func (e *engine) take(event speaker.Event) {
	e.locked(func() {
		e.sessions.handle(event, time.Now())
		e.role.handle(event)
	})
	switch event := event.(type) {
	case speaker.PeerUp:
		e.log.Info("session is up", "session", event.Peer, "address", event.Address, "asn", event.AS)
	case speaker.PeerDown:
		e.log.Warn("session is down", "session", event.Peer, "cause", event.Cause, "reason", event.Reason)
	case speaker.EndOfRIB:
		e.log.Info("neighbour has sent everything", "session", event.Peer, "family", event.Family, "implied", event.Implied)
	}
}

func (e *engine) locked(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

func (e *engine) busy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range e.role.names() {
		if e.role.pending(name) {
			return true
		}
	}
	return false
}

func (e *engine) complete() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sessions.complete()
}

// step does some work for a part, and takes it out of use for a while if it fails.
func (e *engine) step(ctx context.Context, name string) {
	var pending bool
	e.locked(func() { pending = e.role.pending(name) })
	if !pending {
		return
	}
	err := e.role.work(ctx, name)
	if err == nil || ctx.Err() != nil {
		return
	}
	e.log.Error("out of use for now", "path", name, "error", err)
	e.locked(func() {
		e.role.fail(name, err)
		f, now := e.failed[name], time.Now()
		if now.Sub(f.last) > healthy {
			f.wait = 0
		}
		f.wait, f.last = min(max(2*f.wait, firstRetry), lastRetry), now
		e.failed[name] = f
		time.AfterFunc(f.wait, func() { e.post(ctx, func(ctx context.Context) { e.again(ctx, name) }) })
	})
}

// again repairs the kernel's state and takes a part into use that had failed.
func (e *engine) again(ctx context.Context, name string) {
	if err := e.repair(ctx); err != nil {
		e.log.Error("repairing the kernel's state", "error", err)
	}
	e.locked(func() { e.role.retry(name) })
}

// repair makes the kernel's state as planned.
func (e *engine) repair(ctx context.Context) error {
	var want kernel.State
	e.locked(func() { want = e.role.want() })
	return e.tables.Reset(ctx, want)
}

// post gives the loop a function to call, with the loop's context. Steps taken from the
// planner count as done, so the call must not end with the request that it is for. It waits
// until ctx ends, and reports whether the loop has taken it.
func (e *engine) post(ctx context.Context, f func(context.Context)) bool {
	select {
	case e.calls <- f:
		return true
	case <-ctx.Done():
		return false
	}
}

// errNotTaken is the error of a request that the loop has not begun with.
var errNotTaken = errors.New("waiting for the agent")

// do runs f in the loop and returns its error when it is done, and all that follows
// from it in the kernel.
func (e *engine) do(ctx context.Context, f func() error) error {
	result := make(chan error, 1)
	ok := e.post(ctx, func(loop context.Context) {
		err := f()
		for err == nil && e.busy() && ctx.Err() == nil && loop.Err() == nil {
			for _, name := range e.role.names() {
				e.step(loop, name)
			}
		}
		result <- err
	})
	if !ok {
		return fmt.Errorf("%w: %w", errNotTaken, ctx.Err())
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the agent: %w", ctx.Err())
	}
}

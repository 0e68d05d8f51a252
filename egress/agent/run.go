package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
)

// starter is what a role does on its way up.
type starter interface {
	role
	// prepare makes devices and sysctls fit, and checks features.
	prepare(*host) error
	// load makes a planner that goes on from what is in the kernel.
	load(have kernel.State, h *host)
	// speak starts BGP; restarting tells that a former run left something.
	speak(ctx context.Context, restarting bool) (bgp, error)
	// stop ends what speak started besides BGP.
	stop() error
}

func newEngine(c *config.Common, name config.Role, opts Options, r role) *engine {
	log := opts.Log
	if log == nil {
		log = slog.Default()
	}
	now := time.Now()
	return &engine{
		common: c, roleName: name, opts: opts, log: log, role: r, started: now,
		calls: make(chan func(context.Context)), links: make(chan kernel.Link), losses: make(chan kernel.Loss),
		sessions: newSessions(c, now), since: make(map[string]time.Time),
		shown: make(map[string]api.Path), failed: make(map[string]failure),
	}
}

// run is an agent's life.
func (e *engine) run(ctx context.Context, s starter) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listening, err := e.listen()
	if err != nil {
		return err
	}
	defer listening.close()
	if e.features, err = kernel.Probe(ctx); err != nil {
		return err
	}
	applier, err := kernel.Open(kernel.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, applier.Close()) }()
	devices, err := openDevices()
	if err != nil {
		return err
	}
	defer devices.close()
	lossesWatched := e.watchLosses(ctx, applier)
	defer func() { cancel(); <-lossesWatched }()
	h := &host{ctx: ctx, applier: applier, devices: devices, dry: e.opts.DryRun, made: make(map[string]bool)}
	if err := e.setUp(ctx, s, h); err != nil {
		return err
	}
	watched := e.watchLinks(ctx, applier)
	defer func() { cancel(); <-watched }()
	e.serve(ctx, listening)
	err = e.loop(ctx)
	e.hangUp()
	// ctx has ended, but what is ours must go.
	return errors.Join(err, s.stop(), e.tearDown(context.WithoutCancel(ctx), devices))
}

// hangUp ends the BGP sessions. Events that nobody reads any more must not hold that up.
func (e *engine) hangUp() {
	go func() {
		for range e.bgp.Events() {
		}
	}()
	e.bgp.Close()
}

// listeners are what the agent is asked on; nil for what is not asked.
type listeners struct {
	api, metrics net.Listener
}

func (l listeners) close() {
	for _, listener := range []net.Listener{l.api, l.metrics} {
		if listener != nil {
			listener.Close()
		}
	}
}

// listen opens the API's socket and the metrics' port. They come first: another agent that runs already
// must be found out before its state is touched.
func (e *engine) listen() (listeners, error) {
	settings, err := api.LoadSettings(e.common.State.Dir)
	if err != nil {
		return listeners{}, err
	}
	e.settings = settings
	if e.opts.DryRun != nil {
		return listeners{}, nil
	}
	a := e.common.API
	var l listeners
	if l.api, err = (api.Socket{Path: a.Socket, Mode: a.Mode, Group: a.Group}).Listen(); err != nil {
		return listeners{}, err
	}
	if a.Metrics.IsValid() {
		if l.metrics, err = net.Listen("tcp", a.Metrics.String()); err != nil {
			l.close()
			return listeners{}, fmt.Errorf("listening for metrics (api.metrics): %w", err)
		}
	}
	return l, nil
}

// setUp brings the kernel to where a former run was, and starts BGP.
func (e *engine) setUp(ctx context.Context, s starter, h *host) error {
	if err := s.prepare(h); err != nil {
		return err
	}
	if e.opts.DryRun == nil {
		if err := h.devices.remove(h.made); err != nil {
			return err
		}
		loaded, err := kernel.LoadTables(ctx, h.applier)
		if err != nil {
			return err
		}
		e.tables = loaded
	} else {
		have, err := h.applier.Read(ctx)
		if err != nil {
			return err
		}
		e.tables = &printer{applier: h.applier, out: e.opts.DryRun, have: have}
	}
	have := e.tables.Snapshot()
	s.load(have, h)
	for name := range e.settings.Drains {
		if err := s.drain(name, true); err != nil {
			e.log.Warn("a drain is for nothing that is configured", "path", name)
		}
	}
	if err := e.tables.Reset(ctx, s.want()); err != nil {
		return fmt.Errorf("bringing the kernel to its state at the start: %w", err)
	}
	var err error
	e.bgp, err = s.speak(ctx, len(have.Routes) > 0)
	return err
}

// tearDown removes everything of ours.
func (e *engine) tearDown(ctx context.Context, d *devices) error {
	if e.opts.DryRun != nil {
		return nil
	}
	err := e.tables.Reset(ctx, kernel.State{})
	if err != nil {
		err = fmt.Errorf("removing what is ours from the kernel: %w", err)
	}
	return errors.Join(err, d.remove(nil))
}

// watchLinks tells the loop of devices that went down or came up, until ctx ends; it
// returns a channel that is closed then.
func (e *engine) watchLinks(ctx context.Context, applier *kernel.Applier) <-chan struct{} {
	done := make(chan struct{})
	states := make(linkStates)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			err := applier.WatchLinks(ctx, func(link kernel.Link) {
				if !states.take(link) {
					return
				}
				select {
				case e.links <- link:
				case <-ctx.Done():
				}
			})
			if ctx.Err() == nil {
				e.log.Warn("devices are watched anew soon", "error", err)
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
		}
	}()
	return done
}

// linkChanged takes what depends on a device out of use, or repairs it. Devices that
// nothing depends on may come and go often, and a repair reads all tables.
func (e *engine) linkChanged(ctx context.Context, link kernel.Link) {
	e.log.Debug("device has changed", "device", link.Device, "up", link.Up)
	var parts []string
	var used bool
	e.locked(func() {
		e.role.link(link)
		parts, used = e.role.uses(link.Device)
	})
	if !link.Up || !used {
		return
	}
	if err := e.repair(ctx); err != nil {
		e.log.Error("repairing the kernel's state after a device came up", "device", link.Device, "error", err)
	}
	e.locked(func() {
		for _, name := range parts {
			e.role.retry(name)
		}
	})
}

// serve answers who asks until ctx ends.
func (e *engine) serve(ctx context.Context, l listeners) {
	metrics := e.metrics()
	if l.api != nil {
		server := api.NewServer(backend{e}, &e.hub, api.Options{Log: e.log, Metrics: metrics})
		go func() {
			if err := server.Serve(ctx, l.api); err != nil {
				e.log.Error("serving the API", "error", err)
			}
		}()
	}
	if l.metrics != nil {
		serveMetrics(ctx, l.metrics, metrics, e.log)
	}
}

// serveMetrics answers /metrics alone on an address of its own, until ctx ends.
func serveMetrics(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serving metrics", "error", err)
		}
	}()
}

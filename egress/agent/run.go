package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/fib"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
)

// starter has the steps of a role on its way up.
type starter interface {
	role
	// addresses are those that the role puts on interfaces.
	addresses() []netip.Addr
	// file is the role's configuration.
	present() *config.File
	// check finds out whether the agent can run here, and changes nothing.
	check(*host) error
	// prepare makes devices and sysctls fit.
	prepare(*host) error
	// load makes a planner that continues from the kernel's state.
	load(have kernel.State, h *host) error
	// speak starts BGP; restarting: a former run left something.
	speak(ctx context.Context, restarting bool) (bgp, error)
	// stop ends the parts that speak started besides BGP.
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
		main: fib.New(), shown: make(map[string]api.Path), failed: make(map[string]failure),
		troubles: make(map[string]string),
		save:     func(settings api.Settings) error { return settings.Save(c.State.Dir) },
	}
}

// run is an agent's life.
func (e *engine) run(ctx context.Context, s starter) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.life = ctx
	listening, err := e.listen()
	if err != nil {
		return err
	}
	defer listening.close()
	if err := tryBGP(e.common.BGP); err != nil {
		return err
	}
	if e.features, err = kernel.Probe(ctx); err != nil {
		return err
	}
	applier, err := kernel.Open(kernel.Options{Addresses: unmarked(e.features, s)})
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
	if err := s.check(h); err != nil {
		return err
	}
	e.preflight(ctx, s.present())
	if err := e.start(ctx, s, h); err != nil {
		return err
	}
	watched := e.watchLinks(ctx, applier)
	defer func() { cancel(); <-watched }()
	followed := e.followMain(ctx, applier)
	defer func() { cancel(); <-followed }()
	e.serve(ctx, listening)
	if e.opts.HangUps != nil {
		go e.watchHangUps(ctx, e.opts.HangUps)
	}
	err = e.loop(ctx)
	e.hangUp()
	// ctx has ended, but our state must go.
	return errors.Join(err, s.stop(), e.tearDown(context.WithoutCancel(ctx), devices))
}

// unmarked are the addresses that are ours without the kernel saying so: where it keeps no
// mark of them, the configuration alone identifies them. Else addresses that we have added
// would count as somebody else's at the next comparison.
func unmarked(f kernel.Features, s starter) []netip.Addr {
	if f.AddressProtocol {
		return nil
	}
	return s.addresses()
}

// hangUp ends the BGP sessions. Events that nobody reads any more must not hold that up.
func (e *engine) hangUp() {
	go discard(e.bgp.Events())
	e.bgp.Close()
}

func discard(events <-chan speaker.Event) {
	for range events {
	}
}

// start brings the kernel to where a former run was, and starts BGP. Where that fails,
// the kernel is left as it was found: nothing of ours after a stop, and after a crash
// what packets still use. A start that is cancelled is a stop.
func (e *engine) start(ctx context.Context, s starter, h *host) error {
	found, err := h.devices.own()
	if err != nil {
		return err
	}
	have, err := e.setUp(ctx, s, h)
	if err == nil || e.opts.DryRun != nil {
		return err
	}
	undo := context.WithoutCancel(ctx)
	if ctx.Err() != nil && e.tables != nil {
		return errors.Join(err, e.tearDown(undo, h.devices))
	}
	var undone error
	if e.tables != nil {
		undone = errors.Join(e.tables.Reset(undo, have), h.restoreSource(undo, have.TunnelSource))
	}
	if undone = errors.Join(undone, h.devices.remove(found)); undone != nil {
		err = errors.Join(err, fmt.Errorf("leaving the kernel as it was: %w", undone))
	}
	return err
}

// setUp is start without the steps that follow a failure. It returns our former state.
func (e *engine) setUp(ctx context.Context, s starter, h *host) (have kernel.State, err error) {
	if err := s.prepare(h); err != nil {
		return have, err
	}
	if e.opts.DryRun == nil {
		if err := h.devices.remove(h.made); err != nil {
			return have, err
		}
		loaded, err := kernel.LoadTables(ctx, h.applier)
		if err != nil {
			return have, err
		}
		have = loaded.Snapshot()
		e.tables = loaded
	} else {
		if have, err = h.applier.Read(ctx); err != nil {
			return have, err
		}
		e.tables = &printer{applier: h.applier, out: e.opts.DryRun, have: have}
	}
	if err := s.load(have, h); err != nil {
		return have, err
	}
	for name := range e.settings.Drains {
		if err := s.drain(name, true); err != nil {
			e.log.Warn("a drain is for nothing that is configured", "path", name)
		}
	}
	if err := e.tables.Reset(ctx, s.want()); err != nil {
		return have, fmt.Errorf("bringing the kernel to its state at the start: %w", err)
	}
	e.bgp, err = s.speak(ctx, len(have.Routes) > 0)
	return have, err
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
	if e.leave != nil {
		err = errors.Join(err, e.leave(ctx))
	}
	return errors.Join(err, d.remove(nil))
}

// watchLinks notifies the loop of devices that went down or came up, until ctx ends. It
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

// linkChanged takes the objects that depend on a device out of use, or repairs it. Devices that
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

// serve answers requests until ctx ends.
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

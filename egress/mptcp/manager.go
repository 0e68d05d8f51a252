package mptcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ErrUnknownConnection: no MPTCP connection with that token is known.
var ErrUnknownConnection = errors.New("no such MPTCP connection")

// Config has the settings that a Manager starts with.
type Config struct {
	// Policy decides; nil makes every connection plain.
	Policy *Policy
	Paths  []Path
	Bounds Bounds
	// Router answers which paths reach a client; nil means that all reach
	// everybody and that none is BGP's best.
	Router Router
	// Logger is slog.Default() when nil.
	Logger *slog.Logger
	// OnEvent and OnCommand, when set, see all incoming events and all outgoing commands,
	// in order. They are called with the Manager locked: they must be quick and must not
	// call it.
	OnEvent   func(Event)
	OnCommand func(Command, error)
}

// Manager keeps the MPTCP connections of one network namespace as the policy
// wants them. Its methods are safe for concurrent use; those which change
// something return when the commands have been executed, but for Reconsider.
//
// It survives its restart: [Start] reads connections, subflows and
// announcements back from the kernel. Hints for existing
// connections are lost, see [Connection.Adopted], and so is when they began.
type Manager struct {
	cfg    Config
	log    *slog.Logger
	open   func() (eventSource, commander, error)
	source eventSource

	mu sync.Mutex
	// kernel is nil while the Manager has lost it, see [Manager.Problems].
	kernel commander
	policy *Policy
	paths  []Path
	ids    map[netip.Addr]uint8
	conns  *connections
	// Hints for connections that are not known yet.
	byToken   hints[Token]
	byAddress hints[tuple]
	// undecodable: there were events that are not understood, which is logged once.
	undecodable bool
	// failureLogged is when a failure was logged last; unlogged were not since.
	failureLogged time.Time
	unlogged      int
	// pending are the connections of which something is due later, the first at
	// nextDue; zero: none. They were looked at last at retried.
	pending map[Token]struct{}
	nextDue time.Time
	retried time.Time
	wake    chan struct{}
	again   reconsidering

	troubles troubles
}

// eventSource is a [Listener], or a fake.
type eventSource interface {
	Receive(context.Context) ([]Event, error)
	Close() error
}

// commander is the kernel, or a fake.
type commander interface {
	Do(Command) error
	Announced(Token) ([]Announcement, error)
	Connections() ([]Connection, error)
	Close() error
}

// Start subscribes to the events of the calling thread's network namespace, reads their
// state and brings it to the one that the policy wants. Call [Manager.Run] next. The
// namespace must have the user-space path manager, see [Settings]. It needs CAP_NET_ADMIN.
func Start(cfg Config) (*Manager, error) {
	settings, err := ReadSettings()
	if err != nil {
		return nil, fmt.Errorf("starting the MPTCP manager: %w", err)
	}
	if settings.PathManager != UserSpace {
		return nil, fmt.Errorf("starting the MPTCP manager: net.mptcp.pm_type is %d; set it to %d first",
			settings.PathManager, UserSpace)
	}
	return start(cfg)
}

// TakeBack takes back the announcements of a Manager that was killed, and closes the
// subflows that came of them. It is for cases in which no other Manager is to follow. It
// works in the calling thread's network namespace, whatever path manager new connections
// there have.
func TakeBack(log *slog.Logger) error {
	m, err := start(Config{Logger: log})
	if err != nil {
		return fmt.Errorf("taking back announced addresses: %w", err)
	}
	return m.close()
}

func start(cfg Config) (*Manager, error) {
	home, err := namespaceOfThread()
	if err != nil {
		return nil, fmt.Errorf("starting the MPTCP manager: %w", err)
	}
	source, kernel, err := openKernel(home)
	if err != nil {
		return nil, fmt.Errorf("starting the MPTCP manager: %w", err)
	}
	m, err := newManager(cfg, source, kernel)
	if err != nil {
		return nil, fmt.Errorf("starting the MPTCP manager: %w", errors.Join(err, m.close()))
	}
	m.open = func() (eventSource, commander, error) { return openKernel(home) }
	return m, nil
}

func newManager(cfg Config, source eventSource, kernel commander) (*Manager, error) {
	m := &Manager{
		cfg: cfg, log: cfg.Logger, source: source, kernel: kernel,
		policy: cfg.Policy, conns: newConnections(),
		ids:     make(map[netip.Addr]uint8),
		pending: make(map[Token]struct{}), wake: make(chan struct{}, 1),
	}
	if m.log == nil {
		m.log = slog.Default()
	}
	if err := m.number(cfg.Paths); err != nil {
		return m, err
	}
	m.paths = slices.Clone(cfg.Paths)
	return m, m.resync()
}

func (m *Manager) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kernel == nil {
		return nil
	}
	err := errors.Join(m.source.Close(), m.kernel.Close())
	m.kernel = nil
	return err
}

// number gives each EPE address an address ID that it keeps as long as the
// Manager runs. IDs need only be unique within a connection; the same ones
// everywhere are easier to read in logs.
func (m *Manager) number(paths []Path) error {
	for _, path := range paths {
		for _, addr := range path.Addresses {
			if m.ids[addr] != 0 {
				continue
			}
			if len(m.ids) == 255 {
				return fmt.Errorf("path %q: no address ID is left for %s; restart to free those of removed paths", path.Name, addr)
			}
			m.ids[addr] = uint8(len(m.ids) + 1)
		}
	}
	return nil
}

// Run follows the kernel until the context ends. The end leaves connections as they are and
// is no error. When it loses the kernel, as by an error of its sockets, it opens them anew
// until that succeeds. It returns [ErrLost] when the context ends before that. The Manager
// cannot be used afterwards.
func (m *Manager) Run(ctx context.Context) error {
	wait := reopenFirst
	for {
		began := time.Now()
		cause := m.follow(ctx)
		if ctx.Err() != nil {
			return m.close()
		}
		if time.Since(began) >= reopenForget {
			wait = reopenFirst
		}
		m.lose(cause)
		for lost := true; lost; lost = !m.reopen() {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%w: %w", ErrLost, cause)
			case <-time.After(wait):
			}
			wait = min(2*wait, reopenLast)
		}
	}
}

// follow does so as long as it can, and says why it cannot any more.
func (m *Manager) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	received := make(chan batch)
	var receiver sync.WaitGroup
	receiver.Go(func() { m.receive(ctx, received) })
	err := m.loop(ctx, received)
	cancel()
	receiver.Wait()
	return err
}

type batch struct {
	events []Event
	err    error
}

func (m *Manager) receive(ctx context.Context, received chan<- batch) {
	for {
		events, err := m.source.Receive(ctx)
		select {
		case received <- batch{events, err}:
		case <-ctx.Done():
			return
		}
	}
}

func (m *Manager) loop(ctx context.Context, received <-chan batch) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(m.untilDue())
		select {
		case <-ctx.Done():
			return nil
		case b := <-received:
			if err := m.handle(b); err != nil {
				return err
			}
		case <-timer.C:
			m.retry(time.Now())
		case <-m.wake:
		}
		m.reconsider()
	}
}

func (m *Manager) handle(b batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, e := range b.events {
		m.onEvent(e, now)
	}
	switch {
	case errors.Is(b.err, ErrOverrun):
		m.log.Warn("reading MPTCP connections anew", "cause", b.err)
		return m.resync()
	case errors.Is(b.err, ErrUndecodable):
		// Each connection may have such an event, and the others say enough to go on.
		if !m.undecodable {
			m.log.Warn("MPTCP events are left out", "cause", b.err)
		}
		m.undecodable = true
		return nil
	}
	return b.err
}

func (m *Manager) onEvent(e Event, now time.Time) {
	if m.cfg.OnEvent != nil {
		m.cfg.OnEvent(e)
	}
	if m.refuses(e) {
		return
	}
	c, closed := m.conns.apply(e, now)
	if closed {
		m.troubles.room(len(m.conns.byToken))
	}
	if c == nil || closed {
		return
	}
	switch e.Kind {
	case EventSubClosed:
		// Most often the connection is closing, and its end follows.
		c.commands.soon(now)
		m.noteDue(c)
		return
	case EventCreated, EventEstablished:
		m.takeHint(c, now)
	}
	m.settle(c, now)
}

// refuses reports whether an event is the beginning of a connection beyond the bound.
func (m *Manager) refuses(e Event) bool {
	begins := e.Kind == EventCreated || e.Kind == EventEstablished
	bound := m.cfg.Bounds.Connections
	if !begins || bound == 0 || len(m.conns.byToken) < bound || m.conns.byToken[e.Token] != nil {
		return false
	}
	if e.Kind == EventCreated { // the other one follows it
		m.refused(1)
	}
	return true
}

func (m *Manager) refused(connections int) {
	bound := m.cfg.Bounds.Connections
	if m.troubles.refuse(bound, connections) {
		m.log.Warn("further MPTCP connections keep their first subflow alone", "managed", bound)
	}
}

// Update replaces policy and paths and brings all connections to them. It refuses
// paths that bring the EPE addresses ever given to more than 255.
func (m *Manager) Update(p *Policy, paths []Path) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.update(p, paths)
}

// SetPaths is [Manager.Update] with the policy that there is.
func (m *Manager) SetPaths(paths []Path) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.update(m.policy, paths)
}

func (m *Manager) update(p *Policy, paths []Path) error {
	if err := m.number(paths); err != nil {
		return err
	}
	m.policy, m.paths = p, slices.Clone(paths)
	m.settleAll(nil)
	return nil
}

// Connections returns a copy of all connections, oldest first.
func (m *Manager) Connections() []Connection {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Connection, 0, len(m.conns.byToken))
	for _, c := range m.conns.byToken {
		all = append(all, c.clone())
	}
	slices.SortFunc(all, func(a, b Connection) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Token, b.Token))
	})
	return all
}

// Explain returns the decision for a connection, and its reason.
func (m *Manager) Explain(token Token) (Decision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.conns.byToken[token]
	if c == nil {
		return Decision{}, fmt.Errorf("explaining connection %s: %w", token, ErrUnknownConnection)
	}
	return m.decide(c, m.routes(c.Client())), nil
}

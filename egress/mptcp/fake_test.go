package mptcp

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
)

// fakeKernel is a kernel whose answers the test sets; it records commands.
type fakeKernel struct {
	events      chan batch
	connections []Connection
	announced   map[Token][]Announcement
	announceErr error

	mu       sync.Mutex
	refusal  error // the answer to every command
	unread   error // why connections cannot be read
	closed   error // why it cannot be opened
	opened   int
	commands []string
}

func newFakeKernel() *fakeKernel { return &fakeKernel{events: make(chan batch, 16)} }

func (k *fakeKernel) Receive(ctx context.Context) ([]Event, error) {
	select {
	case b := <-k.events:
		return b.events, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (k *fakeKernel) Do(c Command) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.commands = append(k.commands, c.String())
	return k.refusal
}

// refuse makes every command fail from now on, with nil none.
func (k *fakeKernel) refuse(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refusal = err
}

func (k *fakeKernel) Announced(t Token) ([]Announcement, error) { return k.announced[t], k.announceErr }
func (k *fakeKernel) Close() error                              { return nil }

func (k *fakeKernel) Connections() ([]Connection, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.connections), k.unread
}

func (k *fakeKernel) open() (eventSource, commander, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.opened++
	return k, k, k.closed
}

// fail makes opening and reading fail from now on, with nil no more.
func (k *fakeKernel) fail(opening, reading error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed, k.unread = opening, reading
}

// SetPolicy replaces the policy alone.
func (m *Manager) SetPolicy(p *Policy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.update(p, m.paths); err != nil {
		panic(err) // the paths were taken before
	}
}

// took returns the commands since the last call.
func (k *fakeKernel) took() []string {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	commands := k.commands
	k.commands = nil
	return commands
}

func (k *fakeKernel) happen(events ...Event) {
	k.events <- batch{events: events}
	synctest.Wait()
}

// run starts a Manager over the fake inside a synctest bubble.
func (k *fakeKernel) run(t *testing.T, cfg Config) *Manager {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	m, err := newManager(cfg, k, k)
	must(t, err)
	m.open = k.open
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	return m
}

func aggregatedConfig(t *testing.T) Config {
	return Config{Policy: policy(t, Rule{Name: "all", Mode: Aggregated}), Paths: labPaths(PathUp, PathUp), Router: bestA}
}

var (
	serverAddr = netip.MustParseAddrPort("[2001:db8:5::1]:443")
	clientAddr = netip.MustParseAddrPort("[2001:db8:1::1]:40000")
	created    = Event{Kind: EventCreated, Token: 1, Local: serverAddr, Remote: clientAddr, ServerSide: true}
	settled    = Event{Kind: EventEstablished, Token: 1, Local: serverAddr, Remote: clientAddr, ServerSide: true}
	joinB      = Event{Kind: EventSubEstablished, Token: 1, LocalID: 3,
		Local: netip.AddrPortFrom(epeB, 443), Remote: netip.MustParseAddrPort("[2001:db8:1::1]:40001")}
	lostInitial = Event{Kind: EventSubClosed, Token: 1, Local: serverAddr, Remote: clientAddr}
	lostB       = Event{Kind: EventSubClosed, Token: 1, LocalID: 3, Local: joinB.Local, Remote: joinB.Remote, Error: syscall.ECONNRESET}
)

const announceB = "announce 2001:db8:5::b id 3 token 00000001"

func expect(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: commands %q, want %q", when, got, want)
	}
}

type mutableRouter struct{ now Routes }

func (r *mutableRouter) Routes(netip.Addr) Routes { return r.now }

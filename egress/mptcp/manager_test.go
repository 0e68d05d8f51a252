package mptcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
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

func TestManagerRenewsALostSubflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		m := k.run(t, aggregatedConfig(t))
		k.happen(created)
		expect(t, "before the client can join", k.took())
		k.happen(settled)
		expect(t, "established", k.took(), announceB)
		k.happen(joinB)
		expect(t, "joined", k.took())

		var waits []time.Duration
		for range retryAttempts {
			k.happen(lostB)
			start := time.Now()
			var commands []string
			for len(commands) == 0 && time.Since(start) < time.Minute {
				time.Sleep(100 * time.Millisecond)
				commands = k.took()
			}
			waits = append(waits, time.Since(start))
			expect(t, "lost", commands, "remove id 3 token 00000001", announceB)
			k.happen(joinB)
		}
		if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}; !slices.Equal(waits, want) {
			t.Errorf("renewed after %v, want %v", waits, want)
		}
		k.happen(lostB)
		time.Sleep(time.Hour)
		expect(t, "lost too often", k.took())

		must(t, m.SetPaths(labPaths(PathUp, PathDown)))
		must(t, m.SetPaths(labPaths(PathUp, PathUp)))
		expect(t, "the path came back", k.took(), "remove id 3 token 00000001", announceB)
		k.happen(joinB)
		time.Sleep(retryForget)
		k.happen(lostB)
		time.Sleep(retryFirst)
		expect(t, "lost after a sound life", k.took(), "remove id 3 token 00000001", announceB)
	})
}

func TestManagerDoesNotRenew(t *testing.T) {
	prohibited, later := lostB, joinB
	prohibited.ResetReason = resetProhibited
	later.Remote = netip.MustParseAddrPort("[2001:db8:1::2]:40002")
	cases := []struct {
		name   string
		events []Event
	}{
		{"a subflow which the client prohibits", []Event{joinB, prohibited}},
		{"while another subflow to the address remains", []Event{joinB, later, lostB}},
		{"when the client came back by itself", []Event{joinB, lostB, later}},
		{"a connection which closed", []Event{joinB, lostB, {Kind: EventClosed, Token: 1}}},
		{"a connection which closes subflow by subflow", []Event{joinB, lostInitial, lostB, {Kind: EventClosed, Token: 1}}},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			k := newFakeKernel()
			k.run(t, aggregatedConfig(t))
			k.happen(created, settled)
			k.took()
			k.happen(c.events...)
			time.Sleep(time.Hour)
			expect(t, c.name, k.took())
		})
	}
}

// The initial subflow took the best path; without it that path is open to the
// path's own address.
func TestManagerReplacesALostInitialSubflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		k.run(t, aggregatedConfig(t))
		k.happen(created, settled, joinB)
		k.took()
		k.happen(lostInitial)
		expect(t, "at once", k.took())
		time.Sleep(retryFirst)
		expect(t, "when the connection goes on", k.took(), "announce 2001:db8:5::a id 1 token 00000001")
	})
}

func TestManagerRetriesAFailedCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		k.refuse(syscall.ENOMEM)
		k.run(t, aggregatedConfig(t))
		k.happen(created, settled)
		expect(t, "at once", k.took(), announceB)
		time.Sleep(retryFirst)
		expect(t, "after a second", k.took(), announceB)
		k.refuse(nil)
		time.Sleep(2 * retryFirst)
		expect(t, "after two more", k.took(), announceB)
		time.Sleep(time.Hour)
		expect(t, "after success", k.took())
	})
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		k.refuse(syscall.ENOMEM)
		k.run(t, aggregatedConfig(t))
		k.happen(created, settled)
		time.Sleep(time.Hour)
		if n := len(k.took()); n != 1+retryAttempts {
			t.Errorf("a command that always fails was tried %d times, want %d", n, 1+retryAttempts)
		}
	})
}

func TestFailuresDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		k.refuse(syscall.ENOMEM)
		var log strings.Builder
		m, err := newManager(aggregatedConfig(t), k, k)
		must(t, err)
		m.log = slog.New(slog.NewTextHandler(&log, nil))
		fail := func(connections int) {
			for n := range connections {
				e := settled
				e.Token, e.Remote = Token(n+1), netip.AddrPortFrom(clientAddr.Addr(), uint16(n+1))
				m.onEvent(e, time.Now())
			}
		}
		fail(1000)
		time.Sleep(time.Second)
		fail(1)
		if lines := strings.Count(log.String(), "\n"); lines != 2 || !strings.Contains(log.String(), "unlogged=999") {
			t.Errorf("%d lines for 1001 failures, want 2 and how many there were:\n%.500s", lines, log.String())
		}
	})
}

func TestManagerReadsAnewAfterAnOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		m := k.run(t, aggregatedConfig(t))
		k.happen(created, settled, joinB)
		must(t, m.Tell(1, Told{Class: "bulk"}))
		k.took()
		c := at("2001:db8:1::1") // the same connection, whose second subflow was lost unseen
		other := at("2001:db8:1::2")
		other.Token = 2
		k.connections = []Connection{*c, *other}
		k.announced = map[Token][]Announcement{1: {{ID: 3, Addr: epeB}}, 2: {}}
		k.events <- batch{err: ErrOverrun}
		expect(t, "after the overrun", k.took(), "announce 2001:db8:5::b id 3 token 00000002")
		all := m.Connections()
		if len(all) != 2 || all[0].Told.Class != "bulk" || all[0].Adopted || !all[1].Adopted || len(all[0].Subflows) != 1 {
			t.Errorf("after the overrun the connections are %+v", all)
		}
	})
}

func TestManagerGoesOnAfterItLostTheKernel(t *testing.T) {
	for name, lose := range map[string]func(*fakeKernel){
		"events cannot be received": func(k *fakeKernel) {
			k.fail(syscall.EMFILE, nil)
			k.events <- batch{err: syscall.EIO}
		},
		"connections cannot be read after an overrun": func(k *fakeKernel) {
			k.fail(nil, syscall.EMFILE)
			k.events <- batch{err: ErrOverrun}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newFakeKernel()
			m := k.run(t, aggregatedConfig(t))
			k.happen(created, settled, joinB)
			must(t, m.Tell(1, Told{Class: "bulk"}))
			k.took()
			c := at("2001:db8:1::1") // the same connection, whose second subflow was lost unseen
			k.connections = []Connection{*c}
			k.announced = map[Token][]Announcement{1: {{ID: 3, Addr: epeB}}}
			lose(k)
			time.Sleep(time.Minute)
			if got := m.Problems(); len(got) != 1 || !strings.Contains(got[0], syscall.EMFILE.Error()) {
				t.Errorf("%s: problems %q, want one with the cause", name, got)
			}
			if k.opened < 10 || k.opened > 15 {
				t.Errorf("%s: opened %d times in a minute, want 10 to 15", name, k.opened)
			}
			must(t, m.Tell(1, Told{Class: "live"}))
			must(t, m.SetPaths(labPaths(PathUp, PathUp, PathUp)))
			m.Reconsider()
			expect(t, name+", meanwhile", k.took())

			k.fail(nil, nil)
			time.Sleep(reopenLast + retryFirst)
			expect(t, name+", back", k.took(), "announce 2001:db8:5::c id 5 token 00000001",
				"remove id 3 token 00000001", announceB) // for the subflow that was lost
			if got := m.Problems(); len(got) != 0 {
				t.Errorf("%s: afterwards there are the problems %q", name, got)
			}
			if all := m.Connections(); len(all) != 1 || all[0].Told.Class != "live" || all[0].Adopted || len(all[0].Subflows) != 1 {
				t.Errorf("%s: afterwards the connections are %+v", name, all)
			}
			k.happen(joinB, lostB)
			time.Sleep(2 * retryFirst)
			expect(t, name+", events come again", k.took(), "remove id 3 token 00000001", announceB)
		})
	}
}

func TestManagerThatEndsWithoutTheKernelSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		m, err := newManager(Config{Logger: slog.New(slog.DiscardHandler)}, k, k)
		must(t, err)
		m.open = k.open
		k.fail(syscall.EMFILE, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Run(ctx) }()
		k.events <- batch{err: syscall.EIO}
		time.Sleep(time.Second)
		cancel()
		if err := <-ended; !errors.Is(err, ErrLost) || !errors.Is(err, syscall.EIO) {
			t.Errorf("it ends with %v, want %v and the cause", err, ErrLost)
		}
	})
}

func TestReconsideringLeavesTimeForOtherThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		cfg := aggregatedConfig(t)
		routes := &slowRouter{now: Routes{Best: "a", Paths: []string{"a", "b"}}}
		cfg.Router = routes
		m := k.run(t, cfg)
		k.happen(created, settled)
		before := routes.asked.Load()
		for range 1000 {
			m.Reconsider(netip.MustParsePrefix("2001:db8:1::/48"))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		// Each look takes 10 ms; with what is waited, 20 fit into a second.
		if asked := routes.asked.Load() - before; asked < 15 || asked > 25 {
			t.Errorf("a client was decided for %d times in a second, want about 20", asked)
		}
	})
}

// slowRouter takes 10 ms for an answer.
type slowRouter struct {
	now   Routes
	asked atomic.Int32
}

func (r *slowRouter) Routes(netip.Addr) Routes {
	r.asked.Add(1)
	time.Sleep(10 * time.Millisecond)
	return r.now
}

func TestManagerGoesOnAfterAnEventThatIsNotUnderstood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		m := k.run(t, aggregatedConfig(t))
		k.events <- batch{err: fmt.Errorf("%w: of a kernel to come", ErrUndecodable)}
		k.happen(created, settled, joinB)
		k.took()
		if all := m.Connections(); len(all) != 1 || len(all[0].Subflows) != 2 {
			t.Errorf("after the event the connections are %+v", all)
		}
	})
}

func TestConnectionsLeaveAPathOnWhichTheirDataAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		m := k.run(t, aggregatedConfig(t))
		k.happen(created, settled, joinB)
		k.took()
		must(t, m.Tell(1, Told{Avoid: []string{"b"}}))
		left := k.took()
		expect(t, "told to avoid it", left, "remove id 3 token 00000001",
			"destroy subflow [2001:db8:5::b]:443 to [2001:db8:1::1]:40001 token 00000001")
		must(t, m.Tell(1, Told{Avoid: []string{"b"}}))
		expect(t, "told the same again", k.took())
		must(t, m.Tell(1, Told{}))
		expect(t, "told that it is well again", k.took(), announceB)
	})
}

func TestConnectionsLeaveAnInitialSubflowWhosePathWentDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		routes := &mutableRouter{now: Routes{Best: "a", Paths: []string{"a", "b"}}}
		cfg := aggregatedConfig(t)
		cfg.Router = routes
		m := k.run(t, cfg)
		k.happen(created, settled, joinB)
		k.took()
		routes.now = Routes{Best: "b", Paths: []string{"b"}}
		m.Reconsider()
		expect(t, "BGP's best path is another one", k.took())
		must(t, m.SetPaths(labPaths(PathDown, PathUp)))
		expect(t, "since the former is down", k.took(),
			"set subflow [2001:db8:5::1]:443 to [2001:db8:1::1]:40000 backup token 00000001",
			"remove id 0 token 00000001",
			"destroy subflow [2001:db8:5::1]:443 to [2001:db8:1::1]:40000 token 00000001")
	})
}

func TestWayOfTheInitialSubflow(t *testing.T) {
	type step struct {
		best  string
		a     PathState
		after time.Duration
	}
	begins := step{best: "a"}
	for name, c := range map[string]struct {
		steps []step
		lost  bool
	}{
		"it is down":                       {[]step{begins, {"b", PathDown, 0}}, true},
		"it is down, and nothing is left":  {[]step{begins, {"", PathDown, 0}}, true},
		"it is down a little later":        {[]step{begins, {"b", PathUp, 0}, {"b", PathDown, newsApart / 2}}, true},
		"it stays lost":                    {[]step{begins, {"b", PathDown, 0}, {"a", PathUp, time.Minute}}, true},
		"another became best":              {[]step{begins, {"b", PathUp, time.Minute}}, false},
		"it drains":                        {[]step{begins, {"b", PathDraining, 0}}, false},
		"it was left long before":          {[]step{begins, {"b", PathUp, 0}, {"b", PathDown, newsApart}}, false},
		"it is down, but BGP has it still": {[]step{begins, {"a", PathDown, 0}}, false},
	} {
		var way initialWay
		now := time.Now()
		for _, s := range c.steps {
			now = now.Add(s.after)
			way.follow(s.best, labPaths(s.a, PathUp), now)
		}
		if way.lost != c.lost {
			t.Errorf("%s: lost is %t", name, way.lost)
		}
	}
}

func TestManagerOnAKernelThatCannotTellAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		k.announceErr = ErrUnsupported
		c := at("2001:db8:1::1")
		c.Subflows = append(c.Subflows, Subflow{Local: joinB.Local, Remote: joinB.Remote, LocalID: 7})
		k.connections = []Connection{*c}
		m := k.run(t, aggregatedConfig(t))
		expect(t, "a joined address is taken for announced", k.took())
		must(t, m.SetPaths(labPaths(PathUp, PathDown)))
		expect(t, "path down", k.took(), "remove id 7 token 00000001",
			"destroy subflow [2001:db8:5::b]:443 to [2001:db8:1::1]:40001 token 00000001")
	})
}

func TestClassBeforeTheConnectionIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		cfg := aggregatedConfig(t)
		cfg.Policy = policy(t, Rule{Name: "bulk", Class: "bulk", Mode: Aggregated})
		m := k.run(t, cfg)
		must(t, m.TellByAddress(serverAddr, clientAddr, Told{Class: "bulk"}))
		k.happen(created, settled)
		expect(t, "told just before", k.took(), announceB)

		k.happen(Event{Kind: EventClosed, Token: 1})
		must(t, m.TellByAddress(serverAddr, clientAddr, Told{Class: "bulk"}))
		time.Sleep(hintLife)
		k.happen(created, settled)
		expect(t, "told for an earlier connection of the same addresses", k.took())

		if err := m.Tell(9, Told{Class: "bulk"}); !errors.Is(err, ErrUnknownConnection) {
			t.Errorf("class for an unknown token: %v", err)
		}
		for i := range maxHints {
			must(t, m.TellByAddress(serverAddr, netip.AddrPortFrom(epeA, uint16(i)), Told{Class: "bulk"}))
		}
		if err := m.TellByAddress(serverAddr, netip.AddrPortFrom(epeC, 1), Told{Class: "bulk"}); !errors.Is(err, ErrUnknownConnection) {
			t.Errorf("class beyond the bound: %v", err)
		}
		time.Sleep(hintLife)
		must(t, m.TellByAddress(serverAddr, netip.AddrPortFrom(epeC, 1), Told{Class: "bulk"}))
	})
}

func TestReconsiderTouchesOnlyThePrefixes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		routes := &mutableRouter{}
		cfg := aggregatedConfig(t)
		cfg.Router = routes
		m := k.run(t, cfg)
		second := created
		second.Token, second.Remote = 2, netip.MustParseAddrPort("[2001:db8:2::1]:40000")
		settled2 := second
		settled2.Kind = EventEstablished
		k.happen(created, settled, second, settled2)
		expect(t, "no path reaches the clients", k.took())
		routes.now = Routes{Best: "a", Paths: []string{"a", "b"}}
		m.Reconsider(netip.MustParsePrefix("2001:db8:1::/48"))
		expect(t, "one prefix", k.took(), announceB)
		m.Reconsider()
		expect(t, "all", k.took(), "announce 2001:db8:5::b id 3 token 00000002")
		routes.now = Routes{Best: "a", Paths: []string{"a"}}
		m.Reconsider(netip.MustParsePrefix("2001:db8:2::/48"))
		expect(t, "the peer withdrew the prefix", k.took(), "remove id 3 token 00000002")
		d, err := m.Explain(1)
		if err != nil || d.Rule != "all" || d.Mode != Aggregated {
			t.Errorf("explained as %+v, %v", d, err)
		}
		if _, err := m.Explain(3); !errors.Is(err, ErrUnknownConnection) {
			t.Errorf("explaining an unknown connection: %v", err)
		}
	})
}

type mutableRouter struct{ now Routes }

func (r *mutableRouter) Routes(netip.Addr) Routes { return r.now }

func TestAddressIDsRunOut(t *testing.T) {
	m, err := newManager(Config{}, newFakeKernel(), newFakeKernel())
	must(t, err)
	var many []Path
	for i := range 256 {
		many = append(many, Path{Name: "p", Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})}})
	}
	must(t, m.SetPaths(many[:255]))
	must(t, m.SetPaths(many[:3]))
	if err := m.SetPaths(many); err == nil {
		t.Error("256 EPE addresses were accepted, but there are 255 address IDs")
	}
}

// BenchmarkPathDown takes a path from 10,000 connections and gives it back;
// the kernel's share is not in it.
func BenchmarkPathDown(b *testing.B) {
	k := newFakeKernel()
	p, err := NewPolicy(nil, []Rule{{Name: "all", Mode: Aggregated}})
	must(b, err)
	var count int
	m, err := newManager(Config{Policy: p, Paths: labPaths(PathUp, PathUp), Router: bestA,
		OnCommand: func(Command, error) { count++ }}, k, k)
	must(b, err)
	for i := range 10_000 {
		e := settled
		e.Token = Token(i + 1)
		e.Remote = netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 1, 14: byte(i >> 8), 15: byte(i)}), 40000)
		m.onEvent(e, time.Now())
	}
	for b.Loop() {
		k.commands, count = k.commands[:0], 0
		must(b, m.SetPaths(labPaths(PathUp, PathDown)))
		must(b, m.SetPaths(labPaths(PathUp, PathUp)))
		if count != 20_000 {
			b.Fatalf("%d commands, want 20,000", count)
		}
	}
}

// BenchmarkReconsider decides anew for a batch of 1,024 prefixes, each of which holds
// 20 of 200,000 clients.
func BenchmarkReconsider(b *testing.B) {
	k := newFakeKernel()
	p, err := NewPolicy(nil, []Rule{{Name: "all", Mode: Aggregated}})
	must(b, err)
	m, err := newManager(Config{Policy: p, Paths: labPaths(PathUp, PathUp), Router: bestA}, k, k)
	must(b, err)
	client := func(i int) netip.Addr {
		prefix := i / 20
		return netip.AddrFrom16([16]byte{0x2a, 1, byte(prefix >> 10), 4: byte(prefix >> 8), 5: byte(prefix), 15: byte(i % 20)})
	}
	for i := range 200_000 {
		e := settled
		e.Token, e.Remote = Token(i+1), netip.AddrPortFrom(client(i), 40000)
		m.onEvent(e, time.Now())
	}
	var prefixes []netip.Prefix
	for i := range 1024 {
		prefix, err := client(20 * i).Prefix(48)
		must(b, err)
		prefixes = append(prefixes, prefix)
	}
	for b.Loop() {
		m.Reconsider(prefixes...)
		m.again.notBefore = time.Time{}
		m.reconsider()
	}
}

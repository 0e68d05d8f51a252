package mptcp

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"hikyaku/egress/netnstest"
)

var (
	epeA = netip.MustParseAddr("2001:db8:5::a")
	epeB = netip.MustParseAddr("2001:db8:5::b")
	epeC = netip.MustParseAddr("2001:db8:5::c")
	v4A  = netip.MustParseAddr("198.51.100.100")
	v4B  = netip.MustParseAddr("198.51.100.101")
	v4C  = netip.MustParseAddr("198.51.100.102")
)

func labPaths(states ...PathState) []Path {
	paths := []Path{
		{Name: "a", Addresses: []netip.Addr{epeA, v4A}},
		{Name: "b", Addresses: []netip.Addr{epeB, v4B}},
		{Name: "c", Addresses: []netip.Addr{epeC, v4C}},
	}
	for i, s := range states {
		paths[i].State = s
	}
	return paths[:len(states)]
}

// bestRouter says that all paths reach everybody and that one is the best.
type bestRouter struct {
	best  string
	paths []string
}

func (r bestRouter) Routes(netip.Addr) Routes { return Routes{Best: r.best, Paths: r.paths} }

var bestA = bestRouter{best: "a", paths: []string{"a", "b", "c"}}

func policy(t *testing.T, rules ...Rule) *Policy {
	t.Helper()
	p, err := NewPolicy(nil, rules)
	must(t, err)
	return p
}

// on returns the subflows of the only connection at an address.
func on(m *Manager, addr netip.Addr) []Subflow {
	var found []Subflow
	for _, c := range m.Connections() {
		for _, s := range c.Subflows {
			if s.Local.Addr().Unmap() == addr {
				found = append(found, s)
			}
		}
	}
	return found
}

func TestSubflowOnAnnouncedAddressCarriesData(t *testing.T) {
	l := newLab(t)
	m, _ := l.manage(Config{
		Policy: policy(t, Rule{Name: "all", Mode: Aggregated}), Paths: labPaths(PathUp, PathUp), Router: bestA,
	})
	l.limit("a", 40)
	l.limit("b", 40)
	s := l.connect(l.listen(), "2001:db8:c::1", "2001:db8:5::1")
	netnstest.Eventually(t, "a subflow joins on path b", func() bool { return len(on(m, epeB)) == 1 })
	beforeA, beforeB := l.sent("a"), l.sent("b")
	s.flow()
	netnstest.Eventually(t, "8 MB have arrived", func() bool { return s.received.Load() > 8<<20 })
	sentA, sentB := l.sent("a")-beforeA, l.sent("b")-beforeB
	if sentB < (sentA+sentB)/4 {
		t.Errorf("path b carried %d of %d bytes, want at least a quarter", sentB, sentA+sentB)
	}
	if len(on(m, epeA)) != 0 {
		t.Error("the address of the client's best path was announced, which doubles the initial subflow")
	}
}

func TestTimeFromConnectionToJoin(t *testing.T) {
	l := newLab(t)
	var seen record
	m, _ := l.manage(Config{
		Policy: policy(t, Rule{Name: "all", Mode: Aggregated}), Paths: labPaths(PathUp, PathUp), Router: bestA,
		OnEvent: seen.event,
	})
	listener := l.listen()
	var times []time.Duration
	for range 20 {
		s := l.connect(listener, "2001:db8:c::1", "2001:db8:5::1")
		netnstest.Eventually(t, "a subflow joins on path b", func() bool { return len(on(m, epeB)) == 1 })
		created, ok := seen.last(EventCreated)
		joined, joinedOK := seen.last(EventSubEstablished)
		if !ok || !joinedOK || created.Token != joined.Token {
			t.Fatalf("events of unlike connections: created %v, joined %v", created.Token, joined.Token)
		}
		times = append(times, joined.at.Sub(created.at))
		_, _ = s.client.Close(), s.server.Close()
		netnstest.Eventually(t, "the connection is gone", func() bool { return len(m.Connections()) == 0 })
	}
	slices.Sort(times)
	t.Logf("from connection to join: median %v, longest %v of %d", times[len(times)/2], times[len(times)-1], len(times))
}

func TestBackupCarriesNothingUntilItMust(t *testing.T) {
	l := newLab(t)
	standby := policy(t, Rule{Name: "standby", Mode: Aggregated, Paths: []PathUse{{Path: "b", Backup: true}}})
	active := policy(t, Rule{Name: "active", Mode: Aggregated})
	m, _ := l.manage(Config{Policy: standby, Paths: labPaths(PathUp, PathUp), Router: bestA})
	l.limit("a", 40)
	l.limit("b", 40)
	s := l.connect(l.listen(), "2001:db8:c::1", "2001:db8:5::1")
	netnstest.Eventually(t, "a backup subflow joins on path b", func() bool {
		b := on(m, epeB)
		return len(b) == 1 && b[0].LocalBackup
	})
	s.flow()
	idle := func(when string) {
		t.Helper()
		before, received := l.sent("b"), s.received.Load()
		netnstest.Eventually(t, "4 MB more have arrived", func() bool { return s.received.Load() > received+4<<20 })
		if sent := l.sent("b") - before; sent > 100<<10 {
			t.Errorf("%s: the backup path carried %d bytes of 4 MB, want next to none", when, sent)
		}
	}
	idle("from the start")

	m.SetPolicy(active)
	before := l.sent("b")
	netnstest.Eventually(t, "path b carries data after it became active", func() bool { return l.sent("b")-before > 1<<20 })

	m.SetPolicy(standby)
	netnstest.Eventually(t, "what was queued on path b has left", func() bool {
		before := l.sent("b")
		time.Sleep(100 * time.Millisecond)
		return l.sent("b")-before < 20<<10
	})
	idle("after it became backup again")

	s.mark()
	before = l.sent("b")
	l.blackhole("a")
	netnstest.Eventually(t, "path b carries data after path a went silent", func() bool { return l.sent("b")-before > 1<<20 })
	received := s.received.Load()
	netnstest.Eventually(t, "data arrive over the backup", func() bool { return s.received.Load() > received+1<<20 })
	t.Logf("gap until the backup carries data after a silent loss of path a, by the kernel alone: %v", s.longestGap())
}

// TestOrderOfSubflows has the kernel send over the first subflow of the order, and over the next
// one when that path is avoided. Without an order all carry data.
func TestOrderOfSubflows(t *testing.T) {
	for _, c := range []struct{ name, client, server string }{
		{"IPv6", "2001:db8:c::1", "2001:db8:5::1"}, {"IPv4", "203.0.113.1", "198.51.100.1"},
	} {
		t.Run(c.name, func(t *testing.T) { orderOfSubflows(t, c.client, c.server) })
	}
}

func orderOfSubflows(t *testing.T, client, server string) {
	l := newLab(t)
	m, _ := l.manage(Config{Policy: policy(t, Rule{Name: "all", Mode: Aggregated}), Paths: labPaths(PathUp, PathUp), Router: bestA})
	l.limit("a", 40)
	l.limit("b", 40)
	s := l.connect(l.listen(), client, server)
	netnstest.Eventually(t, "a subflow joins on path b", func() bool { return len(find(t, m, s).Subflows) == 2 })
	s.flow()
	c := find(t, m, s)
	ends := func(i int) Ends { // as the edge server names them
		return Ends{Local: unmap(c.Subflows[i].Local), Remote: unmap(c.Subflows[i].Remote)}
	}
	// Data queued before a change still leave, so it waits for a span that fits.
	carries := func(what string, fits func(a, b uint64) bool) {
		t.Helper()
		netnstest.Eventually(t, what, func() bool {
			a, b, received := l.sent("a"), l.sent("b"), s.received.Load()
			netnstest.Eventually(t, "2 MB more have arrived", func() bool { return s.received.Load() > received+2<<20 })
			return fits(l.sent("a")-a, l.sent("b")-b)
		})
	}
	both := func(a, b uint64) bool { return a > 512<<10 && b > 512<<10 }
	onlyA := func(_, b uint64) bool { return b < 100<<10 }
	onlyB := func(a, _ uint64) bool { return a < 100<<10 }
	carries("both paths carry data without an order", both)
	m.SetHint(c.Token, Hint{Order: []Ends{ends(1), ends(0)}})
	carries("path b alone carries data, as it comes first", onlyB)
	explained, total := m.Explained(netip.PrefixFrom(netip.MustParseAddr(client), 24), 10)
	if total != 1 || explained[0].First == nil || !ends(1).are(*explained[0].First) || explained[0].Paths[1] != "b" {
		t.Errorf("the connection is explained as %+v of %d", explained, total)
	}
	if _, total := m.Explained(netip.MustParsePrefix("192.0.2.0/24"), 10); total != 0 {
		t.Errorf("clients of another network have %d connections", total)
	}
	m.SetHint(c.Token, Hint{Order: []Ends{ends(0), ends(1)}})
	carries("path a alone carries data, as it comes first", onlyA)
	m.SetHint(c.Token, Hint{})
	carries("both carry data again", both)
	m.SetHint(c.Token, Hint{Order: []Ends{ends(1), ends(0)}})
	carries("path b alone carries data again", onlyB)
	l.blackhole("b")
	m.SetHint(c.Token, Hint{Order: []Ends{ends(1), ends(0)}, Avoid: []string{"b"}})
	carries("path a carries data when the first one is avoided", onlyA)
}

func TestPathRemovalAndReturn(t *testing.T) {
	l := newLab(t)
	m, _ := l.manage(Config{
		Policy: policy(t, Rule{Name: "all", Mode: Aggregated}), Paths: labPaths(PathUp, PathUp), Router: bestA,
	})
	clientEvents := l.observe(l.client)
	l.limit("a", 40)
	l.limit("b", 40)
	s := l.connect(l.listen(), "2001:db8:c::1", "2001:db8:5::1")
	s.flow()
	var gaps, returns []time.Duration
	for round := range 5 {
		before := l.sent("b")
		netnstest.Eventually(t, "path b carries data", func() bool { return l.sent("b")-before > 512<<10 })
		time.Sleep(100 * time.Millisecond) // beyond slow start
		s.mark()
		l.route("b", false)
		must(t, m.SetPaths(labPaths(PathUp, PathDown)))
		if got := on(m, epeB); len(got) != 0 {
			t.Fatalf("subflows on a path that is down: %v", got)
		}
		received := s.received.Load()
		netnstest.Eventually(t, "2 MB arrive over path a alone", func() bool { return s.received.Load() > received+2<<20 })
		gaps = append(gaps, s.longestGap())
		if removals := len(clientEvents.all(EventRemoved)); removals != round+1 {
			t.Errorf("the client got RM_ADDR %d times, want %d", removals, round+1)
		}

		l.route("b", true)
		start := time.Now()
		before = l.sent("b")
		must(t, m.SetPaths(labPaths(PathUp, PathUp)))
		netnstest.Eventually(t, "path b carries data again", func() bool { return l.sent("b")-before > 100<<10 })
		returns = append(returns, time.Since(start))
	}
	slices.Sort(gaps)
	slices.Sort(returns)
	t.Logf("longest pause at path removal: median %v, longest %v", gaps[2], gaps[4])
	t.Logf("from the path's return to 100 kB on it: median %v, longest %v", returns[2], returns[4])
}

func TestNoAddressIsAnnouncedToPlainClients(t *testing.T) {
	l := newLab(t)
	p := policy(t,
		Rule{Name: "slower with MPTCP", Mode: Plain, Clients: []netip.Prefix{netip.MustParsePrefix("2001:db8:c::2/128")}},
		Rule{Name: "all", Mode: Aggregated})
	var seen record
	m, _ := l.manage(Config{Policy: p, Paths: labPaths(PathUp, PathUp, PathUp), Router: bestA, OnCommand: seen.command})
	clientEvents := l.observe(l.client)
	listener := l.listen()
	plain := l.connect(listener, "2001:db8:c::2", "2001:db8:5::1")
	other := l.connect(listener, "2001:db8:c::1", "2001:db8:5::1")
	joined := func() bool { return len(find(t, m, other).Subflows) == 3 }
	netnstest.Eventually(t, "the other client joins both paths", joined)
	// All that could make the Manager think again.
	must(t, m.SetPaths(labPaths(PathUp, PathDown, PathUp)))
	must(t, m.SetPaths(labPaths(PathUp, PathUp, PathUp)))
	m.SetHintByAddress(plain.local(), plain.remote(), Hint{Class: "bulk"})
	m.Reconsider()
	netnstest.Eventually(t, "the other client joins again", joined)

	c := find(t, m, plain)
	if len(c.Announced) != 0 || len(c.Subflows) != 1 || c.Hint.Class != "bulk" {
		t.Errorf("plain connection has %+v", c)
	}
	for _, cmd := range seen.sent() {
		if cmd.Token == c.Token {
			t.Errorf("command for the plain connection: %s", cmd)
		}
	}
	for _, e := range clientEvents.all(EventAnnounced) {
		if e.Token != clientEvents.tokenOf(other) {
			t.Errorf("%s was announced to the client on another connection than the aggregated one", e.Remote)
		}
	}
}

func TestClassSetLater(t *testing.T) {
	l := newLab(t)
	p := policy(t, Rule{Name: "bulk", Class: "bulk", Mode: Aggregated}, Rule{Name: "live alone", Mode: Plain})
	m, _ := l.manage(Config{Policy: p, Paths: labPaths(PathUp, PathUp), Router: bestA})
	s := l.connect(l.listen(), "2001:db8:c::1", "2001:db8:5::1")
	netnstest.Eventually(t, "the connection is known", func() bool { return len(m.Connections()) == 1 })
	if c := m.Connections()[0]; len(c.Announced) != 0 {
		t.Fatalf("announced before the class was set: %+v", c)
	}
	m.SetHintByAddress(s.local(), s.remote(), Hint{Class: "bulk"})
	netnstest.Eventually(t, "a subflow joins for the class", func() bool { return len(on(m, epeB)) == 1 })
	m.SetHint(m.Connections()[0].Token, Hint{Class: "live"})
	if c := m.Connections()[0]; len(c.Announced) != 0 || len(c.Subflows) != 1 {
		t.Errorf("after a plain class was set the connection still has %+v", c)
	}
}

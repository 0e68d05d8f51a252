package mptcp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMaxAddressesAnnouncedToAClient(t *testing.T) {
	use := func(name string, backup bool) Use {
		return Use{Path: name, Addr: netip.MustParseAddr("2001:db8:5::" + name), Backup: backup}
	}
	a, b, c, standby := use("a", false), use("b", false), use("c", false), use("d", true)
	for _, tc := range []struct {
		name   string
		bounds Bounds
		knows  []Use
		decide []Use
		want   []Use
	}{
		{"no bound", Bounds{}, nil, []Use{a, b, c}, []Use{a, b, c}},
		{"as many as there may be", Bounds{Addresses: 3}, nil, []Use{a, b, c}, []Use{a, b, c}},
		{"the policy's order", Bounds{Addresses: 2}, nil, []Use{a, b, c}, []Use{a, b}},
		{"what the client knows first", Bounds{Addresses: 2}, []Use{b, c}, []Use{a, b, c}, []Use{b, c}},
		{"backup last, though known", Bounds{Addresses: 2}, []Use{standby}, []Use{standby, a, b}, []Use{a, b}},
		{"no more than can be joined", Bounds{Addresses: 2, Subflows: 1}, nil, []Use{a, b}, []Use{a}},
	} {
		connection := &Connection{}
		for _, u := range tc.knows {
			connection.Announced = append(connection.Announced, Announcement{Addr: u.Addr})
		}
		decided := slices.Clone(tc.decide)
		if got := tc.bounds.announce(connection, Decision{Announce: tc.decide}); !slices.Equal(got.Announce, tc.want) {
			t.Errorf("%s: %+v is announced, want %+v", tc.name, got.Announce, tc.want)
		}
		if !slices.Equal(tc.decide, decided) {
			t.Errorf("%s: the decision that was given is changed", tc.name)
		}
	}
}

func TestManagerKeepsToTheBoundOfAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		cfg := aggregatedConfig(t)
		cfg.Paths, cfg.Bounds = labPaths(PathUp, PathUp, PathUp), Bounds{Addresses: 1}
		m := k.run(t, cfg)
		k.happen(created, settled)
		expect(t, "two could be announced", k.took(), announceB)
		must(t, m.SetPaths(labPaths(PathUp, PathDraining, PathUp)))
		const announceC = "announce 2001:db8:5::c id 5 token 00000001"
		expect(t, "one drains", k.took(), announceC)
		must(t, m.SetPaths(labPaths(PathUp, PathUp, PathUp)))
		expect(t, "it is back", k.took(), "remove id 5 token 00000001")
		d, err := m.Explain(1)
		must(t, err)
		if !strings.Contains(d.Reason, "1 of 2 addresses") {
			t.Errorf("the reason %q does not name the bound", d.Reason)
		}
	})
}

func TestManagerClosesSubflowsBeyondTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		cfg := aggregatedConfig(t)
		cfg.Bounds = Bounds{Subflows: 2}
		k.run(t, cfg)
		k.happen(created, settled, joinB)
		k.took()
		join := func(local netip.AddrPort, id uint8, port uint16) Event {
			time.Sleep(time.Millisecond)
			return Event{Kind: EventSubEstablished, Token: 1, LocalID: id, Local: local, Remote: netip.AddrPortFrom(clientAddr.Addr(), port)}
		}
		second := join(joinB.Local, 3, 40002)
		k.happen(second)
		expect(t, "as many as there may be", k.took())
		destroy := func(e Event) string {
			return fmt.Sprintf("destroy subflow %s to %s token 00000001", e.Local, e.Remote)
		}
		third := join(serverAddr, 0, 40003)
		third.RemoteID = 2
		k.happen(third)
		expect(t, "one more, to the first address", k.took(), destroy(third))
		fourth := join(joinB.Local, 3, 40004)
		fourth.Backup = true
		k.happen(fourth)
		expect(t, "one more, to the EPE address", k.took(), destroy(fourth))
		k.happen(Event{Kind: EventSubClosed, Token: 1, LocalID: 3, Local: fourth.Local, Remote: fourth.Remote})
		time.Sleep(time.Hour)
		expect(t, "the address is not announced anew for that", k.took())
	})
}

func TestManagerKeepsToTheBoundOfConnections(t *testing.T) {
	begin := func(n int) []Event {
		c, s := created, settled
		c.Token, s.Token = Token(n), Token(n)
		c.Remote = netip.AddrPortFrom(clientAddr.Addr(), uint16(40000+n))
		s.Remote = c.Remote
		return []Event{c, s}
	}
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		cfg := aggregatedConfig(t)
		cfg.Bounds = Bounds{Connections: 20}
		m := k.run(t, cfg)
		for n := range 25 {
			k.happen(begin(n + 1)...)
		}
		if got := len(k.took()); got != 20 {
			t.Errorf("an address was announced to %d clients, want 20", got)
		}
		if got := len(m.Connections()); got != 20 {
			t.Errorf("%d connections are kept, want 20", got)
		}
		want := []string{"20 connections are managed, which is the bound; 5 more had to do with their first subflow alone"}
		if got := m.Problems(); !slices.Equal(got, want) {
			t.Errorf("problems %q, want %q", got, want)
		}
		k.happen(Event{Kind: EventClosed, Token: 1})
		k.happen(begin(26)...)
		if got := len(k.took()); got != 1 {
			t.Errorf("after one has ended, an address was announced to %d more, want one", got)
		}
		for n := range 3 {
			k.happen(Event{Kind: EventClosed, Token: Token(n + 2)})
		}
		if got := m.Problems(); len(got) != 0 {
			t.Errorf("with room there are the problems %q", got)
		}

		for n := range 30 {
			k.connections = append(k.connections, Connection{
				Token: Token(100 - n), ServerSide: true, Local: serverAddr, Remote: netip.AddrPortFrom(clientAddr.Addr(), uint16(100-n)),
			})
		}
		k.connections = append(k.connections, m.Connections()...)
		k.events <- batch{err: ErrOverrun}
		synctest.Wait()
		known := 0
		for _, c := range m.Connections() {
			if c.Token < 50 {
				known++
			}
		}
		if all := len(m.Connections()); all != 20 || known != 17 || len(m.Problems()) != 1 {
			t.Errorf("read anew there are %d connections, %d of them known before, problems %q; want 20, 17 and one",
				all, known, m.Problems())
		}
	})
}

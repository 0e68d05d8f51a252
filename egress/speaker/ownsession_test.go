package speaker

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

// startWithOwnSession starts a speaker with a session of ours to a fake reflector.
func startWithOwnSession(t *testing.T, change func(*Neighbor)) (*testSpeaker, *fakeReflector, *fakePeer) {
	t.Helper()
	r := listenAsReflector(t)
	n := r.neighbor("rr", VPNv6, VPNv4)
	if change != nil {
		change(&n)
	}
	s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{n}, StaleTime: time.Hour})
	p := r.accept(nil, bgp.RF_IPv6_VPN, bgp.RF_IPv4_VPN)
	up := expect[PeerUp](s)
	if up.RouterID != r.at.Addr() || !slices.Equal(up.Families, []Family{VPNv6, VPNv4}) {
		t.Errorf("session is up with %+v", up)
	}
	return s, r, p
}

func isEndOfRIB(u *bgp.BGPUpdate) bool { ok, _ := u.IsEndOfRib(); return ok }

func TestIdleSessionStaysUp(t *testing.T) {
	s, _, p := startWithOwnSession(t, func(n *Neighbor) { n.HoldTime = 3 * time.Second })
	p.waitFor("End-of-RIB", isEndOfRIB)
	s.quiet(7 * time.Second) // more than two hold times
	p.conn.Close()
	expect[PeerDown](s)
}

func TestSilentReflectorIsLost(t *testing.T) {
	r := listenAsReflector(t)
	n := r.neighbor("rr", VPNv6)
	n.HoldTime = 3 * time.Second
	s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{n}})
	conn, err := r.listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := &fakePeer{t: t, conn: conn, changed: make(chan struct{}, 1)}
	if err := p.open(r.at.Addr(), ownAS, []bgp.Family{bgp.RF_IPv6_VPN}); err != nil {
		t.Fatal(err)
	}
	expect[PeerUp](s)
	if down := expect[PeerDown](s); down.Cause != EndHoldTimer || !strings.Contains(down.Reason, "hold time") {
		t.Errorf("session ended with %+v", down)
	}
}

func TestNewSessionGetsPresentRoutes(t *testing.T) {
	s, r, p := startWithOwnSession(t, nil)
	id, route := testRoute(t, s.at.Addr(), "transit", srv6.EndDT6, 64601)
	announce := func(prefixes []netip.Prefix) {
		t.Helper()
		if err := s.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: route, Prefixes: prefixes}); err != nil {
			t.Fatal(err)
		}
	}
	announce(bgptest.Prefixes6(0, 500))
	p.waitFor("the last route", func(u *bgp.BGPUpdate) bool {
		return slices.Contains(bgptest.Announced(u), bgptest.Prefixes6(499, 1)[0])
	})
	p.conn.Close()
	expect[PeerDown](s)
	if err := s.WithdrawVPN(id.RD, bgptest.Prefixes6(0, 100)); err != nil {
		t.Fatal(err)
	}
	announce([]netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")})

	p = r.accept(nil, bgp.RF_IPv6_VPN, bgp.RF_IPv4_VPN)
	p.waitFor("End-of-RIB", isEndOfRIB)
	got := p.received()
	if len(got) != 401 || got[bgptest.Prefixes6(99, 1)[0]] || !got[bgptest.Prefixes6(100, 1)[0]] {
		t.Errorf("the new session got %d routes, want the 401 that hold", len(got))
	}
}

func TestRouteRefresh(t *testing.T) {
	s, _, p := startWithOwnSession(t, nil)
	id, route := testRoute(t, s.at.Addr(), "transit", srv6.EndDT6, 64601)
	p.waitFor("End-of-RIB", isEndOfRIB)
	if err := s.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: route, Prefixes: bgptest.Prefixes6(0, 1)}); err != nil {
		t.Fatal(err)
	}
	p.waitFor("the route", func(*bgp.BGPUpdate) bool { return announcements(p.updates) == 1 })
	p.send(bgp.NewBGPRouteRefreshMessage(bgp.AFI_IP6, 0, bgp.SAFI_MPLS_VPN))
	p.waitFor("the route again", func(*bgp.BGPUpdate) bool { return announcements(p.updates) == 2 })
}

// announcements counts the routes of the updates, with mu held as in waitFor.
func announcements(updates []*bgp.BGPUpdate) (n int) {
	for _, u := range updates {
		n += len(bgptest.Announced(u))
	}
	return n
}

func TestEndOfRIBWaitsForTheRestart(t *testing.T) {
	s, _, p := startWithOwnSession(t, func(n *Neighbor) { n.Restarting, n.GracefulRestart = true, time.Hour })
	id, route := testRoute(t, s.at.Addr(), "transit", srv6.EndDT6, 64601)
	if err := s.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: route, Prefixes: bgptest.Prefixes6(0, 1)}); err != nil {
		t.Fatal(err)
	}
	p.waitFor("the route", func(u *bgp.BGPUpdate) bool { return len(bgptest.Announced(u)) > 0 })
	p.mu.Lock()
	early := slices.ContainsFunc(p.updates, isEndOfRIB)
	p.mu.Unlock()
	if early {
		t.Error("End-of-RIB came before everything was announced")
	}
	s.AnnouncedAll()
	p.waitFor("End-of-RIB", isEndOfRIB)
}

// keepsForwarding reports whether an OPEN asks to keep routes, and says that their
// forwarding state was kept.
func keepsForwarding(t *testing.T, open *bgp.BGPOpen) (restarted, forwarding bool) {
	t.Helper()
	for _, option := range open.OptParams {
		list, ok := option.(*bgp.OptionParameterCapability)
		if !ok {
			continue
		}
		for _, capability := range list.Capability {
			if c, ok := capability.(*bgp.CapGracefulRestart); ok {
				kept := func(t *bgp.CapGracefulRestartTuple) bool { return t.Flags&0x80 != 0 }
				return c.Flags&0x08 != 0, len(c.Tuples) > 0 && !slices.ContainsFunc(c.Tuples, func(t *bgp.CapGracefulRestartTuple) bool { return !kept(t) })
			}
		}
	}
	t.Fatal("no capability of graceful restart")
	return
}

func TestForwardingStateOutlivesTheSession(t *testing.T) {
	s, r, p := startWithOwnSession(t, func(n *Neighbor) { n.GracefulRestart = time.Minute })
	if restarted, forwarding := keepsForwarding(t, p.opened); restarted || forwarding {
		t.Errorf("the first session: restarted %t, forwarding state kept %t", restarted, forwarding)
	}
	p.conn.Close()
	expect[PeerDown](s)
	p = r.accept(nil, bgp.RF_IPv6_VPN, bgp.RF_IPv4_VPN)
	if restarted, forwarding := keepsForwarding(t, p.opened); restarted || !forwarding {
		t.Errorf("after a broken session: restarted %t, forwarding state kept %t", restarted, forwarding)
	}
}

func TestMalformedUpdateEndsTheSession(t *testing.T) {
	s, _, p := startWithOwnSession(t, nil)
	m := wire.AppendHeader(nil, bgp.BGP_MSG_UPDATE)
	m = append(m, 0, 0, 0, 6, 0x80, 15, 3, 0, 2) // cut within its only attribute
	m[17] = byte(len(m))
	if _, err := p.conn.Write(m); err != nil {
		t.Fatal(err)
	}
	if down := expect[PeerDown](s); down.Cause != EndUpdateError || !strings.Contains(down.Reason, "malformed UPDATE") {
		t.Errorf("session ended with %+v", down)
	}
	p.waitForEnd()
}

func TestAnnounceOnlySkipsRoutes(t *testing.T) {
	r := listenAsReflector(t)
	s := startSpeaker(t, loopback(), Config{
		Neighbors: []Neighbor{r.neighbor("rr", VPNv6, VPNv4)}, EndOfRIBTime: time.Hour, AnnounceOnly: true,
	})
	p := r.accept(nil, bgp.RF_IPv6_VPN, bgp.RF_IPv4_VPN)
	expect[PeerUp](s)
	id, route := testRoute(t, s.at.Addr(), "transit", srv6.EndDT6, 64601)
	p.send(vpnMessage(t, id.RD, route, bgptest.Prefixes6(0, 10)))
	// A second MP_REACH_NLRI would end the session if it were parsed.
	messages := bgptest.UpdateMessage(bgptest.GoodReach, bgptest.GoodReach, bgptest.GoodOrigin, bgptest.GoodPath)
	messages = wire.AppendEndOfRIB(messages, VPNv6)
	messages = append(messages, bgptest.UpdateMessage([]byte{bgptest.Extended, bgptest.UnreachKind, 0, 3, 0, 1, 128})...) // with a long length
	if _, err := p.conn.Write(messages); err != nil {
		t.Fatal(err)
	}
	for _, family := range []Family{VPNv6, VPNv4} {
		if e := expect[EndOfRIB](s); e.Family != family || e.Implied {
			t.Errorf("End-of-RIB is %+v, want that of %s", e, family)
		}
	}
	if err := s.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: route, Prefixes: bgptest.Prefixes6(20, 1)}); err != nil {
		t.Fatal(err)
	}
	p.waitFor("the route", func(u *bgp.BGPUpdate) bool { return slices.Equal(bgptest.Announced(u), bgptest.Prefixes6(20, 1)) })
	p.conn.Close()
	expect[PeerDown](s)
}

// A message may be as long as its type and the negotiated capabilities allow (RFC 4271
// §6.1, RFC 8654 §4). Egress peers are not offered extended messages.
func TestMessagesThatAreTooLong(t *testing.T) {
	message := func(kind byte, length int) []byte {
		m := append(wire.AppendHeader(nil, kind), make([]byte, length-wire.HeaderLength)...)
		m[16], m[17] = byte(length>>8), byte(length)
		return m
	}
	for _, c := range []struct {
		name    string
		as      uint32
		message []byte
	}{
		{"UPDATE of an egress peer", 64601, message(bgp.BGP_MSG_UPDATE, wire.MaxMessage+1)},
		{"KEEPALIVE of an egress peer", 64601, message(bgp.BGP_MSG_KEEPALIVE, wire.HeaderLength+1)},
		{"KEEPALIVE of a reflector", ownAS, message(bgp.BGP_MSG_KEEPALIVE, wire.MaxMessage+1)},
	} {
		r := listenAs(t, c.as)
		family, offered := IPv6Unicast, bgp.RF_IPv6_UC
		if c.as == ownAS {
			family, offered = VPNv6, bgp.RF_IPv6_VPN
		}
		s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{r.neighbor("n", family)}})
		p := r.accept(nil, offered)
		expect[PeerUp](s)
		if _, err := p.conn.Write(c.message); err != nil {
			t.Fatal(err)
		}
		if down := expect[PeerDown](s); down.Cause != EndMessageError {
			t.Errorf("%s: the session ended with %+v", c.name, down)
		}
		p.waitForEnd()
		p.mu.Lock()
		if n := p.notification; n == nil || n.ErrorCode != bgp.BGP_ERROR_MESSAGE_HEADER_ERROR || n.ErrorSubcode != bgp.BGP_ERROR_SUB_BAD_MESSAGE_LENGTH {
			t.Errorf("%s: the neighbour got NOTIFICATION %+v", c.name, n)
		}
		p.mu.Unlock()
	}
}

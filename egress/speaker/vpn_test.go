package speaker

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/srv6"
)

// startReflected starts a border and a server that hang on the same reflector.
func startReflected(t *testing.T) (border, server *testSpeaker) {
	t.Helper()
	borderAt, serverAt, rr := loopback(), loopback(), startRouter(t, loopback(), ownAS)
	border, server = startSpeaker(t, borderAt, Config{}), startSpeaker(t, serverAt, Config{})
	for _, s := range []*testSpeaker{border, server} {
		rr.accept(s.at.Addr(), ownAS, true, VPNv6, VPNv4)
		s.connect(rr.neighbor("rr", ownAS, s.at.Addr(), VPNv6, VPNv4))
	}
	for _, s := range []*testSpeaker{border, server} {
		expect[PeerUp](s)
		for range 2 { // one for each family
			expect[EndOfRIB](s)
		}
	}
	return border, server
}

// testRoute is the route that the border announces for a peer.
func testRoute(t testing.TB, border netip.Addr, peer string, behavior srv6.Behavior, path ...uint32) (srv6.Identity, VPNRoute) {
	id := bgptest.Identity(t, border, peer)
	return id, NewVPNRoute(bgptest.Service(id, behavior), Attributes{ASPath: NewASPath(path...), MED: 3, HasMED: true}, id.RT)
}

func TestVPNThroughReflector(t *testing.T) {
	border, server := startReflected(t)
	six, four := bgptest.Prefixes6(1, 600), []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	for _, c := range []struct {
		name     string
		peer     string
		behavior srv6.Behavior
		prefixes []netip.Prefix
	}{
		{"VPNv6 with End.DT6", "transit", srv6.EndDT6, six},
		{"VPNv4 with End.DT4", "transit ipv4", srv6.EndDT4, four},
		{"VPNv6 with End.DT46", "other", srv6.EndDT46, six},
	} {
		id, route := testRoute(t, border.at.Addr(), c.peer, c.behavior, 64601, 64700)
		if err := border.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: route, Prefixes: c.prefixes}); err != nil {
			t.Fatal(err)
		}
		learned := collect(server, len(c.prefixes))
		if learned.RD != id.RD || learned.Route.Service != route.Service || !learned.Route.HasTarget(id.RT) {
			t.Errorf("%s: learned RD %s, service %+v, targets %v", c.name, learned.RD, learned.Route.Service, learned.Route.Targets())
		}
		slices.SortFunc(learned.Prefixes, netip.Prefix.Compare)
		if show(learned.Prefixes) != show(c.prefixes) {
			t.Errorf("%s: learned %d prefixes, want %d", c.name, len(learned.Prefixes), len(c.prefixes))
		}
		a := learned.Route.Attributes
		if a.ASPath != route.Attributes.ASPath || a.MED != 3 || a.LocalPref != 100 || a.NextHop.Unmap() != border.at.Addr() {
			t.Errorf("%s: attributes are %+v", c.name, a)
		}
		_, route = testRoute(t, border.at.Addr(), c.peer, c.behavior, 64601, 64999)
		if err := border.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: route, Prefixes: c.prefixes[:1]}); err != nil {
			t.Fatal(err)
		}
		if l := expect[VPNLearned](server); l.Prefixes[0] != c.prefixes[0] || l.Route.Attributes.ASPath.Origin() != 64999 {
			t.Errorf("%s: change learned as %+v", c.name, l)
		}
		if err := border.WithdrawVPN(id.RD, c.prefixes); err != nil {
			t.Fatal(err)
		}
		for left := len(c.prefixes); left > 0; {
			w := expect[VPNWithdrawn](server)
			if w.RD != id.RD {
				t.Fatalf("%s: withdrawn for RD %s", c.name, w.RD)
			}
			left -= len(w.Prefixes)
		}
	}
	server.quiet(100 * time.Millisecond)
}

// collect adds up the next VPNLearned events until n prefixes have come.
func collect(s *testSpeaker, n int) VPNLearned {
	s.t.Helper()
	all := expect[VPNLearned](s)
	for len(all.Prefixes) < n {
		next := expect[VPNLearned](s)
		if next.RD != all.RD || *next.Route != *all.Route {
			s.t.Fatalf("one announcement came as different routes: %+v and %+v", all.Route, next.Route)
		}
		all.Prefixes = append(all.Prefixes, next.Prefixes...)
	}
	return all
}

func TestBorderGone(t *testing.T) {
	border, server := startReflected(t)
	id, route := testRoute(t, border.at.Addr(), "transit", srv6.EndDT6, 64601)
	if err := border.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: route, Prefixes: bgptest.Prefixes6(1, 3)}); err != nil {
		t.Fatal(err)
	}
	collect(server, 3)
	border.Close()
	for left := 3; left > 0; {
		left -= len(expect[VPNWithdrawn](server).Prefixes)
	}
}

func TestUnusableVPNRouteIsNotAnnounced(t *testing.T) {
	s := startSpeaker(t, loopback(), Config{})
	id, route := testRoute(t, s.at.Addr(), "transit", srv6.EndDT6, 64601)
	withoutTarget := NewVPNRoute(route.Service, route.Attributes)
	withoutSID := NewVPNRoute(srv6.Service{}, route.Attributes, id.RT)
	for name, bad := range map[string]VPNRoute{"no target": withoutTarget, "no SID": withoutSID} {
		if err := s.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: bad, Prefixes: bgptest.Prefixes6(1, 1)}); err == nil {
			t.Errorf("%s: was announced", name)
		}
	}
	if err := s.WithdrawVPN(id.RD, bgptest.Prefixes6(1, 1)); err != nil {
		t.Errorf("withdrawing what was never announced: %v", err)
	}
}

// startWithReflectors starts a server whose reflectors are fakes, so that they
// can break off without a NOTIFICATION, as in a crash.
func startWithReflectors(t *testing.T, config Config) (*testSpeaker, func(i int) *fakePeer) {
	t.Helper()
	locals := []netip.Addr{loopback(), loopback()}
	for i, local := range locals {
		config.Neighbors = append(config.Neighbors, Neighbor{
			Name: "rr" + string(rune('1'+i)), Address: local, AS: ownAS, Families: []Family{VPNv6}, Passive: true,
		})
	}
	s := startSpeaker(t, loopback(), config)
	return s, func(i int) *fakePeer {
		t.Helper()
		p := dialPeer(t, locals[i], s.at, ownAS, bgp.RF_IPv6_VPN)
		expect[PeerUp](s)
		return p
	}
}

// vpnMessage is a reflector's message for a route.
func vpnMessage(t testing.TB, rd srv6.RouteDistinguisher, route VPNRoute, prefixes []netip.Prefix) *bgp.BGPMessage {
	t.Helper()
	attrs, err := route.GoBGP()
	if err != nil {
		t.Fatal(err)
	}
	reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_VPN, vpnNLRIs(t, rd, prefixes), netip.MustParseAddr("2001:db8::1"))
	if err != nil {
		t.Fatal(err)
	}
	return bgp.NewBGPUpdateMessage(nil, append(attrs, bgp.NewPathAttributeLocalPref(100), reach), nil)
}

func vpnNLRIs(t testing.TB, rd srv6.RouteDistinguisher, prefixes []netip.Prefix) []bgp.PathNLRI {
	t.Helper()
	var list []bgp.PathNLRI
	for _, prefix := range prefixes {
		path, err := vpnPath(rd.GoBGP(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, bgp.PathNLRI{NLRI: path.Nlri})
	}
	return list
}

func TestReflectorsCrashAndComeBack(t *testing.T) {
	s, dial := startWithReflectors(t, Config{StaleTime: time.Hour, SettleTime: 500 * time.Millisecond})
	id, route := testRoute(t, s.at.Addr(), "transit", srv6.EndDT6, 64601)
	first, second := dial(0), dial(1)
	prefixes := bgptest.Prefixes6(1, 10)
	for _, p := range []*fakePeer{first, second} {
		p.send(vpnMessage(t, id.RD, route, prefixes))
		p.send(bgp.NewEndOfRib(bgp.RF_IPv6_VPN))
	}
	collect(s, len(prefixes))
	expect[EndOfRIB](s)
	expect[EndOfRIB](s) // the second reflector said nothing new
	expect[VPNSettled](s)
	expect[VPNSettled](s)
	first.conn.Close()
	expect[PeerDown](s)
	s.quiet(300 * time.Millisecond) // the second still has the routes
	second.conn.Close()
	expect[PeerDown](s)
	s.quiet(300 * time.Millisecond) // stale, but better than none

	first = dial(0)
	first.send(vpnMessage(t, id.RD, route, prefixes[:7]))
	s.quiet(time.Second)
	first.send(bgp.NewEndOfRib(bgp.RF_IPv6_VPN))
	expect[EndOfRIB](s)
	gone := expect[VPNWithdrawn](s)
	slices.SortFunc(gone.Prefixes, netip.Prefix.Compare)
	if gone.RD != id.RD || show(gone.Prefixes) != show(prefixes[7:]) {
		t.Errorf("after the reflector came back %v of %s went, want %v", gone.Prefixes, gone.RD, prefixes[7:])
	}
	if settled := expect[VPNSettled](s); settled.RD != id.RD {
		t.Errorf("the routes of %s are complete, want %s", settled.RD, id.RD)
	}
}

// TestReflectorReturnsBeforeItsBorders has a reflector restart, to which one of two borders
// comes back after its End-of-RIB, and the other one never.
func TestReflectorReturnsBeforeItsBorders(t *testing.T) {
	s, dial := startWithReflectors(t, Config{StaleTime: 10 * time.Second, SettleTime: 100 * time.Millisecond})
	late, route := testRoute(t, s.at.Addr(), "late", srv6.EndDT6, 64601)
	lost, lostRoute := testRoute(t, s.at.Addr(), "lost", srv6.EndDT6, 64601)
	prefixes := bgptest.Prefixes6(1, 10)
	reflector := dial(0)
	reflector.send(vpnMessage(t, late.RD, route, prefixes))
	reflector.send(vpnMessage(t, lost.RD, lostRoute, prefixes))
	collect(s, len(prefixes))
	collect(s, len(prefixes))
	reflector.conn.Close()
	expect[PeerDown](s)

	reflector = dial(0)
	reflector.send(bgp.NewEndOfRib(bgp.RF_IPv6_VPN))
	expect[EndOfRIB](s)
	s.quiet(500 * time.Millisecond)
	reflector.send(vpnMessage(t, late.RD, route, prefixes[:7]))
	gone := expect[VPNWithdrawn](s)
	slices.SortFunc(gone.Prefixes, netip.Prefix.Compare)
	if gone.RD != late.RD || show(gone.Prefixes) != show(prefixes[7:]) {
		t.Errorf("when the border was back %v of %s went, want %v", gone.Prefixes, gone.RD, prefixes[7:])
	}
	expect[VPNSettled](s)
	if gone := expect[VPNWithdrawn](s); gone.RD != lost.RD || len(gone.Prefixes) != len(prefixes) {
		t.Errorf("at the end of the stale time %d routes of %s went, want those of the lost border", len(gone.Prefixes), gone.RD)
	}
}

func TestStaleRoutesGo(t *testing.T) {
	s, dial := startWithReflectors(t, Config{StaleTime: time.Second})
	id, route := testRoute(t, s.at.Addr(), "transit", srv6.EndDT6, 64601)
	reflector := dial(0)
	reflector.send(vpnMessage(t, id.RD, route, bgptest.Prefixes6(1, 10)))
	collect(s, 10)
	lost := time.Now()
	reflector.conn.Close()
	expect[PeerDown](s)
	if gone := expect[VPNWithdrawn](s); len(gone.Prefixes) != 10 {
		t.Errorf("%d of 10 stale routes went", len(gone.Prefixes))
	}
	if waited := time.Since(lost); waited < time.Second {
		t.Errorf("stale routes went after %s, want 1s", waited)
	}
}

func TestVPNRouteThatCannotBeUsedIsWithdrawn(t *testing.T) {
	s, dial := startWithReflectors(t, Config{})
	reflector := dial(0)
	id, route := testRoute(t, s.at.Addr(), "transit", srv6.EndDT6, 64601)
	prefix := bgptest.Prefixes6(1, 1)
	_, looped := testRoute(t, s.at.Addr(), "transit", srv6.EndDT6, 64601, ownAS)
	plain := vpnMessage(t, id.RD, route, prefix)
	u := plain.Body.(*bgp.BGPUpdate)
	u.PathAttributes = slices.DeleteFunc(u.PathAttributes, func(a bgp.PathAttributeInterface) bool {
		return a.GetType() == bgp.BGP_ATTR_TYPE_PREFIX_SID
	})
	transposed := vpnMessage(t, id.RD, route, prefix)
	for _, a := range transposed.Body.(*bgp.BGPUpdate).PathAttributes {
		if sid, ok := a.(*bgp.PathAttributePrefixSID); ok {
			info := sid.TLVs[0].(*bgp.SRv6ServiceTLV).SubTLVs[0].(*bgp.SRv6InformationSubTLV)
			info.SubSubTLVs[0].(*bgp.SRv6SIDStructureSubSubTLV).TranspositionLength = 16
		}
	}
	for name, message := range map[string]*bgp.BGPMessage{
		"own AS in the path": vpnMessage(t, id.RD, looped, prefix),
		"no SRv6 service":    plain,
		"transposed SID":     transposed,
	} {
		reflector.send(vpnMessage(t, id.RD, route, prefix))
		expect[VPNLearned](s)
		reflector.send(message)
		if w := expect[VPNWithdrawn](s); show(w.Prefixes) != show(prefix) {
			t.Errorf("%s: withdrawn %v", name, w.Prefixes)
		}
	}
}

func TestBestPathsThroughReflector(t *testing.T) {
	borderAt, reflector := loopback(), startRouter(t, loopback(), ownAS)
	reflector.accept(borderAt, ownAS, true, IPv6Unicast)
	transits := []*router{startRouter(t, loopback(), 64601), startRouter(t, loopback(), 64602)}
	config := Config{BestPaths: true, Neighbors: []Neighbor{reflector.neighbor("rr", ownAS, borderAt, IPv6Unicast)}}
	prefix := bgptest.Prefixes6(1, 1)
	for i, transit := range transits {
		transit.accept(borderAt, ownAS, false, IPv6Unicast)
		config.Neighbors = append(config.Neighbors, transit.neighbor("t"+string(rune('1'+i)), uint32(64601+i), borderAt, IPv6Unicast))
	}
	border := startSpeaker(t, borderAt, config) // the last to start
	for range 3 {                               // a transit that gets a route before then may not announce it
		skipTo[EndOfRIB](border, nil)
	}
	transits[0].announce(Attributes{ASPath: NewASPath(64700, 64701)}, prefix...)
	skipTo(border, func(b BestPath) bool { return b.Peer == "t1" && b.Prefix == prefix[0] })
	transits[1].announce(Attributes{ASPath: NewASPath(64700)}, prefix...)
	skipTo(border, func(b BestPath) bool { return b.Peer == "t2" && b.Attributes.ASPath.Len() == 2 })
	waitForRoute(t, reflector, prefix[0], borderAt)
	transits[1].withdraw(prefix...)
	skipTo(border, func(b BestPath) bool { return b.Peer == "t1" })
	transits[0].Stop()
	skipTo(border, func(b BestPath) bool { return b.Attributes == nil && b.Prefix == prefix[0] })
}

func TestAnnounceOnlySkipsRoutesOfGoBGPSessions(t *testing.T) {
	s, dial := startWithReflectors(t, Config{AnnounceOnly: true})
	id, route := testRoute(t, s.at.Addr(), "transit", srv6.EndDT6, 64601)
	p := dial(0)
	p.send(vpnMessage(t, id.RD, route, bgptest.Prefixes6(1, 10)))
	p.send(bgp.NewEndOfRib(bgp.RF_IPv6_VPN))
	if e := expect[EndOfRIB](s); e.Family != VPNv6 || e.Implied {
		t.Errorf("End-of-RIB is %+v", e)
	}
}

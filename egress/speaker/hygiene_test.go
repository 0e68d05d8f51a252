package speaker

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/speaker/wire"
)

const (
	onlyToCustomer = 35
	roleCode       = 9
)

// with is an announcement with further attributes, whatever their form.
func with(m *bgp.BGPMessage, attributes ...bgp.PathAttributeInterface) *bgp.BGPMessage {
	u := m.Body.(*bgp.BGPUpdate)
	for _, a := range attributes {
		u.PathAttributes = slices.DeleteFunc(u.PathAttributes, func(b bgp.PathAttributeInterface) bool { return b.GetType() == a.GetType() })
	}
	u.PathAttributes = append(u.PathAttributes, attributes...)
	return m
}

func unknown(kind bgp.BGPAttrType, value ...byte) bgp.PathAttributeInterface {
	return bgp.NewPathAttributeUnknown(bgp.BGP_ATTR_FLAG_OPTIONAL|bgp.BGP_ATTR_FLAG_TRANSITIVE, kind, value)
}

// The import policy needs these attributes, whoever has the session.
func TestAttributesForTheImportPolicy(t *testing.T) {
	for name, start := range peerStarts {
		t.Run(name, func(t *testing.T) {
			s, peers := start(t, Config{}, 1)
			peers[0].send(with(bgptest.Announce6(t, []uint32{64601}, bgptest.Prefixes6(1, 1)),
				unknown(onlyToCustomer, 0, 0, 0xfc, 0x59),
				unknown(bgp.BGP_ATTR_TYPE_LARGE_COMMUNITY, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3),
				unknown(bgp.BGP_ATTR_TYPE_EXTENDED_COMMUNITIES, 0, 2, 0xfc, 0x59, 0, 0, 0, 7),
				bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{
					bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{64601}), bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SET, []uint32{1, 2}),
				})))
			a := skipTo[Learned](s, nil).Attributes
			if !a.HasOTC || a.OTC != 64601 {
				t.Errorf("OTC %t %d", a.HasOTC, a.OTC)
			}
			if got := a.LargeCommunities(); !slices.Equal(got, []LargeCommunity{{1, 2, 3}}) {
				t.Errorf("large communities %v", got)
			}
			if got := a.ExtendedCommunities(); !slices.Equal(got, []ExtendedCommunity{{0, 2, 0xfc, 0x59, 0, 0, 0, 7}}) {
				t.Errorf("extended communities %v", got)
			}
			if !a.ASPath.HasSet() || a.ASPath.First() != 64601 || a.ASPath.Origin() != 0 {
				t.Errorf("AS_PATH %s", a.ASPath)
			}
			if sent := a.ForServers(); sent.HasOTC || sent.OTC != 0 || len(sent.LargeCommunities())+len(sent.ExtendedCommunities()) > 0 {
				t.Errorf("to servers goes %+v", sent)
			}
		})
	}
}

func TestAnnouncementsThatCountAsWithdrawn(t *testing.T) {
	for name, start := range peerStarts {
		t.Run(name, func(t *testing.T) {
			s, peers := start(t, Config{}, 1)
			for i, c := range []struct {
				name  string
				path  []uint32
				more  []bgp.PathAttributeInterface
				cause WithdrawalCause
			}{
				{"RFC 7607 2: AS 0", []uint32{64601, 0, 64700}, nil, Malformed},
				{"RFC 9234 5: OTC of 3 bytes", []uint32{64601}, []bgp.PathAttributeInterface{unknown(onlyToCustomer, 0, 0, 1)}, Malformed},
				{"RFC 4271 9.1.2: our own AS", []uint32{64601, ownAS, 64700}, nil, Looped},
			} {
				prefixes := bgptest.Prefixes6(10*i, 2)
				peers[0].send(bgptest.Announce6(t, []uint32{64601}, prefixes))
				skipTo(s, func(l Learned) bool { return l.Prefixes[0] == prefixes[0] })
				peers[0].send(with(bgptest.Announce6(t, c.path, prefixes), c.more...))
				e := skipTo[Withdrawn](s, nil)
				if e.Cause != c.cause || len(e.Prefixes) != 2 {
					t.Errorf("%s: %+v", c.name, e)
				}
			}
		})
	}
}

// nextHops are the families with IPv6 next hops that an OPEN offers.
func nextHops(open *bgp.BGPOpen) (list []string) {
	for _, p := range open.OptParams {
		for _, c := range p.(*bgp.OptionParameterCapability).Capability {
			if c, ok := c.(*bgp.CapExtendedNexthop); ok {
				for _, tuple := range c.Tuples {
					list = append(list, fmt.Sprintf("%s-%d", bgp.NewFamily(tuple.NLRIAFI, uint8(tuple.NLRISAFI)), tuple.NexthopAFI))
				}
			}
		}
	}
	return list
}

// RFC 8950: IPv4 routes may have IPv6 next hops.
func TestExtendedNextHops(t *testing.T) {
	for name, start := range peerStarts {
		t.Run(name, func(t *testing.T) {
			s, peers := start(t, Config{}, 1)
			if got := nextHops(peers[0].opened); !slices.Equal(got, []string{"ipv4-unicast-2"}) {
				t.Errorf("OPEN offers %v", got)
			}
			if name == "GoBGP's" {
				return // the fake offers IPv6 alone there
			}
			hop := netip.MustParseAddr("2001:db8:a::1")
			reach := slices.Concat([]byte{0, 1, 1, 16}, hop.AsSlice(), []byte{0, 24, 193, 0, 2})
			path := bgptest.Attribute(bgptest.WellKnown, 2, 2, 1, 0, 0, 0xfc, 0x59)
			if _, err := peers[0].conn.Write(bgptest.UpdateMessage(bgptest.Attribute(bgptest.Optional, bgptest.ReachKind, reach...), bgptest.GoodOrigin, path)); err != nil {
				t.Fatal(err)
			}
			l := skipTo[Learned](s, nil)
			if l.Attributes.NextHop != hop || show(l.Prefixes) != "[193.0.2.0/24]" {
				t.Errorf("learned %v via %s", l.Prefixes, l.Attributes.NextHop)
			}
		})
	}
	r := listenAsReflector(t)
	startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{r.neighbor("rr", VPNv6, VPNv4)}})
	p := r.accept(nil, bgp.RF_IPv6_VPN, bgp.RF_IPv4_VPN)
	if got := nextHops(p.opened); !slices.Equal(got, []string{"l3vpn-ipv4-unicast-2"}) {
		t.Errorf("OPEN to a reflector offers %v", got)
	}
}

func role(value ...byte) bgp.ParameterCapabilityInterface { return bgp.NewCapUnknown(roleCode, value) }

// refusal is the NOTIFICATION that answers an OPEN with these capabilities, nil where the
// session comes up.
func refusal(t *testing.T, change func(*Neighbor), capabilities ...bgp.ParameterCapabilityInterface) (*bgp.BGPNotification, *bgp.BGPOpen) {
	t.Helper()
	r := listenAs(t, 64601)
	n := r.neighbor("a", IPv6Unicast)
	change(&n)
	startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{n}})
	conn, err := r.listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := &fakePeer{t: t, conn: conn, capabilities: capabilities, changed: make(chan struct{}, 1)}
	if p.open(r.at.Addr(), 64601, []bgp.Family{bgp.RF_IPv6_UC}) == nil {
		return nil, p.opened
	}
	return p.notification, p.opened
}

func TestRoles(t *testing.T) {
	for _, c := range []struct {
		name   string
		role   Role
		strict bool
		theirs []bgp.ParameterCapabilityInterface
		up     bool
	}{
		{"customer and provider", wire.Customer, true, []bgp.ParameterCapabilityInterface{role(0)}, true},
		{"provider and customer", wire.Provider, true, []bgp.ParameterCapabilityInterface{role(3)}, true},
		{"peers", wire.LateralPeer, true, []bgp.ParameterCapabilityInterface{role(4)}, true},
		{"client and route server", wire.RouteServerClient, true, []bgp.ParameterCapabilityInterface{role(1)}, true},
		{"route server and client", wire.RouteServer, true, []bgp.ParameterCapabilityInterface{role(2)}, true},
		{"twice the same", wire.Customer, false, []bgp.ParameterCapabilityInterface{role(0), role(0)}, true},
		{"none of theirs", wire.Customer, false, nil, true},
		{"none of ours", wire.NoRole, false, []bgp.ParameterCapabilityInterface{role(0)}, true},
		{"none of theirs, strict", wire.Customer, true, nil, false},
		{"two customers", wire.Customer, false, []bgp.ParameterCapabilityInterface{role(3)}, false},
		{"peer and provider", wire.LateralPeer, false, []bgp.ParameterCapabilityInterface{role(0)}, false},
		{"two different", wire.Customer, false, []bgp.ParameterCapabilityInterface{role(0), role(3)}, false},
		{"a role that there is not", wire.Customer, false, []bgp.ParameterCapabilityInterface{role(200)}, false},
		{"a role of two bytes", wire.Customer, false, []bgp.ParameterCapabilityInterface{role(0, 0)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, open := refusal(t, func(n *Neighbor) { n.Role, n.StrictRole = c.role, c.strict }, c.theirs...)
			if c.up && n != nil || !c.up && (n == nil || n.ErrorCode != bgp.BGP_ERROR_OPEN_MESSAGE_ERROR || n.ErrorSubcode != 11) {
				t.Errorf("the answer is %+v", n)
			}
			var sent []byte
			if open != nil {
				for _, p := range open.OptParams {
					for _, o := range p.(*bgp.OptionParameterCapability).Capability {
						if o, ok := o.(*bgp.CapUnknown); ok && o.Code() == roleCode {
							sent = o.CapValue
						}
					}
				}
			}
			if want := c.role != wire.NoRole; open != nil && (len(sent) == 1) != want || len(sent) == 1 && Role(sent[0])+1 != c.role {
				t.Errorf("the role sent is %v", sent)
			}
		})
	}
}

// GoBGP knows no roles: what it would take is ended.
func TestRolesOfSessionsThatNeighboursOpen(t *testing.T) {
	at := loopback()
	s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{{
		Name: "a", Address: at, AS: 64601, Families: []Family{IPv6Unicast}, Passive: true, MultihopTTL: 2, Role: wire.Customer,
	}}})
	p := dialSilent(t, at, s.at, 64601, []bgp.ParameterCapabilityInterface{role(3)}, bgp.RF_IPv6_UC)
	go p.keepAlive()
	go p.receive()
	if none := expect[NoSession](s); !strings.Contains(none.Reason, "role customer is not provider") {
		t.Errorf("no session, since %s", none.Reason)
	}
	p.waitForEnd()
	right := dialSilent(t, at, s.at, 64601, []bgp.ParameterCapabilityInterface{role(0)}, bgp.RF_IPv6_UC)
	go right.keepAlive()
	go right.receive()
	skipTo[PeerUp](s, nil)
}

func TestOwnPrefixesAreMarkedOnlyToCustomers(t *testing.T) {
	four := netip.MustParsePrefix("198.51.100.0/24")
	for r, marked := range map[Role]bool{
		wire.NoRole: false, wire.Customer: false, wire.RouteServerClient: false,
		wire.Provider: true, wire.LateralPeer: true, wire.RouteServer: true,
	} {
		l := listenAs(t, 64601)
		n := l.neighbor("a", IPv4Unicast)
		n.Role = r
		startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{n}, Originate: []netip.Prefix{four}})
		p := l.accept(nil, bgp.RF_IPv4_UC)
		p.waitFor("own prefix", func(u *bgp.BGPUpdate) bool {
			if len(bgptest.Announced(u)) == 0 {
				return false
			}
			a, _ := wire.AttributesOfPeer(u.PathAttributes)
			if a.HasOTC != marked || marked && a.OTC != ownAS {
				t.Errorf("as %s: OTC %t %d", r, a.HasOTC, a.OTC)
			}
			return true
		})
	}
}

func TestSessionThatIsEndedForTooManyRoutes(t *testing.T) {
	for name, start := range peerStarts {
		t.Run(name, func(t *testing.T) {
			s, peers := start(t, Config{}, 1)
			if err := s.EndSession("a", "too many"); err != nil {
				t.Fatal(err)
			}
			if down := skipTo[PeerDown](s, nil); down.Cause != EndLocal {
				t.Errorf("down %+v", down)
			}
			peers[0].waitForEnd()
			peers[0].mu.Lock()
			n := peers[0].notification
			peers[0].mu.Unlock()
			// GoBGP knows an administrative shutdown alone (RFC 4486 §3).
			subcode := map[string]uint8{"ours": 1, "GoBGP's": 2}[name]
			if n == nil || n.ErrorCode != bgp.BGP_ERROR_CEASE || n.ErrorSubcode != subcode {
				t.Errorf("the peer got %+v", n)
			}
			if err := s.EndSession("a", "too many"); err != nil && name == "ours" {
				t.Error(err)
			}
			if err := s.ResumeSession("a"); err != nil {
				t.Fatal(err)
			}
			if err := s.RemoveNeighbor("a"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRoutesAreAskedForAgain(t *testing.T) {
	r := listenAs(t, 64601)
	r.capabilities = []bgp.ParameterCapabilityInterface{bgp.NewCapRouteRefresh()}
	s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{r.neighbor("a", IPv6Unicast, IPv4Unicast)}})
	p := r.acceptUnread(0, bgp.RF_IPv6_UC, bgp.RF_IPv4_UC)
	skipTo[PeerUp](s, nil)
	if err := s.RequestRoutes("a"); err != nil {
		t.Fatal(err)
	}
	var asked []string
	p.conn.SetReadDeadline(time.Now().Add(patience))
	for len(asked) < 2 {
		m, err := p.read()
		if err != nil {
			t.Fatal(err)
		}
		if refresh, ok := m.Body.(*bgp.BGPRouteRefresh); ok {
			asked = append(asked, bgp.NewFamily(refresh.AFI, refresh.SAFI).String())
		}
	}
	if !slices.Equal(asked, []string{"ipv6-unicast", "ipv4-unicast"}) {
		t.Errorf("asked for %v", asked)
	}
	// Without the capability a new session has all routes.
	old := listenAs(t, 64602)
	s.connect(old.neighbor("b", IPv6Unicast))
	old.accept(nil, bgp.RF_IPv6_UC)
	skipTo(s, func(up PeerUp) bool { return up.Peer == "b" })
	if err := s.RequestRoutes("b"); err != nil {
		t.Fatal(err)
	}
	old.accept(nil, bgp.RF_IPv6_UC)
	skipTo(s, func(up PeerUp) bool { return up.Peer == "b" })
}

// GoBGP has the routes of its sessions, so these stay.
func TestRoutesAreReportedAgainByGoBGP(t *testing.T) {
	for name, config := range map[string]Config{"passive": {}, "best paths": {BestPaths: true}} {
		t.Run(name, func(t *testing.T) {
			s, peers := startWithPeers(t, config, 2)
			prefixes := bgptest.Prefixes6(1, 600)
			for i, p := range peers {
				as := uint32(64601 + i)
				for _, part := range [][]netip.Prefix{prefixes[:300], prefixes[300:]} {
					p.send(bgptest.Announce6(t, []uint32{as, 64700}, part))
				}
				p.send(bgptest.Announce6(t, []uint32{as, ownAS, 64700}, bgptest.Prefixes6(5000, 1)))
				p.send(bgptest.Withdraw6(t, prefixes[5]))
				name := string(rune('a' + i))
				skipTo(s, func(w Withdrawn) bool { return w.Peer == name && w.Cause == ByPeer })
			}
			if err := s.RequestRoutes("a"); err != nil {
				t.Fatal(err)
			}
			again := map[netip.Prefix]int{}
			var looped bool
			for len(again) < len(prefixes)-1 || !looped {
				switch e := s.next().(type) {
				case Learned:
					if e.Peer != "a" || e.Attributes.ASPath.String() != "64601 64700" {
						t.Fatalf("%s announces again %+v", e.Peer, e.Attributes)
					}
					for _, p := range e.Prefixes {
						again[p]++
					}
				case Withdrawn:
					looped = looped || e.Cause == Looped
				case PeerDown:
					t.Fatalf("the session ended: %s", e.Reason)
				}
			}
			for prefix, times := range again {
				if times != 1 || prefix == prefixes[5] {
					t.Errorf("%s was reported %d times", prefix, times)
				}
			}
		})
	}
}

// A route that changes while GoBGP's table is read is not reported as it was.
func TestReplayLeavesOutWhatHasChanged(t *testing.T) {
	s, peers := startWithPeers(t, Config{}, 1)
	prefixes := bgptest.Prefixes6(1, 2)
	peers[0].send(bgptest.Announce6(t, []uint32{64601, 64700}, prefixes))
	skipTo[Learned](s, nil)
	n := s.neighbors["a"]
	paths, err := s.pathsOf(n)
	if err != nil || len(paths) != 2 {
		t.Fatalf("GoBGP has %d paths, %v", len(paths), err)
	}
	begun := &replay{changed: map[netip.Prefix]struct{}{}}
	ready := make(chan struct{})
	s.dispatcher.inbox.post(func(context.Context) {
		state := s.dispatcher.sessions[n.Address]
		begun.session, state.replay = state.number, begun
		close(ready)
	})
	<-ready
	peers[0].send(bgptest.Withdraw6(t, prefixes[0]))
	skipTo[Withdrawn](s, nil)
	s.dispatcher.inbox.post(func(ctx context.Context) { s.dispatcher.replayed(ctx, n.Address, begun, paths) })
	if e := skipTo[Learned](s, nil); !slices.Equal(e.Prefixes, prefixes[1:]) {
		t.Errorf("reported %v again, and %v was withdrawn meanwhile", e.Prefixes, prefixes[0])
	}
}

// An AS number of 0 is nobody's (RFC 7607 §2).
func TestNeighbourWithoutASNumber(t *testing.T) {
	r := listenAs(t, 64601)
	startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{r.neighbor("a", IPv6Unicast)}})
	conn, err := r.listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := &fakePeer{t: t, conn: conn, changed: make(chan struct{}, 1)}
	if p.open(r.at.Addr(), 0, []bgp.Family{bgp.RF_IPv6_UC}) == nil {
		t.Fatal("a session with AS 0 came up")
	}
	if n := p.notification; n == nil || n.ErrorCode != bgp.BGP_ERROR_OPEN_MESSAGE_ERROR || n.ErrorSubcode != bgp.BGP_ERROR_SUB_BAD_PEER_AS {
		t.Errorf("the answer is %+v", n)
	}
}

func TestAggregatorWithoutASNumber(t *testing.T) {
	s, peers := startWithOwnPeers(t, Config{}, 1)
	value := append(binary.BigEndian.AppendUint32(nil, 0), 192, 0, 2, 1)
	peers[0].send(with(bgptest.Announce6(t, []uint32{64601}, bgptest.Prefixes6(1, 1)), unknown(bgp.BGP_ATTR_TYPE_AGGREGATOR, value...)))
	if f := skipTo[Faulty](s, nil); f.Discarded != 1 || f.Withdrawn != 0 {
		t.Errorf("faults %+v", f)
	}
	skipTo[Learned](s, nil)
}

package speaker

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"hikyaku/egress/speaker/bgptest"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// startWithPeers starts a speaker with passive egress peers and connects fakes.
func startWithPeers(t *testing.T, config Config, count int) (*testSpeaker, []*fakePeer) {
	t.Helper()
	locals := make([]netip.Addr, count)
	for i := range locals {
		locals[i] = loopback()
		config.Neighbors = append(config.Neighbors, Neighbor{
			Name: string(rune('a' + i)), Address: locals[i], AS: uint32(64601 + i), Families: []Family{IPv6Unicast, IPv4Unicast}, Passive: true, MultihopTTL: 2,
		})
	}
	s := startSpeaker(t, loopback(), config)
	peers := make([]*fakePeer, count)
	for i, local := range locals {
		peers[i] = dialPeer(t, local, s.at, uint32(64601+i), bgp.RF_IPv6_UC)
		up := skipTo[PeerUp](s, nil)
		if up.Peer != string(rune('a'+i)) || up.Address != local || !slices.Equal(up.Families, []Family{IPv6Unicast}) {
			t.Fatalf("peer came up as %+v", up)
		}
	}
	return s, peers
}

// startWithOwnPeers does so with fakes that wait, so that the sessions are ours.
func startWithOwnPeers(t *testing.T, config Config, count int) (*testSpeaker, []*fakePeer) {
	t.Helper()
	var waiting []*fakeReflector
	for i := range count {
		r := listenAs(t, uint32(64601+i))
		waiting = append(waiting, r)
		config.Neighbors = append(config.Neighbors, r.neighbor(string(rune('a'+i)), IPv6Unicast, IPv4Unicast))
	}
	s := startSpeaker(t, loopback(), config)
	var peers []*fakePeer
	for i, r := range waiting {
		peers = append(peers, r.accept(nil, bgp.RF_IPv6_UC, bgp.RF_IPv4_UC))
		name := string(rune('a' + i))
		up := skipTo(s, func(up PeerUp) bool { return up.Peer == name })
		if up.AS != r.as || up.LocalAddress != s.at.Addr() && !up.LocalAddress.IsLoopback() || len(up.Families) != 2 {
			t.Fatalf("peer came up as %+v", up)
		}
	}
	return s, peers
}

// peerStarts are the two kinds of sessions with egress peers.
var peerStarts = map[string]func(*testing.T, Config, int) (*testSpeaker, []*fakePeer){
	"GoBGP's": startWithPeers, "ours": startWithOwnPeers,
}

func TestRoutesOfTransit(t *testing.T) {
	us, transit := loopback(), startRouter(t, loopback(), 64601)
	transit.accept(us, ownAS, false, IPv6Unicast, IPv4Unicast)
	six, four := bgptest.Prefixes6(1, 2), netip.MustParsePrefix("198.51.100.0/24")
	transit.announce(Attributes{ASPath: NewASPath(64700), MED: 7, HasMED: true}.WithCommunities(64601<<16|5), six...)
	s := startSpeaker(t, us, Config{Neighbors: []Neighbor{transit.neighbor("transit", 64601, us, IPv6Unicast, IPv4Unicast)}})

	up := expect[PeerUp](s)
	if up.Peer != "transit" || up.AS != 64601 || up.RouterID != transit.at.Addr() || up.LocalAddress != us || len(up.Families) != 2 {
		t.Errorf("session came up as %+v", up)
	}
	// Families may come in any order, but a family's End-of-RIB after its routes.
	learned, ended := firstTable(s)
	want := Attributes{
		NextHop: netip.MustParseAddr("2001:db8:ffff::1"), ASPath: NewASPath(64601, 64700), MED: 7, HasMED: true,
	}.WithCommunities(64601<<16 | 5)
	slices.SortFunc(learned.Prefixes, netip.Prefix.Compare)
	if learned.Peer != "transit" || show(learned.Prefixes) != show(six) {
		t.Errorf("learned %+v", learned)
	}
	if *learned.Attributes != want {
		t.Errorf("attributes are %+v, want %+v", *learned.Attributes, want)
	}
	if slices.Sort(ended); !slices.Equal(ended, []Family{IPv4Unicast, IPv6Unicast}) {
		t.Errorf("End-of-RIB came for %v", ended)
	}

	transit.announce(Attributes{ASPath: NewASPath(64800)}, four)
	if l := expect[Learned](s); show(l.Prefixes) != show([]netip.Prefix{four}) || l.Attributes.ASPath.String() != "64601 64800" {
		t.Errorf("IPv4 learned as %+v", l)
	}
	transit.announce(Attributes{ASPath: NewASPath(64900)}, six[0])
	if l := expect[Learned](s); l.Prefixes[0] != six[0] || l.Attributes.ASPath.Origin() != 64900 {
		t.Errorf("change learned as %+v", l)
	}
	transit.withdraw(six[0])
	if w := expect[Withdrawn](s); show(w.Prefixes) != show(six[:1]) {
		t.Errorf("withdrawn %v", w.Prefixes)
	}
	transit.Stop()
	if down := expect[PeerDown](s); down.Peer != "transit" {
		t.Errorf("down is %+v", down)
	}
	s.quiet(200 * time.Millisecond)
}

// firstTable reads one Learned, of IPv6, and two End-of-RIBs.
func firstTable(s *testSpeaker) (learned Learned, ended []Family) {
	s.t.Helper()
	for range 3 {
		switch e := s.next().(type) {
		case Learned:
			learned = e
			if slices.Contains(ended, IPv6Unicast) {
				s.t.Errorf("%v came after the family's End-of-RIB", e.Prefixes)
			}
		case EndOfRIB:
			ended = append(ended, e.Family)
			if e.Implied {
				s.t.Errorf("End-of-RIB of %s is implied, the daemon sends one", e.Family)
			}
		default:
			s.t.Fatalf("unexpected event %#v", e)
		}
	}
	if learned.Attributes == nil {
		s.t.Fatal("nothing was learned")
	}
	return learned, ended
}

func TestCausesOfWithdrawal(t *testing.T) {
	s, peers := startWithPeers(t, Config{BestPaths: true}, 1)
	p := bgptest.Prefixes6(1, 1)
	cases := []struct {
		name    string
		message *bgp.BGPMessage
	}{
		{"own AS in the path", bgptest.Announce6(t, []uint32{64601, ownAS, 64700}, p)},
		{"own AS as origin", bgptest.Announce6(t, []uint32{64601, ownAS}, p)},
		{"own AS often", bgptest.Announce6(t, append([]uint32{64601}, slices.Repeat([]uint32{ownAS}, 200)...), p)},
		{"explicit", bgptest.Withdraw6(t, p...)},
		{"malformed ORIGIN (RFC 7606 §7.1)", replaceOrigin(bgptest.Announce6(t, []uint32{64601}, p), bgp.NewPathAttributeOrigin(7))},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			peers[0].send(bgptest.Announce6(t, []uint32{64601, 64700}, p))
			skipTo(s, func(l Learned) bool { return l.Prefixes[0] == p[0] })
			skipTo(s, func(b BestPath) bool { return b.Prefix == p[0] && b.Peer == "a" })
			peers[0].send(c.message)
			skipTo(s, func(w Withdrawn) bool { return show(w.Prefixes) == show(p) })
			// GoBGP's own table must forget it, too: it feeds the reflectors.
			skipTo(s, func(b BestPath) bool { return b.Prefix == p[0] && b.Attributes == nil })
		})
	}
}

func replaceOrigin(m *bgp.BGPMessage, origin bgp.PathAttributeInterface) *bgp.BGPMessage {
	u := m.Body.(*bgp.BGPUpdate)
	for i, a := range u.PathAttributes {
		if a.GetType() == bgp.BGP_ATTR_TYPE_ORIGIN {
			u.PathAttributes[i] = origin
		}
	}
	return m
}

func TestNeverTransit(t *testing.T) {
	own := netip.MustParsePrefix("2001:db8:500::/40")
	for name, best := range map[string]bool{"per peer only": false, "best paths": true} {
		t.Run(name, func(t *testing.T) {
			s, peers := startWithPeers(t, Config{Originate: []netip.Prefix{own}, BestPaths: best}, 2)
			peers[0].send(bgptest.Announce6(t, []uint32{64601, 64700}, bgptest.Prefixes6(1, 3)))
			skipTo[Learned](s, nil)
			// A later own prefix shows that the former messages have arrived, too.
			second := netip.MustParsePrefix("2001:db8:600::/40")
			if err := s.originate(second); err != nil {
				t.Fatal(err)
			}
			for _, p := range peers {
				p.waitFor("own prefix", func(u *bgp.BGPUpdate) bool { return slices.Contains(bgptest.Announced(u), second) })
				if got := p.received(); len(got) != 2 || !got[own] {
					t.Errorf("peer was sent %v, only our own prefixes may go out", got)
				}
			}
		})
	}
}

func TestEndOfRIBIsImpliedWhenNoneComes(t *testing.T) {
	s, peers := startWithPeers(t, Config{EndOfRIBTime: 300 * time.Millisecond}, 1)
	if e := expect[EndOfRIB](s); !e.Implied || e.Family != IPv6Unicast || e.Peer != "a" {
		t.Errorf("got %+v", e)
	}
	peers[0].send(bgp.NewEndOfRib(bgp.RF_IPv6_UC))
	s.quiet(300 * time.Millisecond)
}

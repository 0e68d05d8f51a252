package speaker

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/srv6"
)

// unicastOf is a reflector's message of unicast routes.
func unicastOf(t *testing.T, hop netip.Addr, prefixes ...netip.Prefix) *bgp.BGPMessage {
	t.Helper()
	attributes := []bgp.PathAttributeInterface{
		bgp.NewPathAttributeOrigin(0),
		bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{64601})}),
		bgp.NewPathAttributeLocalPref(100),
	}
	originator, err := bgp.NewPathAttributeOriginatorId(netip.MustParseAddr("192.0.2.101"))
	if err != nil {
		t.Fatal(err)
	}
	attributes = append(attributes, originator)
	if prefixes[0].Addr().Is4() {
		next, err := bgp.NewPathAttributeNextHop(hop)
		if err != nil {
			t.Fatal(err)
		}
		return bgp.NewBGPUpdateMessage(nil, append(attributes, next), bgptest.NLRIs(t, prefixes))
	}
	reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, bgptest.NLRIs(t, prefixes), hop)
	if err != nil {
		t.Fatal(err)
	}
	return bgp.NewBGPUpdateMessage(nil, append(attributes, reach), nil)
}

// TestBestPathsBesideVPNRoutes has a reflector send both on one session of ours.
func TestBestPathsBesideVPNRoutes(t *testing.T) {
	r := listenAsReflector(t)
	s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{r.neighbor("rr", VPNv6, VPNv4, IPv6Unicast, IPv4Unicast)}})
	p := r.accept(nil, bgp.RF_IPv6_VPN, bgp.RF_IPv6_UC, bgp.RF_IPv4_UC)
	if up := expect[PeerUp](s); !slices.Contains(up.Families, VPNv6) || !slices.Contains(up.Families, IPv6Unicast) || !slices.Contains(up.Families, IPv4Unicast) {
		t.Fatalf("the session has %v", up.Families)
	}
	six, four := bgptest.Prefixes6(1, 3), []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	best := func(hop string, prefixes ...netip.Prefix) {
		t.Helper()
		var want netip.Addr
		if hop != "" {
			want = netip.MustParseAddr(hop)
		}
		e := expect[ReflectedBest](s)
		if e.Reflector != "rr" || e.NextHop != want || show(e.Prefixes) != show(prefixes) || (hop != "") != e.Originator.IsValid() {
			t.Errorf("best paths %+v, want %v by %q", e, prefixes, hop)
		}
	}
	p.send(unicastOf(t, netip.MustParseAddr("2001:db8:a1::1"), six...))
	best("2001:db8:a1::1", six...)
	p.send(unicastOf(t, netip.MustParseAddr("192.0.2.7"), four...))
	best("192.0.2.7", four...)
	id, route := testRoute(t, netip.MustParseAddr("192.0.2.1"), "transit", srv6.EndDT6, 64601)
	p.send(vpnMessage(t, id.RD, route, six))
	if e := expect[VPNLearned](s); e.RD != id.RD || len(e.Prefixes) != len(six) {
		t.Errorf("VPN routes %+v", e)
	}
	p.send(bgptest.Withdraw6(t, six[0]))
	best("", six[0])
	p.send(bgp.NewEndOfRib(bgp.RF_IPv6_UC))
	if e := expect[EndOfRIB](s); e.Family != IPv6Unicast || e.Implied {
		t.Errorf("End-of-RIB %+v", e)
	}
	p.conn.Close()
	expect[PeerDown](s)
}

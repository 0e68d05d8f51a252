package speaker

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/srv6"
)

func TestASPath(t *testing.T) {
	long := make([]uint32, 300)
	for i := range long {
		long[i] = uint32(i + 1)
	}
	sets := asPathFromGoBGP(bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{
		bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_CONFED_SEQ, []uint32{65001}),
		bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{64601, 4200000000}),
		bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SET, []uint32{7, 8}),
	}))
	cases := []struct {
		name     string
		path     ASPath
		text     string
		length   int
		origin   uint32
		contains uint32
		not      uint32
	}{
		{"empty", ASPath{}, "", 0, 0, 0, 1},
		{"sequence", NewASPath(64601, 64700), "64601 64700", 2, 64700, 64601, 64702},
		{"sets", sets, "(65001) 64601 4200000000 {7,8}", 3, 0, 8, 9},
		{"longer than a segment", NewASPath(long...), NewASPath(long...).String(), 300, 300, 256, 301},
		{"truncated", ASPath{raw: "\x02\x02\x00\x00"}, "", 0, 0, 0, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.path.String() != c.text || c.path.Len() != c.length || c.path.Origin() != c.origin {
				t.Errorf("path is %q, length %d, origin %d", c.path, c.path.Len(), c.path.Origin())
			}
			if c.contains != 0 && !c.path.Contains(c.contains) || c.path.Contains(c.not) {
				t.Errorf("contains %d: %v, %d: %v", c.contains, c.path.Contains(c.contains), c.not, c.path.Contains(c.not))
			}
		})
	}
}

func TestRouteTargetsOfRoute(t *testing.T) {
	targets := []srv6.RouteTarget{
		srv6.NewRouteTarget(netip.MustParseAddr("192.0.2.1"), 1), srv6.NewRouteTarget(netip.MustParseAddr("192.0.2.1"), 2),
	}
	r := NewVPNRoute(srv6.Service{}, Attributes{}, targets...)
	if !slices.Equal(r.Targets(), targets) || !r.HasTarget(targets[1]) || r.HasTarget(srv6.RouteTarget{}) {
		t.Errorf("targets are %v", r.Targets())
	}
}

// What comes from the network goes through here, so it must neither panic nor
// change on the way through.
func FuzzAttributes(f *testing.F) {
	for _, path := range [][]uint32{nil, {64601}, {64601, 4200000000}} {
		attrs := Attributes{ASPath: NewASPath(path...), MED: 1, HasMED: true, LocalPref: 100}.WithCommunities(1, 2).gobgp()
		reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, pathNLRIs(f, prefixes6(1, 2)), netip.MustParseAddr("2001:db8::1"))
		if err != nil {
			f.Fatal(err)
		}
		b, err := bgp.NewBGPUpdateMessage(nil, append(attrs, reach), nil).Serialize()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[bgp.BGP_HEADER_LENGTH:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		u := &bgp.BGPUpdate{}
		if u.DecodeFromBytes(body) != nil {
			return
		}
		a := attributesFromGoBGP(u.PathAttributes)
		_, _ = a.ASPath.String(), a.Communities()
		back := attributesFromGoBGP(a.gobgp())
		back.NextHop = a.NextHop
		if back != a {
			t.Errorf("attributes became %+v from %+v", back, a)
		}
		for _, n := range append(u.NLRI, u.WithdrawnRoutes...) {
			unicastPrefix(n.NLRI)
		}
		for _, attr := range u.PathAttributes {
			if mp, ok := attr.(*bgp.PathAttributeMpReachNLRI); ok {
				for _, n := range mp.Value {
					unicastPrefix(n.NLRI)
					vpnNLRI(n.NLRI)
				}
			}
		}
	})
}

func TestConfigFaults(t *testing.T) {
	good := Neighbor{Name: "n", Address: netip.MustParseAddr("192.0.2.2"), AS: 64601, Families: []Family{IPv6Unicast}}
	with := func(change func(*Neighbor)) Neighbor { n := good; change(&n); return n }
	cases := []struct {
		name string
		n    Neighbor
		ok   bool
	}{
		{"good", good, true},
		{"no name", with(func(n *Neighbor) { n.Name = "" }), false},
		{"no address", with(func(n *Neighbor) { n.Address = netip.Addr{} }), false},
		{"mapped address", with(func(n *Neighbor) { n.Address = netip.MustParseAddr("::ffff:192.0.2.2") }), false},
		{"no AS", with(func(n *Neighbor) { n.AS = 0 }), false},
		{"no family", with(func(n *Neighbor) { n.Families = nil }), false},
		{"unknown family", with(func(n *Neighbor) { n.Families = []Family{9} }), false},
		{"VPN to an egress peer", with(func(n *Neighbor) { n.Families = []Family{VPNv6} }), false},
		{"VPN to a reflector", with(func(n *Neighbor) { n.AS, n.Families = ownAS, []Family{VPNv6} }), true},
		{"local address of the other family", with(func(n *Neighbor) { n.LocalAddress = netip.MustParseAddr("2001:db8::1") }), false},
		{"hold time too short", with(func(n *Neighbor) { n.HoldTime = 1e9 }), false},
		{"graceful restart too long", with(func(n *Neighbor) { n.GracefulRestart = 4096e9 }), false},
		{"TTL security and multihop", with(func(n *Neighbor) { n.TTLSecurity, n.MultihopTTL = true, 2 }), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			config := Config{AS: ownAS, RouterID: netip.MustParseAddr("192.0.2.1"), Neighbors: []Neighbor{c.n}}
			if err := config.validate(); (err == nil) != c.ok {
				t.Errorf("validate says %v", err)
			}
		})
	}
	config := Config{Neighbors: []Neighbor{good, good}, Originate: []netip.Prefix{netip.MustParsePrefix("2001:db8::1/32")}}
	if _, err := Start(t.Context(), config); err == nil {
		t.Error("a speaker without AS, without router ID and with a neighbour twice was started")
	}
}

func TestLargeCommunitiesAreSent(t *testing.T) {
	a := Attributes{}.WithCommunities(1).WithLargeCommunities(LargeCommunity{64500, 1, 2}, LargeCommunity{4200000000, 3, 4})
	var sent []string
	for _, attribute := range a.gobgp() {
		if large, ok := attribute.(*bgp.PathAttributeLargeCommunities); ok {
			for _, c := range large.Values {
				sent = append(sent, c.String())
			}
		}
	}
	if want := []string{"64500:1:2", "4200000000:3:4"}; !slices.Equal(sent, want) {
		t.Errorf("sent are %v, want %v", sent, want)
	}
}

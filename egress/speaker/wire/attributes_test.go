package wire

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/bgptest"
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

// Data from the network go through here, so they must neither panic nor change on the way
// through.
func FuzzAttributes(f *testing.F) {
	for _, path := range [][]uint32{nil, {64601}, {64601, 4200000000}} {
		attrs := Attributes{ASPath: NewASPath(path...), MED: 1, HasMED: true, LocalPref: 100}.WithCommunities(1, 2).GoBGP()
		reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, bgptest.NLRIs(f, bgptest.Prefixes6(1, 2)), netip.MustParseAddr("2001:db8::1"))
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
		a := AttributesFromGoBGP(u.PathAttributes)
		_, _ = a.ASPath.String(), a.Communities()
		back := AttributesFromGoBGP(a.GoBGP())
		back.NextHop = a.NextHop
		if back != a {
			t.Errorf("attributes became %+v from %+v", back, a)
		}
		for _, n := range append(u.NLRI, u.WithdrawnRoutes...) {
			UnicastPrefix(n.NLRI)
		}
		for _, attr := range u.PathAttributes {
			if mp, ok := attr.(*bgp.PathAttributeMpReachNLRI); ok {
				for _, n := range mp.Value {
					UnicastPrefix(n.NLRI)
					VPNNLRI(n.NLRI)
				}
			}
		}
	})
}

func TestLargeCommunitiesAreSent(t *testing.T) {
	a := Attributes{}.WithCommunities(1).WithLargeCommunities(LargeCommunity{64500, 1, 2}, LargeCommunity{4200000000, 3, 4})
	var sent []string
	for _, attribute := range a.GoBGP() {
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

// A border keeps millions of them, and the next size of Go's allocator is 112 bytes.
func TestAttributesAreSmall(t *testing.T) {
	if size := reflect.TypeFor[Attributes]().Size(); size > 96 {
		t.Errorf("attributes take %d bytes", size)
	}
}

func TestPathsWithoutTheirLeadingAS(t *testing.T) {
	const own = 64500
	for _, test := range []struct{ path, want ASPath }{
		{NewASPath(), NewASPath()},
		{NewASPath(own), NewASPath()},
		{NewASPath(1, 2), NewASPath(1, 2)},
		{NewASPath(own, 1, 2), NewASPath(1, 2)},
		{NewASPath(own, own, own, 1, own), NewASPath(1, own)},
	} {
		if got := test.path.WithoutLeading(own); got != test.want {
			t.Errorf("%q becomes %q, want %q", test.path, got, test.want)
		}
	}
}

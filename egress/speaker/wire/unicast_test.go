package wire

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/bgptest"
)

func TestMalformedUpdatesOfPeers(t *testing.T) {
	hop := bgptest.Attribute(bgptest.WellKnown, 3, 192, 0, 2, 1)
	plain := func(attributes ...[]byte) []byte { return append(bgptest.UpdateBody(attributes...), 8, 10) }
	six := func(hop ...byte) []byte {
		return bgptest.Attribute(bgptest.Optional, bgptest.ReachKind, slices.Concat([]byte{0, 2, 1, byte(len(hop))}, hop, []byte{0, 16, 0x20, 1})...)
	}
	global := netip.MustParseAddr("2001:db8::1").AsSlice()
	for _, c := range []struct {
		name string // with the section of RFC 7606, unless another is named
		body []byte
		want outcome
	}{
		{"IPv4 routes", plain(bgptest.GoodOrigin, bgptest.GoodPath, hop), accepted},
		{"3 d: IPv4 routes without NEXT_HOP", plain(bgptest.GoodOrigin, bgptest.GoodPath), withdrawn},
		{"3 d: IPv4 routes without AS_PATH", plain(bgptest.GoodOrigin, hop), withdrawn},
		{"7.3: NEXT_HOP of 5 bytes", plain(bgptest.GoodOrigin, bgptest.GoodPath, bgptest.Attribute(bgptest.WellKnown, 3, 192, 0, 2, 1, 0)), withdrawn},
		{"RFC 4271 6.3: NEXT_HOP 0.0.0.0", plain(bgptest.GoodOrigin, bgptest.GoodPath, bgptest.Attribute(bgptest.WellKnown, 3, 0, 0, 0, 0)), withdrawn},
		{"RFC 4271 6.3: NEXT_HOP of a group", plain(bgptest.GoodOrigin, bgptest.GoodPath, bgptest.Attribute(bgptest.WellKnown, 3, 224, 0, 0, 1)), withdrawn},
		{"IPv6 routes", bgptest.UpdateBody(six(global...), bgptest.GoodOrigin, bgptest.GoodPath), accepted},
		{"IPv6 routes with a link-local next hop, too", bgptest.UpdateBody(six(slices.Concat(global, global)...), bgptest.GoodOrigin, bgptest.GoodPath), accepted},
		{"RFC 4760 3: NEXT_HOP does not count for IPv6", bgptest.UpdateBody(six(global...), bgptest.GoodOrigin, bgptest.GoodPath, bgptest.Attribute(bgptest.WellKnown, 3, 0, 0, 0, 0)), accepted},
		{"both families", append(bgptest.UpdateBody(six(global...), bgptest.GoodOrigin, bgptest.GoodPath, hop), 8, 10), accepted},
		{"an unspecified next hop", bgptest.UpdateBody(six(make([]byte, 16)...), bgptest.GoodOrigin, bgptest.GoodPath), withdrawn},
		{"7.11: a next hop of 4 bytes for IPv6", bgptest.UpdateBody(six(192, 0, 2, 1), bgptest.GoodOrigin, bgptest.GoodPath), reset},
		{"RFC 5065 5: a confederation's segment", plain(bgptest.GoodOrigin, bgptest.Attribute(bgptest.WellKnown, 2, 3, 1, 0, 0, 0, 1), hop), withdrawn},
		{"RFC 7607 2: AS 0", plain(bgptest.GoodOrigin, bgptest.Attribute(bgptest.WellKnown, 2, 2, 2, 0, 0, 0xfc, 0x59, 0, 0, 0, 0), hop), withdrawn},
		{"7.5: LOCAL_PREF", plain(bgptest.GoodOrigin, bgptest.GoodPath, hop, bgptest.Attribute(bgptest.WellKnown, 5, 0)), accepted},
		{"7.9: ORIGINATOR_ID", plain(bgptest.GoodOrigin, bgptest.GoodPath, hop, bgptest.Attribute(bgptest.Optional, 9, 1)), accepted},
		{"7.10: CLUSTER_LIST", plain(bgptest.GoodOrigin, bgptest.GoodPath, hop, bgptest.Attribute(bgptest.Optional, 10, 1)), accepted},
		{"VPN routes are left out", bgptest.UpdateBody(bgptest.GoodReach, bgptest.GoodOrigin, bgptest.GoodPath), accepted},
		{"5.3: a prefix of 33 bits", append(bgptest.UpdateBody(bgptest.GoodOrigin, bgptest.GoodPath, hop), 33, 1, 2, 3, 4, 5), reset},
		{"5.3: a prefix that is cut off", append(bgptest.UpdateBody(bgptest.GoodOrigin, bgptest.GoodPath, hop), 24, 10, 1), reset},
		{"5.3: a withdrawn prefix that is cut off", []byte{0, 2, 24, 10, 0, 0}, reset},
		{"withdrawn IPv4 routes", []byte{0, 2, 8, 10, 0, 0}, accepted},
		{"RFC 4724 2: End-of-RIB", []byte{0, 0, 0, 0}, accepted},
	} {
		got, u := outcomeFrom(c.body, FromPeer)
		if got != c.want {
			t.Errorf("%s: %s, want %s; faults %+v", c.name, got, c.want, u.Faults)
		}
		for _, a := range u.Attributes {
			if _, ok := a.(*bgp.PathAttributeLocalPref); ok {
				t.Errorf("%s: LOCAL_PREF of another AS was taken", c.name)
			}
		}
	}
}

// FuzzParsePeerUpdate looks for panics, and for routes that GoBGP reads otherwise.
func FuzzParsePeerUpdate(f *testing.F) {
	for _, m := range []*bgp.BGPMessage{
		bgptest.Announce6(f, []uint32{64601, 64700}, bgptest.Prefixes6(0, 3)), bgptest.Withdraw6(f, bgptest.Prefixes6(0, 2)...),
		bgp.NewEndOfRib(bgp.RF_IPv4_UC), bgp.NewEndOfRib(bgp.RF_IPv6_UC),
	} {
		b, err := m.Serialize()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[HeaderLength:])
	}
	f.Add(append(bgptest.UpdateBody(bgptest.GoodOrigin, bgptest.GoodPath, bgptest.Attribute(bgptest.WellKnown, 3, 192, 0, 2, 1)), 8, 10, 25, 198, 51, 100, 128))
	f.Fuzz(func(t *testing.T, body []byte) {
		u, err := ParseUpdate(body, FromPeer)
		if err != nil {
			return
		}
		for _, p := range slices.Concat(u.Reach, u.Plain, u.Unreach) {
			if !p.Prefix.IsValid() || p.Prefix != p.Prefix.Masked() {
				t.Fatalf("read a prefix that is none: %v", p.Prefix)
			}
		}
		theirs := &bgp.BGPUpdate{}
		if theirs.DecodeFromBytes(body) != nil {
			return
		}
		plain := bgptest.Prefixes(theirs.NLRI)
		for i := range plain {
			plain[i] = plain[i].Masked()
		}
		if ours := OfFamilies(u.Plain, []Family{IPv4Unicast}); !slices.Equal(ours, plain) {
			t.Fatalf("GoBGP reads %v, we %v", plain, ours)
		}
	})
}

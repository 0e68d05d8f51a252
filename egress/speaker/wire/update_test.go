package wire

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/srv6"
)

// messagesOf splits encoded messages, and reads each by GoBGP, too.
func messagesOf(t testing.TB, b []byte) (bodies [][]byte, parsed []*bgp.BGPUpdate) {
	t.Helper()
	for len(b) > 0 {
		n := int(b[16])<<8 | int(b[17])
		if n > MaxMessage {
			t.Fatalf("a message of %d bytes", n)
		}
		m, err := bgp.ParseBGPMessage(b[:n])
		if err != nil {
			t.Fatalf("GoBGP refuses a message: %v", err)
		}
		bodies, parsed = append(bodies, b[HeaderLength:n]), append(parsed, m.Body.(*bgp.BGPUpdate))
		b = b[n:]
	}
	return bodies, parsed
}

func TestGoBGPReadsUpdates(t *testing.T) {
	id := bgptest.Identity(t, netip.MustParseAddr("192.0.2.1"), "transit")
	route := NewVPNRoute(bgptest.Service(id, srv6.EndDT6), Attributes{
		ASPath: NewASPath(64601, 4200000000), MED: 3, HasMED: true,
	}.WithCommunities(gracefulShutdown), id.RT)
	attributes, err := route.Encode()
	if err != nil {
		t.Fatal(err)
	}
	route.Attributes.LocalPref = defaultLocalPref
	four := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("198.51.100.0/25")}
	six := append(bgptest.Prefixes6(0, 1000), netip.MustParsePrefix("::/0"), netip.MustParsePrefix("2001:db8::7/128"))
	for _, c := range []struct {
		name     string
		family   Family
		hop      string
		prefixes []netip.Prefix
	}{
		{"VPNv6 by IPv6", VPNv6, "2001:db8::1", six},
		{"VPNv6 by IPv4", VPNv6, "192.0.2.1", six[:3]},
		{"VPNv4 by IPv6", VPNv4, "2001:db8::1", four},
		{"VPNv4 by IPv4", VPNv4, "192.0.2.1", four},
	} {
		hop := netip.MustParseAddr(c.hop)
		announced := Announcement(attributes, hop, c.family, MaxMessage).Append(nil, id.RD, c.prefixes)
		withdrawn := Withdrawal(c.family).Append(nil, id.RD, c.prefixes)
		var reach, unreach, theirs []netip.Prefix
		bodies, parsed := messagesOf(t, append(announced, withdrawn...))
		for i, body := range bodies {
			u, err := ParseUpdate(body, FromReflector)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			theirs = append(theirs, bgptest.Announced(parsed[i])...)
			for _, p := range u.Reach {
				reach = append(reach, p.Prefix)
			}
			for _, p := range u.Unreach {
				unreach = append(unreach, p.Prefix)
			}
			if len(u.Reach) == 0 {
				continue
			}
			a := AttributesFromGoBGP(u.Attributes)
			s, err := srv6.ServiceFromGoBGP(u.Attributes)
			got := NewVPNRoute(s, a, srv6.TargetsFromGoBGP(u.Attributes)...)
			if err != nil || got != route || u.NextHop.Unmap() != hop || u.Reach[0].RD != id.RD {
				t.Errorf("%s: read as %+v via %s of %s, %v", c.name, got, u.NextHop, u.Reach[0].RD, err)
			}
		}
		if !slices.Equal(reach, c.prefixes) || !slices.Equal(unreach, c.prefixes) || !slices.Equal(theirs, c.prefixes) {
			t.Errorf("%s: %d routes announced and %d withdrawn, GoBGP reads %d, want %d each",
				c.name, len(reach), len(unreach), len(theirs), len(c.prefixes))
		}
	}
}

const gracefulShutdown = 65535 << 16

func TestGoBGPReadsEndOfRIB(t *testing.T) {
	for _, f := range []Family{VPNv4, VPNv6} {
		bodies, parsed := messagesOf(t, AppendEndOfRIB(nil, f))
		u, err := ParseUpdate(bodies[0], FromReflector)
		if ok, family := parsed[0].IsEndOfRib(); !ok || family != f.GoBGP() || err != nil || u.EndOfRIB != f {
			t.Errorf("End-of-RIB of %s: GoBGP reads %v %s, we %s, %v", f, ok, family, u.EndOfRIB, err)
		}
	}
}

// FuzzParseUpdate looks for panics, and for routes that would not come back as they
// were read.
func FuzzParseUpdate(f *testing.F) {
	id := bgptest.Identity(f, netip.MustParseAddr("192.0.2.1"), "transit")
	attributes, err := NewVPNRoute(bgptest.Service(id, srv6.EndDT6), Attributes{ASPath: NewASPath(64601)}, id.RT).Encode()
	if err != nil {
		f.Fatal(err)
	}
	for _, family := range []Family{VPNv4, VPNv6} {
		prefixes := map[Family][]netip.Prefix{VPNv6: bgptest.Prefixes6(0, 3), VPNv4: {netip.MustParsePrefix("198.51.100.0/25")}}[family]
		b := Announcement(attributes, netip.MustParseAddr("2001:db8::1"), family, MaxMessage).Append(nil, id.RD, prefixes)
		b = Withdrawal(family).Append(b, id.RD, prefixes)
		bodies, _ := messagesOf(f, AppendEndOfRIB(b, family))
		for _, body := range bodies {
			f.Add(body)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		u, err := ParseUpdate(body, FromReflector)
		if err != nil {
			return
		}
		for _, p := range append(u.Reach, u.Unreach...) {
			if !p.Prefix.IsValid() || p.Prefix != p.Prefix.Masked() {
				t.Fatalf("read a prefix that is none: %v", p.Prefix)
			}
			again, err := parseVPN(nil, AppendVPN(nil, p.RD, p.Prefix), VPNFamily(p.Prefix.Addr().Is4()))
			if err != nil || len(again) != 1 || again[0] != p {
				t.Fatalf("%v came back as %v, %v", p, again, err)
			}
		}
	})
}

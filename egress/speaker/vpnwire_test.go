package speaker

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/srv6"
)

// messagesOf splits what was encoded, and reads each message by GoBGP, too.
func messagesOf(t testing.TB, b []byte) (bodies [][]byte, parsed []*bgp.BGPUpdate) {
	t.Helper()
	for len(b) > 0 {
		n := int(b[16])<<8 | int(b[17])
		if n > maxMessage {
			t.Fatalf("a message of %d bytes", n)
		}
		m, err := bgp.ParseBGPMessage(b[:n])
		if err != nil {
			t.Fatalf("GoBGP refuses a message: %v", err)
		}
		bodies, parsed = append(bodies, b[headerLength:n]), append(parsed, m.Body.(*bgp.BGPUpdate))
		b = b[n:]
	}
	return bodies, parsed
}

func TestUpdatesAreWhatGoBGPReads(t *testing.T) {
	id := identity(t, netip.MustParseAddr("192.0.2.1"), "transit")
	route := NewVPNRoute(service(id, srv6.EndDT6), Attributes{
		ASPath: NewASPath(64601, 4200000000), MED: 3, HasMED: true,
	}.WithCommunities(gracefulShutdown), id.RT)
	attributes, err := route.wire()
	if err != nil {
		t.Fatal(err)
	}
	route.Attributes.LocalPref = defaultLocalPref
	four := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("198.51.100.0/25")}
	six := append(prefixes6(0, 1000), netip.MustParsePrefix("::/0"), netip.MustParsePrefix("2001:db8::7/128"))
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
		announced := announcement(attributes, hop, c.family, maxMessage).append(nil, id.RD, c.prefixes)
		withdrawn := withdrawal(c.family).append(nil, id.RD, c.prefixes)
		var reach, unreach, theirs []netip.Prefix
		bodies, parsed := messagesOf(t, append(announced, withdrawn...))
		for i, body := range bodies {
			u, err := parseUpdate(body, fromReflector)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			theirs = append(theirs, announcedPrefixes(parsed[i])...)
			for _, p := range u.reach {
				reach = append(reach, p.prefix)
			}
			for _, p := range u.unreach {
				unreach = append(unreach, p.prefix)
			}
			if len(u.reach) == 0 {
				continue
			}
			a := attributesFromGoBGP(u.attributes)
			s, err := srv6.ServiceFromGoBGP(u.attributes)
			got := NewVPNRoute(s, a, srv6.TargetsFromGoBGP(u.attributes)...)
			if err != nil || got != route || u.nextHop.Unmap() != hop || u.reach[0].rd != id.RD {
				t.Errorf("%s: read as %+v via %s of %s, %v", c.name, got, u.nextHop, u.reach[0].rd, err)
			}
		}
		if !slices.Equal(reach, c.prefixes) || !slices.Equal(unreach, c.prefixes) || !slices.Equal(theirs, c.prefixes) {
			t.Errorf("%s: %d routes announced and %d withdrawn, GoBGP reads %d, want %d each",
				c.name, len(reach), len(unreach), len(theirs), len(c.prefixes))
		}
	}
}

const gracefulShutdown = 65535 << 16

func TestEndOfRIBIsWhatGoBGPReads(t *testing.T) {
	for _, f := range []Family{VPNv4, VPNv6} {
		bodies, parsed := messagesOf(t, appendEndOfRIB(nil, f))
		u, err := parseUpdate(bodies[0], fromReflector)
		if ok, family := parsed[0].IsEndOfRib(); !ok || family != f.gobgp() || err != nil || u.endOfRIB != f {
			t.Errorf("End-of-RIB of %s: GoBGP reads %v %s, we %s, %v", f, ok, family, u.endOfRIB, err)
		}
	}
}

// FuzzParseUpdate looks for panics, and for routes that would not come back as they
// were read.
func FuzzParseUpdate(f *testing.F) {
	id := identity(f, netip.MustParseAddr("192.0.2.1"), "transit")
	attributes, err := NewVPNRoute(service(id, srv6.EndDT6), Attributes{ASPath: NewASPath(64601)}, id.RT).wire()
	if err != nil {
		f.Fatal(err)
	}
	for _, family := range []Family{VPNv4, VPNv6} {
		prefixes := map[Family][]netip.Prefix{VPNv6: prefixes6(0, 3), VPNv4: {netip.MustParsePrefix("198.51.100.0/25")}}[family]
		b := announcement(attributes, netip.MustParseAddr("2001:db8::1"), family, maxMessage).append(nil, id.RD, prefixes)
		b = withdrawal(family).append(b, id.RD, prefixes)
		bodies, _ := messagesOf(f, appendEndOfRIB(b, family))
		for _, body := range bodies {
			f.Add(body)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		u, err := parseUpdate(body, fromReflector)
		if err != nil {
			return
		}
		for _, p := range append(u.reach, u.unreach...) {
			if !p.prefix.IsValid() || p.prefix != p.prefix.Masked() || compact(p.prefix).prefix() != p.prefix {
				t.Fatalf("read a prefix that is none: %v", p.prefix)
			}
			again, err := parseVPN(nil, appendVPN(nil, p.rd, p.prefix), vpnFamilyOf(p.prefix.Addr().Is4()))
			if err != nil || len(again) != 1 || again[0] != p {
				t.Fatalf("%v came back as %v, %v", p, again, err)
			}
		}
	})
}

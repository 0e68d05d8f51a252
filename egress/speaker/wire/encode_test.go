package wire

import (
	"net/netip"
	"slices"
	"testing"

	"hikyaku/egress/srv6"
)

// A route whose attributes leave no room is not announced, a shorter one is (RFC 4271
// §9.2). There is room for the attributes that reflectors add.
func TestRoutesThatFitIntoAMessage(t *testing.T) {
	host, short := netip.MustParsePrefix("2001:db8::7/128"), netip.MustParsePrefix("2001:db8::/32")
	const fixed = HeaderLength + 2 + 2 + 4 + (2 + 1 + 1 + 24 + 1) // with MP_REACH_NLRI by an IPv6 next hop
	const route = 1 + labelLength + rdLength + 4                  // short
	for _, c := range []struct {
		name        string
		longest     int
		attributes  int
		want        []netip.Prefix
		wantTooLong []netip.Prefix
	}{
		{"few attributes", MaxMessage, 100, []netip.Prefix{host, short}, nil},
		{"room for both", MaxMessage, MaxMessage - fixed - reflected - route - 12, []netip.Prefix{host, short}, nil},
		{"a byte less", MaxMessage, MaxMessage - fixed - reflected - route - 11, []netip.Prefix{short}, []netip.Prefix{host}},
		{"room for the shorter one", MaxMessage, MaxMessage - fixed - reflected - route, []netip.Prefix{short}, []netip.Prefix{host}},
		{"room for none", MaxMessage, MaxMessage - fixed - reflected - route + 1, nil, []netip.Prefix{host, short}},
		{"attributes longer than a message", MaxMessage, MaxMessage + 1, nil, []netip.Prefix{host, short}},
		{"likewise, in extended messages", MaxExtended, MaxMessage + 1, []netip.Prefix{host, short}, nil},
		{"room for none in an extended message", MaxExtended, MaxExtended - fixed - reflected - route + 1, nil, []netip.Prefix{host, short}},
	} {
		u := Announcement(make([]byte, c.attributes), netip.MustParseAddr("2001:db8::1"), VPNv6, c.longest)
		fitting, tooLong := u.Split([]netip.Prefix{host, short})
		if !slices.Equal(fitting, c.want) || !slices.Equal(tooLong, c.wantTooLong) {
			t.Errorf("%s: %v fit, %v do not; want %v and %v", c.name, fitting, tooLong, c.want, c.wantTooLong)
		}
		b := u.Append(nil, srv6.RouteDistinguisher{}, slices.Repeat(fitting, 200))
		for total := 0; len(b) > 0; {
			n := int(b[16])<<8 | int(b[17])
			if total += n; n > c.longest || n > len(b) {
				t.Fatalf("%s: a message of %d bytes", c.name, n)
			}
			b = b[n:]
		}
	}
}

func TestNoRouteHasRoomInAnEndOfRIB(t *testing.T) {
	for family, shortest := range map[Family]string{VPNv4: "0.0.0.0/0", VPNv6: "::/0"} {
		m := Withdrawal(family).Append(nil, srv6.RouteDistinguisher{}, []netip.Prefix{netip.MustParsePrefix(shortest)})
		if n := len(m) - HeaderLength; n <= MaxEndOfRIB {
			t.Errorf("a withdrawal of %s has %d bytes, an End-of-RIB up to %d", family, n, MaxEndOfRIB)
		}
		if n := len(AppendEndOfRIB(nil, family)) - HeaderLength; n > MaxEndOfRIB {
			t.Errorf("End-of-RIB of %s has %d bytes, want at most %d", family, n, MaxEndOfRIB)
		}
	}
}

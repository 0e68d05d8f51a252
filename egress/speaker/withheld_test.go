package speaker

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/srv6"
)

// longPath is an AS path of n numbers, longCommunities a list of n communities.
func longPath(n int) Attributes {
	return Attributes{ASPath: NewASPath(slices.Repeat([]uint32{64601}, n)...)}
}

func longCommunities(n int) Attributes {
	return Attributes{ASPath: NewASPath(64601)}.WithCommunities(slices.Repeat([]uint32{64601<<16 | 1}, n)...)
}

// A route whose attributes leave no room is not announced, a shorter one is (RFC 4271
// §9.2), and there is room for what reflectors add.
func TestWhatFitsIntoAMessage(t *testing.T) {
	host, short := netip.MustParsePrefix("2001:db8::7/128"), netip.MustParsePrefix("2001:db8::/32")
	const fixed = headerLength + 2 + 2 + 4 + (2 + 1 + 1 + 24 + 1) // with MP_REACH_NLRI by an IPv6 next hop
	const route = 1 + labelLength + rdLength + 4                  // short
	for _, c := range []struct {
		name        string
		longest     int
		attributes  int
		want        []netip.Prefix
		wantTooLong []netip.Prefix
	}{
		{"few attributes", maxMessage, 100, []netip.Prefix{host, short}, nil},
		{"room for both", maxMessage, maxMessage - fixed - reflected - route - 12, []netip.Prefix{host, short}, nil},
		{"a byte less", maxMessage, maxMessage - fixed - reflected - route - 11, []netip.Prefix{short}, []netip.Prefix{host}},
		{"room for the shorter one", maxMessage, maxMessage - fixed - reflected - route, []netip.Prefix{short}, []netip.Prefix{host}},
		{"room for none", maxMessage, maxMessage - fixed - reflected - route + 1, nil, []netip.Prefix{host, short}},
		{"attributes longer than a message", maxMessage, maxMessage + 1, nil, []netip.Prefix{host, short}},
		{"likewise, in extended messages", maxExtended, maxMessage + 1, []netip.Prefix{host, short}, nil},
		{"room for none in an extended message", maxExtended, maxExtended - fixed - reflected - route + 1, nil, []netip.Prefix{host, short}},
	} {
		u := announcement(make([]byte, c.attributes), netip.MustParseAddr("2001:db8::1"), VPNv6, c.longest)
		fitting, tooLong := u.split([]netip.Prefix{host, short})
		if !slices.Equal(fitting, c.want) || !slices.Equal(tooLong, c.wantTooLong) {
			t.Errorf("%s: %v fit, %v do not; want %v and %v", c.name, fitting, tooLong, c.want, c.wantTooLong)
		}
		b := u.append(nil, srv6.RouteDistinguisher{}, slices.Repeat(fitting, 200))
		for total := 0; len(b) > 0; {
			n := int(b[16])<<8 | int(b[17])
			if total += n; n > c.longest || n > len(b) {
				t.Fatalf("%s: a message of %d bytes", c.name, n)
			}
			b = b[n:]
		}
	}
}

// heard is what a reflector has been told of one route, and how many UPDATEs there were in
// all.
func (p *fakePeer) heard(prefix netip.Prefix) (told string, updates int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var words []string
	for _, u := range p.updates {
		if slices.Contains(announcedPrefixes(u), prefix) {
			words = append(words, "+")
		}
		if slices.Contains(withdrawnPrefixes(u), prefix) {
			words = append(words, "-")
		}
	}
	return strings.Join(words, ""), len(p.updates)
}

// TestRouteWithoutRoomIsWithheldAlone has a route get attributes that are too long and lose
// them again, among others that nothing must happen to.
func TestRouteWithoutRoomIsWithheldAlone(t *testing.T) {
	long := []bgp.ParameterCapabilityInterface{bgp.NewCapExtendedMessage()}
	for _, c := range []struct {
		name         string
		capabilities []bgp.ParameterCapabilityInterface
		passive      bool
		attributes   Attributes
		withheld     bool
	}{
		{"990 AS numbers", nil, false, longPath(990), true},
		{"988 communities", nil, false, longCommunities(988), true},
		{"500 AS numbers and 500 communities", nil, false, func() Attributes {
			a := longCommunities(500)
			a.ASPath = longPath(500).ASPath
			return a
		}(), true},
		{"900 AS numbers", nil, false, longPath(900), false},
		{"990 AS numbers in extended messages", long, false, longPath(990), false},
		{"16,000 AS numbers in extended messages", long, false, longPath(16_000), false},
		{"16,380 AS numbers in extended messages", long, false, longPath(16_380), true},
		{"990 AS numbers on a session that the reflector opens", nil, true, longPath(990), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, p := startWithReflector(t, c.capabilities, c.passive)
			id, plain := testRoute(t, s.at.Addr(), "transit", srv6.EndDT6, 64601)
			announce := func(a Attributes, prefixes ...netip.Prefix) {
				t.Helper()
				route := NewVPNRoute(plain.Service, a, id.RT)
				if err := s.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: route, Prefixes: prefixes}); err != nil {
					t.Fatal(err)
				}
			}
			// flush waits until the reflector has what was announced before.
			marker := 1000
			flush := func() {
				t.Helper()
				one := prefixes6(marker, 1)[0]
				marker++
				announce(longPath(1), one)
				p.waitFor("what comes behind", func(u *bgp.BGPUpdate) bool { return slices.Contains(announcedPrefixes(u), one) })
			}
			routes := prefixes6(0, 300)
			one := routes[7]
			announce(longPath(2), routes...)
			flush()
			_, before := p.heard(one)
			announce(c.attributes, one)
			flush()
			announce(c.attributes.WithCommunities(append(c.attributes.Communities(), 1)...), one)
			flush()
			want, now := "+++", 0
			if c.withheld {
				want, now = "+-", 1
			}
			told, after := p.heard(one)
			if told != want {
				t.Errorf("of the route it is told %q, want %q", told, want)
			}
			if n := after - before - (len(want) - 1) - 2; n != 0 {
				t.Errorf("%d UPDATEs more than for this route", n)
			}
			if got := s.Withheld("rr"); got.Routes[id.RD] != now || got.Total != uint64(now) {
				t.Errorf("withheld %+v, want %d", got, now)
			}
			announce(longPath(3), one)
			flush()
			if told, _ := p.heard(one); told != want+"+" {
				t.Errorf("of the route that has room again it is told %q, want %q", told, want+"+")
			}
			if got := s.Withheld("rr"); len(got.Routes) != 0 || got.Total != uint64(now) {
				t.Errorf("withheld %+v of routes that all have room", got)
			}
			announce(c.attributes, one)
			flush()
			if err := s.WithdrawVPN(id.RD, []netip.Prefix{one}); err != nil {
				t.Fatal(err)
			}
			flush()
			if got := s.Withheld("rr"); len(got.Routes) != 0 {
				t.Errorf("withheld %+v after the withdrawal", got)
			}
			told, _ = p.heard(one)
			if want += "+" + map[bool]string{true: "-", false: "+-"}[c.withheld]; told != want {
				t.Errorf("of the route it is told %q at the end, want %q", told, want)
			}
			for _, other := range routes {
				if told, _ := p.heard(other); other != one && told != "+" {
					t.Errorf("of another route it is told %q", told)
					break
				}
			}
		})
	}
}

// startWithReflector starts a speaker with a reflector, which opens the session itself if
// passive is set.
func startWithReflector(t *testing.T, capabilities []bgp.ParameterCapabilityInterface, passive bool) (*testSpeaker, *fakePeer) {
	t.Helper()
	if passive {
		local := loopback()
		s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{{
			Name: "rr", Address: local, AS: ownAS, Families: []Family{VPNv6}, Passive: true,
		}}})
		p := dialPeer(t, local, s.at, ownAS, bgp.RF_IPv6_VPN)
		expect[PeerUp](s)
		return s, p
	}
	r := listenAsReflector(t)
	r.capabilities = capabilities
	s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{r.neighbor("rr", VPNv6)}, StaleTime: time.Hour})
	p := r.accept(nil, bgp.RF_IPv6_VPN)
	expect[PeerUp](s)
	return s, p
}

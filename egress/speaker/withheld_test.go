package speaker

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/srv6"
)

// longPath is an AS path of n numbers, longCommunities a list of n communities.
func longPath(n int) Attributes {
	return Attributes{ASPath: NewASPath(slices.Repeat([]uint32{64601}, n)...)}
}

func longCommunities(n int) Attributes {
	return Attributes{ASPath: NewASPath(64601)}.WithCommunities(slices.Repeat([]uint32{64601<<16 | 1}, n)...)
}

// changesOf are the announcements (+) and withdrawals (-) of one route, and how many UPDATEs
// there were in all.
func (p *fakePeer) changesOf(prefix netip.Prefix) (changes string, updates int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var words []string
	for _, u := range p.updates {
		if slices.Contains(bgptest.Announced(u), prefix) {
			words = append(words, "+")
		}
		if slices.Contains(bgptest.Withdrawn(u), prefix) {
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
			// flush waits until the reflector has the earlier announcements.
			marker := 1000
			flush := func() {
				t.Helper()
				one := bgptest.Prefixes6(marker, 1)[0]
				marker++
				announce(longPath(1), one)
				p.waitFor("what comes behind", func(u *bgp.BGPUpdate) bool { return slices.Contains(bgptest.Announced(u), one) })
			}
			routes := bgptest.Prefixes6(0, 300)
			one := routes[7]
			announce(longPath(2), routes...)
			flush()
			_, before := p.changesOf(one)
			announce(c.attributes, one)
			flush()
			announce(c.attributes.WithCommunities(append(c.attributes.Communities(), 1)...), one)
			flush()
			want, now := "+++", 0
			if c.withheld {
				want, now = "+-", 1
			}
			changes, after := p.changesOf(one)
			if changes != want {
				t.Errorf("changes of the route: %q, want %q", changes, want)
			}
			if n := after - before - (len(want) - 1) - 2; n != 0 {
				t.Errorf("%d UPDATEs more than for this route", n)
			}
			if got := s.Withheld("rr"); got.Routes[id.RD] != now || got.Total != uint64(now) {
				t.Errorf("withheld %+v, want %d", got, now)
			}
			announce(longPath(3), one)
			flush()
			if changes, _ := p.changesOf(one); changes != want+"+" {
				t.Errorf("changes of the route that has room again: %q, want %q", changes, want+"+")
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
			changes, _ = p.changesOf(one)
			if want += "+" + map[bool]string{true: "-", false: "+-"}[c.withheld]; changes != want {
				t.Errorf("changes of the route at the end: %q, want %q", changes, want)
			}
			for _, other := range routes {
				if changes, _ := p.changesOf(other); other != one && changes != "+" {
					t.Errorf("changes of another route: %q", changes)
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

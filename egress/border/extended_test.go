package border_test

import (
	"net/netip"
	"testing"

	"hikyaku/egress/border"
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
)

// The object of an IPv4 route with an IPv6 next hop is of the next hop's family (RFC 8950).
func TestIPv4RouteByIPv6NextHop(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("fe80::7")
	for _, hop := range []netip.Addr{four, six} {
		p := border.New(parse(t, borderTOML), border.Options{
			Anchor: "anchor", Lookup: func(*config.Peer) border.Lookup { return border.ByVRF },
			Resolve: func(_ *config.Peer, hop netip.Addr) (border.Hop, error) {
				return border.Hop{Device: "eth1", Gateway: hop}, nil
			},
		}, kernel.State{})
		p.PeerUp("a")
		a := origin(1)
		a.NextHop = hop
		p.Learned(speaker.Learned{Peer: "a", Prefixes: []netip.Prefix{netip.MustParsePrefix("193.0.2.0/24")}, Attributes: &a})
		for p.Pending("a") {
			p.Flush("a", 10)
		}
		var found bool
		for _, n := range p.Want().Nexthops {
			if n.Gateway == hop {
				found = n.Family == kernel.FamilyOf(hop)
			}
		}
		if !found {
			t.Errorf("via %s the objects are %+v", hop, p.Want().Nexthops)
		}
	}
}

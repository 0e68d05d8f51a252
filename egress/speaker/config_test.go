package speaker

import (
	"net/netip"
	"testing"
)

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

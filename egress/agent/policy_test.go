package agent

import (
	"net/netip"
	"strings"
	"testing"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/mptcp"
)

func TestRules(t *testing.T) {
	paths := []config.Path{{Name: "a"}, {Name: "b", Backup: true}, {Name: "c"}}
	wide, narrow := netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2001:db8:c::/48")
	const outside, inWide, inNarrow = "2001:db9::1", "2001:db8::1", "2001:db8:c::1"
	live := func(c *client) { c.class = "live" }
	in := func(as uint32) func(*client) { return func(c *client) { c.as = as } }
	for _, test := range []struct {
		name     string
		policies []api.Policy
		client   client
		// want is "plain" or the paths, those for backup with a star.
		want string
	}{
		{"no policy: all paths", nil, at(outside), "a b* c"},
		{"one for everybody", []api.Policy{{Name: "p", Mode: api.Plain}}, at(outside), "plain"},
		{"steering is not MPTCP's", []api.Policy{{Name: "p", Mode: api.Steered}}, at(outside), "plain"},
		{"some paths, one for backup", []api.Policy{{Name: "p", Mode: api.Aggregated, Paths: []string{"a"}, Backup: []string{"c"}}}, at(outside), "a c*"},
		{"no path that is configured", []api.Policy{{Name: "p", Mode: api.Aggregated, Paths: []string{"gone"}}}, at(outside), "plain"},
		{"one for a class", []api.Policy{{Name: "p", Mode: api.Plain, Classes: []string{"bulk", "live"}}}, at(outside, live), "plain"},
		{"one for a class, and no class", []api.Policy{{Name: "p", Mode: api.Plain, Classes: []string{"live"}}}, at(outside), "a b* c"},
		{"one for clients", []api.Policy{{Name: "p", Mode: api.Plain, Clients: []netip.Prefix{narrow}}}, at(inNarrow), "plain"},
		{"one for other clients", []api.Policy{{Name: "p", Mode: api.Plain, Clients: []netip.Prefix{narrow}}}, at(inWide), "a b* c"},
		{"one for an AS", []api.Policy{{Name: "p", Mode: api.Plain, ASNs: []uint32{64998, 64999}}}, at(outside, in(64999)), "plain"},
		{"one for another AS", []api.Policy{{Name: "p", Mode: api.Plain, ASNs: []uint32{64998}}}, at(outside, in(64999)), "a b* c"},
		{"one for an AS, and none is known", []api.Policy{{Name: "p", Mode: api.Plain, ASNs: []uint32{64998}}}, at(outside), "a b* c"},
		{"one for clients and an AS, by the prefix", []api.Policy{{Name: "p", Mode: api.Plain, Clients: []netip.Prefix{narrow}, ASNs: []uint32{64999}}},
			at(inNarrow, in(64998)), "plain"},
		{"one for clients and an AS, by the AS", []api.Policy{{Name: "p", Mode: api.Plain, Clients: []netip.Prefix{narrow}, ASNs: []uint32{64999}}},
			at(outside, in(64999)), "plain"},
		{"one for clients and an AS, in neither", []api.Policy{{Name: "p", Mode: api.Plain, Clients: []netip.Prefix{narrow}, ASNs: []uint32{64999}}},
			at(inWide, in(64998)), "a b* c"},
		{"one for an AS and a class", []api.Policy{{Name: "p", Mode: api.Plain, ASNs: []uint32{64999}, Classes: []string{"live"}}},
			at(outside, in(64999)), "a b* c"},
		{"the first by order counts, not the longest prefix", []api.Policy{
			{Name: "narrow", Order: 2, Mode: api.Plain, Clients: []netip.Prefix{narrow}},
			{Name: "wide", Order: 1, Mode: api.Aggregated, Paths: []string{"a"}, Clients: []netip.Prefix{wide}},
		}, at(inNarrow), "a"},
		{"an AS before a prefix", []api.Policy{
			{Name: "narrow", Order: 2, Mode: api.Plain, Clients: []netip.Prefix{narrow}},
			{Name: "as", Order: 1, Mode: api.Aggregated, Paths: []string{"a"}, ASNs: []uint32{64999}},
		}, at(inNarrow, in(64999)), "a"},
		{"of one order the first by name", []api.Policy{
			{Name: "z", Mode: api.Plain}, {Name: "y", Mode: api.Aggregated, Paths: []string{"c"}},
		}, at(outside), "c"},
	} {
		policy, err := mptcp.NewPolicy(nil, rules(test.policies, paths))
		if err != nil {
			t.Errorf("%s: the rules are refused: %v", test.name, err)
			continue
		}
		if got := test.client.decide(policy); got != test.want {
			t.Errorf("%s: the client gets %q, want %q", test.name, got, test.want)
		}
	}
}

// client is one that all of the paths a, b and c reach.
type client struct {
	addr  netip.Addr
	as    uint32
	class string
}

func at(addr string, change ...func(*client)) client {
	c := client{addr: netip.MustParseAddr(addr)}
	for _, f := range change {
		f(&c)
	}
	return c
}

func (c client) decide(policy *mptcp.Policy) string {
	var paths []mptcp.Path
	for name, addr := range map[string]string{"a": "2001:db8:5::a", "b": "2001:db8:5::b", "c": "2001:db8:5::c"} {
		paths = append(paths, mptcp.Path{Name: name, Addresses: []netip.Addr{netip.MustParseAddr(addr)}})
	}
	d := policy.Decide(&mptcp.Connection{
		ServerSide: true, Remote: netip.AddrPortFrom(c.addr, 50000),
		Local: netip.MustParseAddrPort("[2001:db8:5::1]:443"), Told: mptcp.Told{Class: c.class},
	}, paths, mptcp.Routes{AS: c.as, Paths: []string{"a", "b", "c"}})
	if d.Mode == mptcp.Plain {
		return "plain"
	}
	var words []string
	for _, use := range d.Announce {
		word := use.Path
		if use.Backup {
			word += "*"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

package agent

import (
	"net/netip"
	"slices"
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

// Paths change all the time, and with each change the policies are passed on once more.
func TestPoliciesAreCompiledOncePerChange(t *testing.T) {
	c := compiler{paths: []config.Path{{Name: "a"}}}
	wide := []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}
	same := func() []api.Policy { return []api.Policy{{Name: "p", Mode: api.Plain, Clients: slices.Clone(wide)}} }
	compiled := 0
	var last *mptcp.Policy
	compile := func(policies []api.Policy) {
		t.Helper()
		policy, err := c.compile(policies)
		if err != nil {
			t.Fatal(err)
		}
		if policy != last {
			compiled++
		}
		last = policy
	}
	for range 100 {
		compile(same())
	}
	if compiled != 1 {
		t.Errorf("the same policies were compiled %d times, want once", compiled)
	}
	for name, change := range map[string]func(*api.Policy){
		"name": func(p *api.Policy) { p.Name = "q" }, "order": func(p *api.Policy) { p.Order = 1 },
		"mode": func(p *api.Policy) { p.Mode = api.Aggregated }, "clients": func(p *api.Policy) { p.Clients = nil },
		"asns": func(p *api.Policy) { p.ASNs = []uint32{64999} }, "classes": func(p *api.Policy) { p.Classes = []string{"bulk"} },
		"paths": func(p *api.Policy) { p.Paths = []string{"a"} }, "backup": func(p *api.Policy) { p.Backup = []string{"a"} },
	} {
		compile(same())
		before := compiled
		policies := same()
		change(&policies[0])
		if compile(policies); compiled != before+1 {
			t.Errorf("another %s does not count as a change", name)
		}
	}
	before := compiled
	if compile(nil); compiled != before+1 {
		t.Error("that there is no policy any more does not count as a change")
	}
}

// One rule for each policy and class, however many clients: the compiled rules grow as the
// policies that operators write.
func TestRulesDoNotMultiply(t *testing.T) {
	policies := manyPolicies(100, 50)
	if list := rules(policies, nil); len(list) != 2*len(policies)+1 {
		t.Errorf("%d policies with two classes each are %d rules", len(policies), len(list))
	}
}

func BenchmarkCompile(b *testing.B) {
	policies := manyPolicies(20, 1000)
	for b.Loop() {
		c := compiler{paths: []config.Path{{Name: "a"}, {Name: "b"}}}
		if _, err := c.compile(policies); err != nil {
			b.Fatal(err)
		}
	}
}

// manyPolicies returns n policies for as many prefixes each, and two classes.
func manyPolicies(n, prefixes int) []api.Policy {
	policies := make([]api.Policy, n)
	for i := range policies {
		p := &policies[i]
		p.Name, p.Order, p.Mode, p.Classes = "p", int32(i), api.Plain, []string{"bulk", "live"}
		for j := range prefixes {
			addr := netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, byte(i), byte(j >> 8), byte(j)})
			p.Clients = append(p.Clients, netip.PrefixFrom(addr, 56))
		}
	}
	return policies
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
		Local: netip.MustParseAddrPort("[2001:db8:5::1]:443"), Hint: mptcp.Hint{Class: c.class},
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

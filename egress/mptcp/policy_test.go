package mptcp

import (
	"net/netip"
	"strings"
	"testing"
)

// at returns a server-side connection of a client, established, with its
// initial subflow.
func at(client string) *Connection {
	remote := netip.AddrPortFrom(netip.MustParseAddr(client), 40000)
	local := netip.MustParseAddrPort("[2001:db8:5::1]:443")
	if remote.Addr().Unmap().Is4() {
		local = netip.MustParseAddrPort("198.51.100.1:443")
	}
	return &Connection{
		Token: 1, Local: local, Remote: remote, ServerSide: true, Established: true,
		Subflows: []Subflow{{Local: local, Remote: remote, confirmed: true}},
	}
}

func change(c *Connection, f func(*Connection)) *Connection {
	f(c)
	return c
}

func addrs(uses []Use) string {
	var s []string
	for _, u := range uses {
		text := u.Addr.String()
		if u.Backup {
			text += "/backup"
		}
		s = append(s, text)
	}
	return strings.Join(s, " ")
}

var (
	toAll       = Routes{Paths: []string{"a", "b", "c"}}
	toAllBestA  = Routes{Best: "a", Paths: []string{"a", "b", "c"}}
	decideRules = []Rule{
		{Name: "AS of both families", Mode: Plain, ASes: []uint32{64999}, Clients: prefixes("2001:db8:a::/48")},
		{Name: "isp bulk", Class: "bulk", Mode: Aggregated, Clients: prefixes("2001:db8:e::/48"),
			Paths: []PathUse{{Path: "c"}, {Path: "b", Backup: true}, {Path: "gone"}}},
		{Name: "isp", Mode: Plain, Clients: prefixes("2001:db8:e::/48", "192.0.2.0/24")},
		{Name: "after the isp's", Mode: Aggregated, Clients: prefixes("2001:db8:e::7/128"), ASes: []uint32{64998}},
		{Name: "open", Mode: Aggregated, Open: true, Clients: prefixes("2001:db8:d::/48")},
		{Name: "poor best path", Mode: Aggregated, Clients: prefixes("2001:db8:f::/48"), InitialBackup: true, UseBest: true},
		{Name: "default", Mode: Aggregated},
	}
	allUp   = labPaths(PathUp, PathUp, PathUp)
	joinedA = func(c *Connection) {
		c.Subflows = append(c.Subflows, Subflow{Local: netip.AddrPortFrom(epeA, 443), Remote: c.Remote})
	}
	toEPE       = func(c *Connection) { c.Local = netip.AddrPortFrom(epeB, 443); c.Subflows[0].Local = c.Local }
	adopted     = func(c *Connection) { c.Adopted = true }
	hintPlain   = func(c *Connection) { c.Hint.Plain = true }
	bulk        = func(c *Connection) { c.Hint.Class = "bulk" }
	decideCases = []struct {
		name           string
		conn           *Connection
		paths          []Path
		routes         Routes
		rule           string
		announce, keep string
		initialBackup  bool
		initialDown    bool
	}{
		{name: "all paths where none is the best", conn: at("2001:db8:1::1"), paths: allUp, routes: toAll,
			rule: "default", announce: "2001:db8:5::a 2001:db8:5::b 2001:db8:5::c"},
		{name: "not the best path, which the initial subflow takes", conn: at("2001:db8:1::1"), paths: allUp, routes: toAllBestA,
			rule: "default", announce: "2001:db8:5::b 2001:db8:5::c"},
		{name: "what became the best path keeps the subflow that takes it", conn: change(at("2001:db8:1::1"), joinedA), paths: allUp, routes: toAllBestA,
			rule: "default", announce: "2001:db8:5::b 2001:db8:5::c", keep: "2001:db8:5::a"},
		{name: "what became the best path and is down keeps none", conn: change(at("2001:db8:1::1"), joinedA), paths: labPaths(PathDown, PathUp, PathUp), routes: toAllBestA,
			rule: "default", announce: "2001:db8:5::b 2001:db8:5::c", initialBackup: true, initialDown: true},
		{name: "the best path is dead, which BGP has not noticed", conn: at("2001:db8:1::1"), paths: labPaths(PathDown, PathUp, PathUp),
			routes: Routes{Best: "a", Paths: []string{"b", "c"}}, rule: "default", announce: "2001:db8:5::b 2001:db8:5::c", initialBackup: true, initialDown: true},
		{name: "not a path that does not reach the client", conn: at("2001:db8:1::1"), paths: allUp,
			routes: Routes{Best: "a", Paths: []string{"a", "c"}}, rule: "default", announce: "2001:db8:5::c"},
		{name: "the client's family", conn: at("203.0.113.9"), paths: allUp, routes: toAllBestA,
			rule: "default", announce: "198.51.100.101 198.51.100.102"},
		{name: "an IPv4-mapped client", conn: at("::ffff:203.0.113.9"), paths: allUp, routes: toAllBestA,
			rule: "default", announce: "198.51.100.101 198.51.100.102"},
		{name: "a client by its prefix", conn: at("2001:db8:e::1"), paths: allUp, routes: toAllBestA, rule: "isp"},
		{name: "an IPv4-mapped client by its prefix", conn: at("::ffff:192.0.2.1"), paths: allUp, routes: toAllBestA, rule: "isp"},
		{name: "a class's rule before it", conn: change(at("2001:db8:e::1"), bulk), paths: allUp, routes: toAllBestA,
			rule: "isp bulk", announce: "2001:db8:5::c 2001:db8:5::b/backup"},
		{name: "the first rule decides, not the longest prefix", conn: at("2001:db8:e::7"), paths: allUp, routes: toAllBestA, rule: "isp"},
		{name: "a client by its AS", conn: at("2001:db8:1::1"), paths: allUp, routes: inAS(64999), rule: "AS of both families"},
		{name: "an IPv4 client by its AS", conn: at("203.0.113.9"), paths: allUp, routes: inAS(64999), rule: "AS of both families"},
		{name: "a client of another AS by the prefix of the rule", conn: at("2001:db8:a::1"), paths: allUp, routes: inAS(64997), rule: "AS of both families"},
		{name: "a client of another AS", conn: at("2001:db8:1::1"), paths: allUp, routes: inAS(64997),
			rule: "default", announce: "2001:db8:5::b 2001:db8:5::c"},
		{name: "a client whose AS is not known", conn: at("2001:db8:1::1"), paths: allUp, routes: inAS(0),
			rule: "default", announce: "2001:db8:5::b 2001:db8:5::c"},
		{name: "a rule for an AS is not before those that are before it", conn: at("2001:db8:e::1"), paths: allUp, routes: inAS(64998), rule: "isp"},
		{name: "the best path, too, where the rule says so", conn: at("2001:db8:f::1"), paths: allUp, routes: toAllBestA,
			rule: "poor best path", announce: "2001:db8:5::a 2001:db8:5::b 2001:db8:5::c", initialBackup: true},
		{name: "a rule that leaves the mode open", conn: at("2001:db8:d::1"), paths: allUp, routes: toAllBestA,
			rule: "open", announce: "2001:db8:5::b 2001:db8:5::c"},
		{name: "a hint counts where the mode is open", conn: change(at("2001:db8:d::1"), hintPlain), paths: allUp, routes: toAllBestA, rule: "open"},
		{name: "a hint does not count where the mode is fixed", conn: change(at("2001:db8:1::1"), hintPlain), paths: allUp, routes: toAllBestA,
			rule: "default", announce: "2001:db8:5::b 2001:db8:5::c"},
		{name: "draining is kept as backup, down is not", conn: at("2001:db8:1::1"), paths: labPaths(PathUp, PathDraining, PathDown), routes: toAllBestA,
			rule: "default", keep: "2001:db8:5::b/backup"},
		{name: "the address that the client connected to is not announced", conn: change(at("2001:db8:1::1"), toEPE), paths: allUp, routes: toAllBestA,
			rule: "default", announce: "2001:db8:5::c"},
		{name: "that address is on a draining path", conn: change(at("2001:db8:1::1"), toEPE), paths: labPaths(PathUp, PathDraining, PathUp), routes: toAllBestA,
			rule: "default", announce: "2001:db8:5::c", initialBackup: true},
		{name: "that address is on a path that is down", conn: change(at("2001:db8:1::1"), toEPE), paths: labPaths(PathUp, PathDown, PathUp), routes: toAllBestA,
			rule: "default", announce: "2001:db8:5::c", initialBackup: true, initialDown: true},
		{name: "a path to avoid", conn: at("2001:db8:1::1"), paths: allUp, routes: Routes{Best: "a", Paths: toAllBestA.Paths, Avoid: []string{"b"}},
			rule: "default", announce: "2001:db8:5::c"},
		{name: "the best path is to avoid", conn: at("2001:db8:1::1"), paths: allUp, routes: Routes{Best: "a", Paths: toAllBestA.Paths, Avoid: []string{"a"}},
			rule: "default", announce: "2001:db8:5::b 2001:db8:5::c", initialBackup: true, initialDown: true},
		{name: "a path whose port is full drains", conn: at("2001:db8:1::1"), paths: allUp, routes: Routes{Best: "a", Paths: toAllBestA.Paths, Full: []string{"b"}},
			rule: "default", announce: "2001:db8:5::c", keep: "2001:db8:5::b/backup"},
		{name: "the port of the best path is full", conn: at("2001:db8:1::1"), paths: allUp, routes: Routes{Best: "a", Paths: toAllBestA.Paths, Full: []string{"a"}},
			rule: "default", announce: "2001:db8:5::b 2001:db8:5::c", initialBackup: true},
		{name: "that of a path that is down, too", conn: at("2001:db8:1::1"), paths: labPaths(PathUp, PathDown, PathUp), routes: Routes{Best: "a", Paths: toAllBestA.Paths, Full: []string{"b"}},
			rule: "default", announce: "2001:db8:5::c"},
		{name: "another path than that of the address is to avoid", conn: change(at("2001:db8:1::1"), toEPE), paths: allUp,
			routes: Routes{Best: "a", Paths: toAllBestA.Paths, Avoid: []string{"a"}}, rule: "default", announce: "2001:db8:5::c"},
		{name: "the best path's address once the initial subflow is gone", conn: change(at("2001:db8:1::1"), func(c *Connection) { c.Subflows = nil }), paths: allUp, routes: toAllBestA,
			rule: "default", announce: "2001:db8:5::a 2001:db8:5::b 2001:db8:5::c"},
		{name: "an adopted connection keeps what some class may use", conn: change(at("2001:db8:e::1"), adopted), paths: allUp, routes: toAllBestA,
			rule: "isp", keep: "2001:db8:5::c 2001:db8:5::b/backup"},
		{name: "an adopted connection does not keep what is down", conn: change(at("2001:db8:e::1"), adopted), paths: labPaths(PathUp, PathUp, PathDown), routes: toAllBestA,
			rule: "isp", keep: "2001:db8:5::b/backup"},
		{name: "a connection which this host opened", conn: change(at("2001:db8:1::1"), func(c *Connection) { c.ServerSide = false }), paths: allUp, routes: toAllBestA},
		{name: "another port", conn: change(at("2001:db8:1::1"), func(c *Connection) { c.Local = netip.AddrPortFrom(c.Local.Addr(), 22) }), paths: allUp, routes: toAllBestA},
	}
)

func inAS(as uint32) Routes {
	routes := toAllBestA
	routes.AS = as
	return routes
}

func TestDecide(t *testing.T) {
	p, err := NewPolicy([]uint16{443}, decideRules)
	must(t, err)
	for _, c := range decideCases {
		d := p.Decide(c.conn, c.paths, c.routes)
		if d.Rule != c.rule || addrs(d.Announce) != c.announce || addrs(d.Keep) != c.keep ||
			d.InitialBackup != c.initialBackup || d.InitialDown != c.initialDown {
			t.Errorf("%s: rule %q announces [%s] keeps [%s] initial backup %t down %t, want %q [%s] [%s] %t %t", c.name,
				d.Rule, addrs(d.Announce), addrs(d.Keep), d.InitialBackup, d.InitialDown,
				c.rule, c.announce, c.keep, c.initialBackup, c.initialDown)
		}
		if d.Reason == "" {
			t.Errorf("%s: no reason is given", c.name)
		}
	}
}

func TestNewPolicyRefuses(t *testing.T) {
	cases := []struct {
		name  string
		rules []Rule
		want  string
	}{
		{"host bits", []Rule{{Name: "x", Clients: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}}, "host bits zero"},
		{"a mapped prefix", []Rule{{Name: "x", Clients: []netip.Prefix{netip.MustParsePrefix("::ffff:192.0.2.0/120")}}}, "no network prefix"},
		{"the zero prefix", []Rule{{Name: "x", Clients: make([]netip.Prefix, 1)}}, "no network prefix"},
	}
	for _, c := range cases {
		if _, err := NewPolicy(nil, c.rules); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func prefixes(text ...string) []netip.Prefix {
	var p []netip.Prefix
	for _, s := range text {
		p = append(p, netip.MustParsePrefix(s).Masked())
	}
	return p
}

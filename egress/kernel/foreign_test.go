package kernel

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"hikyaku/egress/netnstest"
)

// foreignLines make state of others as near to ours as the kernel allows: the same
// tables, prefixes, priorities and devices.
var foreignLines = []string{
	"-6 nexthop add id 1 dev anchor proto zebra",
	"-6 nexthop add id 1207959552 dev anchor", // FirstNexthopID, which we then avoid
	"-6 route add 2001:db8:1::/48 dev anchor table 10001 metric 50 proto static",
	"-6 route add 2001:db8:2::/48 nhid 1 table 10001 metric 51 proto bgp",
	"-6 route add 2001:db8:aaaa::/48 dev anchor proto static",
	"-6 route add blackhole 2001:db8:1::/48 table 900 metric 3 proto 201",
	"-4 route add 203.0.113.0/24 dev anchor table 10002 metric 50 proto static",
	"-4 route add 198.51.1.0/24 dev anchor table 900 metric 50 proto 201",
	"-6 rule add pref 100 from 2001:db8::6 lookup 10001",
	"-6 rule add pref 500 from 2001:db8:ffff::7 lookup 900 protocol 201",
	"-4 rule add pref 90 fwmark 8 lookup 10002",
	"-6 addr add 2001:db8::99/128 dev anchor nodad preferred_lft 0",
	"-6 addr add 2001:db8:eeee::9/64 dev anchor nodad",
	"-4 addr add 192.0.2.9/24 dev anchor",
}

// makeForeign makes what foreignLines have. The kernel adds the local routes of IPv6 addresses some
// time after the addresses.
func makeForeign(t *testing.T, ns *netnstest.NS) {
	t.Helper()
	for _, line := range foreignLines {
		ns.IP(line)
	}
	netnstest.Eventually(t, "the local routes of the addresses", func() bool {
		shown := ns.IP("-6 route show table local")
		return strings.Contains(shown, "2001:db8::99 ") && strings.Contains(shown, "2001:db8:eeee::9 ")
	})
}

// everythingShown is the output of ip(8) for the whole namespace.
func everythingShown(ns *netnstest.NS) string {
	var all strings.Builder
	for _, line := range []string{
		"-d -6 route show table all", "-d -4 route show table all", "-d -6 rule show", "-d -4 rule show",
		"-d nexthop show", "addr show",
	} {
		all.WriteString(ns.IP(line))
	}
	return all.String()
}

func TestForeignStateIsUntouched(t *testing.T) {
	ns := netnstest.New(t, "foreign")
	a := open(t, ns, Options{})
	makeForeign(t, ns)
	before := everythingShown(ns)
	expect(t, "what others made is not read", a, State{})
	reach(t, a, everything())
	expect(t, "beside what others made", a, everything())
	rng := rand.New(rand.NewPCG(5, 0))
	for range 40 {
		s := randomState(rng, "lo", anchorName)
		if !usesFirstID(s) {
			reach(t, a, s)
		}
	}
	// Rules alike stand beside each other: the protocol is part of their key.
	reach(t, a, State{Rules: []Rule{{Family: IPv6, Priority: 100, From: prefix("2001:db8::6/128"), Table: 10_001}}})
	reach(t, a, State{})
	// A stale note of a route that we once had must not remove a route that others have
	// there now.
	apply(t, a, []Op{
		{Delete, Route{Prefix: prefix("2001:db8:1::/48"), Table: 10_001, Metric: 50}},
		{Delete, Route{Prefix: prefix("203.0.113.0/24"), Table: 10_002, Metric: 50}},
		{Delete, Route{Prefix: prefix("2001:db8:aaaa::/48"), Table: MainTable}},
		{Delete, Rule{Family: IPv6, Priority: 100, From: prefix("2001:db8::6/128"), Table: 10_001}},
		{Delete, Rule{Family: IPv4, Priority: 90, Mark: 8, Table: 10_002}},
	})
	if after := everythingShown(ns); after != before {
		t.Errorf("what others made changed from\n%s\nto\n%s", before, after)
	}
}

func usesFirstID(s State) bool {
	for _, n := range s.Nexthops {
		if n.ID == FirstNexthopID {
			return true
		}
	}
	return false
}

func TestCollisionsWithForeignStateAreErrors(t *testing.T) {
	ns := netnstest.New(t, "collide")
	a := open(t, ns, Options{})
	makeForeign(t, ns)
	ns.IP("link add other type veth peer name otherp")
	before := everythingShown(ns)
	for name, object := range map[string]Object{
		"nexthop":      Nexthop{ID: FirstNexthopID, Family: IPv6, Blackhole: true},
		"IPv6 route":   Route{Prefix: prefix("2001:db8:1::/48"), Table: 10_001, Metric: 50, Type: Blackhole},
		"IPv4 route":   Route{Prefix: prefix("203.0.113.0/24"), Table: 10_002, Metric: 50, Type: Blackhole},
		"main route":   Route{Prefix: prefix("2001:db8:aaaa::/48"), Table: MainTable, Type: Blackhole},
		"IPv6 address": Address{Device: anchorName, Prefix: prefix("2001:db8::99/128")},
		"IPv4 address": Address{Device: anchorName, Prefix: prefix("192.0.2.9/24")},
	} {
		if err := a.Apply(t.Context(), []Op{{Add, object}}); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: adding it over what others made gives %v", name, err)
		}
	}
	if err := a.EnsureAnchor(t.Context(), "other", 1500); !errors.Is(err, ErrForeign) {
		t.Errorf("device: taking what others made gives %v", err)
	}
	if after := everythingShown(ns); after != before {
		t.Errorf("what others made changed from\n%s\nto\n%s", before, after)
	}
}

func TestTwoAgentsInOneNamespace(t *testing.T) {
	ns := netnstest.New(t, "two")
	a, b := open(t, ns, Options{}), openSecond(t, ns)
	mine := State{Routes: []Route{{Prefix: prefix("2001:db8:1::/48"), Table: 700, Type: Blackhole}}}
	reach(t, a, mine)
	reach(t, b, State{})
	expect(t, "after the other agent has removed all of its own", a, mine)
	expect(t, "the other agent has nothing", b, State{})
}

func openSecond(t *testing.T, ns *netnstest.NS) *Applier {
	t.Helper()
	var a *Applier
	var err error
	ns.Do(func() { a, err = Open(Options{Protocol: 201}) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// Without IFA_PROTO an address is ours because the agent wrote it down.
func TestNotedAddressesAreOurs(t *testing.T) {
	ns := netnstest.New(t, "noted")
	noted := addr("2001:db8::99")
	a := open(t, ns, Options{Addresses: []netip.Addr{noted}})
	ns.IP("-6 addr add 2001:db8::99/128 dev anchor nodad preferred_lft 0")
	ns.IP("-6 addr add 2001:db8::98/128 dev anchor nodad preferred_lft 0")
	expect(t, "of two addresses the noted one is ours", a, State{Addresses: []Address{
		{Device: anchorName, Prefix: prefix("2001:db8::99/128"), Deprecated: true, NoDAD: true},
	}})
	reach(t, a, State{})
	if shown := ns.IP("addr show dev anchor"); strings.Contains(shown, "::99/") || !strings.Contains(shown, "::98/") {
		t.Errorf("after removing what is ours there is %s", shown)
	}
}

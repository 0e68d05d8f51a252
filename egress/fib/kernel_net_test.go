package fib_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"hikyaku/egress/fib"
	"hikyaku/egress/kernel"
	"hikyaku/egress/netnstest"
)

// followed starts a mirror of a namespace's main table.
func followed(t *testing.T, ns *netnstest.NS) *fib.Table {
	t.Helper()
	var a *kernel.Applier
	var err error
	ns.Do(func() { a, err = kernel.Open(kernel.Options{}) })
	if err != nil {
		t.Fatal(err)
	}
	table := fib.New()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.WatchMain(ctx, table) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("watching ended with %v", err)
		}
		a.Close()
	})
	netnstest.Eventually(t, "the table is read", func() bool { return table.Known(kernel.IPv4) && table.Known(kernel.IPv6) })
	return table
}

// to describes the route to an address.
func to(table *fib.Table, address string) string {
	a := netip.MustParseAddr(address)
	prefix, hops, ok := table.Longest(netip.PrefixFrom(a, a.BitLen()))
	if !ok {
		return "none"
	}
	words := []string{prefix.String()}
	for _, hop := range hops.List {
		word := hop.Device
		if hop.Gateway.IsValid() {
			word += ">" + hop.Gateway.String()
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestMirrorOfTheKernel(t *testing.T) {
	ns := netnstest.New(t, "fib")
	for _, device := range []string{"d1", "d2"} {
		ns.IP("link add " + device + " type veth peer name p" + device)
		ns.IP("link set p" + device + " up")
	}
	ns.IP("addr add 2001:db8:1::1/64 dev d1 nodad")
	ns.IP("addr add 192.0.2.1/24 dev d1")
	ns.IP("addr add 2001:db8:2::1/64 dev d2 nodad")
	ns.IP("addr add 198.51.100.1/24 dev d2")
	ns.IP("link set d1 up")
	ns.IP("link set d2 up")
	ns.IP("-6 route add 2001:db8:c::/48 via 2001:db8:1::9")
	ns.IP("route add 203.0.113.0/24 via 192.0.2.9")
	table := followed(t, ns)
	const six, four = "2001:db8:c::1", "203.0.113.1"
	step := func(what, command, address, want string) {
		t.Helper()
		if command != "" {
			ns.IP(command)
		}
		netnstest.Eventually(t, what+": "+want, func() bool { return to(table, address) == want })
	}
	step("what was there", "", six, "2001:db8:c::/48 d1>2001:db8:1::9")
	step("what was there", "", four, "203.0.113.0/24 d1>192.0.2.9")
	step("a link", "", "2001:db8:1::5", "2001:db8:1::/64 d1")
	step("a default route", "-6 route add default via 2001:db8:2::9", "2001:db8:f::", "::/0 d2>2001:db8:2::9")
	step("replaced", "-6 route replace 2001:db8:c::/48 via 2001:db8:2::9", six, "2001:db8:c::/48 d2>2001:db8:2::9")
	step("replaced, IPv4", "route replace 203.0.113.0/24 via 198.51.100.9", four, "203.0.113.0/24 d2>198.51.100.9")
	step("a worse metric", "-6 route add 2001:db8:c::/48 via 2001:db8:1::9 metric 2048", six, "2001:db8:c::/48 d2>2001:db8:2::9")
	step("which takes over", "-6 route del 2001:db8:c::/48 via 2001:db8:2::9", six, "2001:db8:c::/48 d1>2001:db8:1::9")
	step("gone", "-6 route del 2001:db8:c::/48", six, "::/0 d2>2001:db8:2::9")
	step("multipath", "-6 route add 2001:db8:c::/48 nexthop via 2001:db8:1::9 nexthop via 2001:db8:2::9", six,
		"2001:db8:c::/48 d1>2001:db8:1::9 d2>2001:db8:2::9")
	step("a next hop less", "-6 route del 2001:db8:c::/48 via 2001:db8:1::9", six, "2001:db8:c::/48 d2>2001:db8:2::9")
	step("a next hop more", "-6 route append 2001:db8:c::/48 via 2001:db8:1::9", six, "2001:db8:c::/48 d1>2001:db8:1::9 d2>2001:db8:2::9")
	step("multipath, IPv4", "route replace 203.0.113.0/24 nexthop via 192.0.2.9 nexthop via 198.51.100.9", four,
		"203.0.113.0/24 d1>192.0.2.9 d2>198.51.100.9")
	step("an IPv4 prefix by IPv6", "route replace 203.0.113.0/24 via inet6 2001:db8:1::9 dev d1", four, "203.0.113.0/24 d1>2001:db8:1::9")
	step("dropped", "-6 route replace blackhole 2001:db8:d::/48", "2001:db8:d::", "2001:db8:d::/48")
	step("another table", "-6 route add 2001:db8:d:1::/64 via 2001:db8:1::9 table 77", "2001:db8:d:1::", "2001:db8:d::/48")
	ns.IP("nexthop add id 7 via 2001:db8:1::9 dev d1")
	step("a nexthop object", "-6 route replace 2001:db8:e::/48 nhid 7", "2001:db8:e::", "2001:db8:e::/48 d1>2001:db8:1::9")
	step("replaced below its route", "nexthop replace id 7 via 2001:db8:2::9 dev d2", "2001:db8:e::", "2001:db8:e::/48 d2>2001:db8:2::9")
	ns.IP("route replace 203.0.113.0/24 via 192.0.2.9")
	step("a link of IPv4 routes down, which the kernel does not report", "link set d1 down", four, "none")
	step("a device gone", "link del d2", "2001:db8:e::", "none")
}

// TestMirrorOfAFullTable has routes come while the table is read for the first time.
func TestMirrorOfAFullTable(t *testing.T) {
	const routes = 20_000
	ns := netnstest.New(t, "fib")
	ns.IP("link add d1 type veth peer name pd1")
	ns.IP("link set pd1 up")
	ns.IP("link set d1 up")
	ns.IP("addr add 2001:db8:1::1/64 dev d1 nodad")
	var a *kernel.Applier
	var err error
	ns.Do(func() { a, err = kernel.Open(kernel.Options{}) })
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	all := kernel.State{Nexthops: []kernel.Nexthop{{ID: 1, Family: kernel.IPv6, Device: "d1", Gateway: netip.MustParseAddr("2001:db8:1::9")}}}
	for n := range routes {
		prefix := netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(n >> 8), byte(n)}), 48)
		all.Routes = append(all.Routes, kernel.Route{Prefix: prefix, Table: kernel.MainTable, Metric: 20, Nexthop: 1})
	}
	loaded := make(chan error, 1)
	go func() { loaded <- a.Apply(t.Context(), kernel.Diff(kernel.State{}, all)) }()
	table := followed(t, ns)
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	netnstest.Eventually(t, "all routes are there", func() bool {
		return to(table, "2001:db8:4e1f::1") == "2001:db8:4e1f::/48 d1>2001:db8:1::9" && table.Len() >= routes
	})
	if err := a.Apply(t.Context(), kernel.Diff(all, kernel.State{})); err != nil {
		t.Fatal(err)
	}
	netnstest.Eventually(t, "all routes are gone", func() bool { return table.Len() < 100 })
}

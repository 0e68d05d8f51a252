package config

import (
	"strings"
	"testing"
)

func TestWrongServers(t *testing.T) {
	runBadCases(t, goodServer, []badCase{
		{"the interface is missing", "interface = \"eth0\"\n", "", []string{
			"srv6.interface: `interface` is missing: the one towards the AS, such as \"eth0\""}},
		{"the tunnel source is missing", "tunnel_source = \"2001:db8:5::1\"\n", "", []string{
			"srv6.tunnel_source: `tunnel_source` is missing: this server's own default IPv6 address"}},
		{"an IPv4 tunnel source", "2001:db8:5::1\"", "192.0.2.1\"", []string{
			"srv6.tunnel_source: `tunnel_source` is 192.0.2.1: SRv6's outer header is IPv6"}},
		{"a link-local tunnel source", "2001:db8:5::1\"", "fe80::1\"", []string{
			"srv6.tunnel_source: `tunnel_source` is fe80::1: it must be a unicast address that the AS routes"}},
		{"locators that overlap", "2001:db8:b2::/48", "2001:db8:b0::/44", []string{
			"srv6.locators[1]: locator 2001:db8:b0::/44 overlaps 2001:db8:b1::/48: each border has its own"}},
		{"a locator that holds the server", "2001:db8:b2::/48", "2001:db8:5::/48", []string{
			"srv6.locators[1]: locator 2001:db8:5::/48 holds this server's own address 2001:db8:5::1: locators are for SIDs alone",
			"path[0].addresses[0]: address 2001:db8:5::a1 of `transit-a` lies in the locator 2001:db8:5::/48, which is for SIDs alone",
			"path[1].addresses[0]: address 2001:db8:5::a2 of `transit-b` lies in the locator 2001:db8:5::/48, which is for SIDs alone"}},
		{"an IPv4 locator", "2001:db8:b2::/48", "192.0.2.0/24", []string{
			"srv6.locators[1]: locator 192.0.2.0/24 is no IPv6 prefix"}},
		{"an MTU that IPv6 has no room in", "[srv6]", "[srv6]\nmtu = 1300", []string{
			"srv6.mtu: `mtu`: `1300` is no MTU; expected \"auto\" or a number from 1344 to 65535 (IPv6's smallest MTU and 64 bytes of SRv6)"}},
		{"an MTU by name", "[srv6]", "[srv6]\nmtu = 'jumbo'", []string{
			"srv6.mtu: `mtu`: `jumbo` is no MTU; expected \"auto\" or a number from 1344 to 65535 (IPv6's smallest MTU and 64 bytes of SRv6)"}},
		{"an MTU", "[srv6]", "[srv6]\nmtu = 1600", nil},
		{"probes that are too frequent, and too few", "", "[probe]\ninterval = '5ms'\nlost = 2\nhold = '2m'\n", []string{
			"probe.interval: `interval` is 5ms: it must be 10ms to 10s, or 0s for no probes",
			"probe.lost: `lost` is 2: it must be 3 to 100",
			"probe.hold: `hold` is 2m0s: it must be 0s to 1m0s"}},
		{"no probes", "", "[probe]\ninterval = '0s'\n", nil},
		{"a mask of nothing", "", "[kernel]\nmark_mask = 0\n", []string{
			"kernel.mark_mask: `mark_mask` is 0: every packet would match"}},
		{"no routes and no connections", "", "[limits]\nroutes_per_path = 0\nconnections = 0\n", []string{
			"limits.routes_per_path: `routes_per_path` is 0: no route would be taken",
			"limits.connections: `connections` is 0: to leave MPTCP alone say `mptcp.mode = \"off\"`"}},
		{"an unknown mode of MPTCP", "", "[mptcp]\nmode = 'on'\n", []string{
			"mptcp.mode: `mode`: \"on\" is unknown; expected one of \"off\", \"kernel\", \"userspace\""}},
		{"more addresses and subflows than the kernel has", "", "[mptcp]\naddresses = 0\nsubflows = 9\n", []string{
			"mptcp.addresses: `addresses` is 0: it must be 1 to 8",
			"mptcp.subflows: `subflows` is 9: it must be 1 to 8, which is the kernel's limit"}},
		{"a timeout of announcements that the kernel cannot have", "", "[mptcp]\nadd_addr_timeout = '1500ms'\n", []string{
			"mptcp.add_addr_timeout: `add_addr_timeout` is 1.5s: it must be whole seconds from 1s to 2m0s, the kernel's default"}},
		{"ports in the kernel's mode", "", "[mptcp]\nmode = 'kernel'\nports = [443]\n", []string{
			"mptcp.ports: `ports` needs `mode = \"userspace\"`: the kernel's path manager treats all ports alike"}},
		{"best paths", "", "[plain]\nreflectors = ['rr1']\n", nil},
		{"best paths of nobody", "", "[plain]\nreflectors = ['rr9']\n", []string{
			"plain.reflectors[0]: `reflectors` has `rr9`, which is the name of no [[reflector]]"}},
		{"best paths of a reflector that connects", "[[reflector]]\n", "[plain]\nreflectors = ['rr1']\n[bgp]\nlisten = ['::']\n[[reflector]]\npassive = true\n", []string{
			"plain.reflectors[0]: `reflectors` has `rr1`, which is `passive`: best paths need a session that the agent opens"}},
		{"next hops that are nobody's, and of two paths", "peer = 1\n", "peer = 1\nnext_hops = ['::', '2001:db8:a1::1', '2001:db8:a1::1']\n", []string{
			"path[0].next_hops[0]: `next_hops` has ::: it needs addresses of the egress peer, as routes have them",
			"path[0].next_hops[2]: next hop 2001:db8:a1::1 of `transit-a` is that of `transit-a`, too: give each its own"}},
		{"ports twice and none", "", "[mptcp]\nports = [443, 0, 443]\n", []string{
			"mptcp.ports[1]: port 0 is nobody's",
			"mptcp.ports[2]: port 443 of entry 3 is that of entry 1, too: give each its own"}},
	})
	runBadCases(t, goodServer[:strings.Index(goodServer, "[[path]]")], []badCase{
		{"no path", "asn", "asn", []string{"path: no [[path]]: name at least one way out of the AS"}},
	})
}

func TestWrongPaths(t *testing.T) {
	runBadCases(t, goodServer, []badCase{
		{"all is missing", "", "[[path]]\n", []string{
			"path[2].name: `name` is missing: a name for logs, the API and the edge server",
			"path[2].number: `number` is missing: the path's number on this server, from 1 up",
			"path[2].border: `border` is missing: the router ID of the path's border router",
			"path[2].peer: `peer` is missing: the number that the peer has in its border's configuration",
			"path[2].addresses: `addresses` is missing: the EPE addresses, such as [\"2001:db8:5::a1\"]"}},
		{"a name that means a mode", `name = "transit-a"`, `name = "plain"`, []string{
			"path[0].name: a path can't be called `plain`, which means a way to choose paths"}},
		{"a name of somebody else", `name = "transit-b"`, `name = "transit-a"`, []string{
			"path[1].name: name transit-a of [[path]] 2 is that of [[path]] 1, too: give each its own"}},
		{"number 0", "number = 1\n", "number = 0\n", []string{
			"path[0].number: `number` is 0: numbers begin with 1"}},
		{"a number outside the tables", "number = 1\n", "number = 1000\n", []string{
			"path[0].number: table 11000 of `transit-a` is outside `kernel.tables` 10000-10999: take a smaller number or a longer range"}},
		{"a border by its IPv6 address", `border = "192.0.2.1"`, `border = "2001:db8::1"`, []string{
			"path[0].border: `border` is 2001:db8::1: it must be the border's `router_id`, an IPv4 address"}},
		{"the server as border", `border = "192.0.2.1"`, `border = "192.0.2.11"`, []string{
			"path[0].border: `border` 192.0.2.11 is this server's own `router_id`"}},
		{"two paths by one peer", "peer = 7", "peer = 1", []string{
			"path[1].peer: RD 192.0.2.1:1 of `transit-b` is that of `transit-a`, too: give each its own"}},
		{"an address of somebody else", "::a2", "::a1", []string{
			"path[1].addresses[0]: address 2001:db8:5::a1 of `transit-b` is that of `transit-a`, too: give each its own"}},
		{"the server's default address", "::a1", "::1", []string{
			"path[0].addresses[0]: address 2001:db8:5::1 of `transit-a` is that of `srv6.tunnel_source`, too: give each its own"}},
		{"a reflector's address", "2001:db8:5::a1", "2001:db8::53", []string{
			"path[0].addresses[0]: address 2001:db8::53 of `transit-a` is that of reflector `rr1`, too: give each its own"}},
		{"an address in a locator", "2001:db8:5::a1", "2001:db8:b2::1", []string{
			"path[0].addresses[0]: address 2001:db8:b2::1 of `transit-a` lies in the locator 2001:db8:b2::/48, which is for SIDs alone"}},
		{"a loopback address", "2001:db8:5::a1", "::1", []string{
			"path[0].addresses[0]: `addresses` is ::1: it must be a unicast address that the AS routes"}},
		{"IPv4 alone", `"2001:db8:5::a2", `, "", nil},
		{"no address", `["2001:db8:5::a2", "198.51.100.2"]`, "[]", []string{
			"path[1].addresses: `transit-b` has no address: it needs one of the family of its routes, at least"}},
		{"two addresses of a family", `"2001:db8:5::a1"`, `"2001:db8:5::a1", "2001:db8:5::a3"`, []string{
			"path[0].addresses: `transit-a` has several addresses of one family: at most one IPv6 and one IPv4 address"}},
		{"an address that is none", `"2001:db8:5::a1"`, `"a1"`, []string{
			"path[0].addresses[0]: `addresses`: `a1` is no IPv6 or IPv4 address"}},
		{"a mark of somebody else", "number = 2", "number = 2\nmark = 0x680001", []string{
			"path[1].mark: mark 0x680001 of `transit-b` is that of `transit-a`, too: give each its own"}},
		{"a table of somebody else", "number = 2", "number = 2\ntable = 10001", []string{
			"path[1].table: table 10001 of `transit-b` is that of `transit-a`, too: give each its own"}},
		{"an RD of one's own choice", "peer = 7", "peer = 7\nrd = '64500:7'\nrt = '64500:7'", nil},
	})
}

func TestWrongMarks(t *testing.T) {
	masked := goodServer + "[kernel]\nmark_base = 0x100\nmark_mask = 0xff0\n"
	runBadCases(t, masked, []badCase{
		{"marks that the mask cuts", "number = 1\n", "number = 0x10\n", []string{
			"path[1].number: mark 0x102 of `transit-b` has bits outside `kernel.mark_mask` 0xff0"}},
	})
	runBadCases(t, goodServer+"[kernel]\nmark_base = 0xffffffff\n", []badCase{
		{"marks beyond 32 bits", "asn", "asn", []string{
			"path[0].number: `kernel.mark_base` and number 1 of `transit-a` are more than 0xffffffff: take smaller ones",
			"path[1].number: `kernel.mark_base` and number 2 of `transit-b` are more than 0xffffffff: take smaller ones"}},
	})
	runBadCases(t, goodServer+"[kernel]\nmark_mask = 0xff000000\n", []badCase{
		{"marks that the mask makes zero", "asn", "asn", []string{
			"path[0].number: mark 0x680001 of `transit-a` is zero under `kernel.mark_mask` 0xff000000, as that of unmarked packets",
			"path[1].number: mark 0x680002 of `transit-b` is zero under `kernel.mark_mask` 0xff000000, as that of unmarked packets"}},
	})
}

func TestWrongBorderOfPlainPackets(t *testing.T) {
	runBadCases(t, goodServer+"[plain]\nborder = '192.0.2.1'\n", []badCase{
		{"that of a path", "asn", "asn", nil},
		{"that of no path", "[plain]\nborder = '192.0.2.1'", "[plain]\nborder = '192.0.2.9'", []string{
			"plain.border: `border` 192.0.2.9 is that of no [[path]]: give the router ID of one that has paths, or leave it out"}},
	})
}

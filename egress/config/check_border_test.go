package config

import (
	"strings"
	"testing"
)

const notReserved = "is reserved and can't be anybody's"

func TestWrongBorders(t *testing.T) {
	runBadCases(t, goodBorder, []badCase{
		{"the AS is missing", "asn = 64500\n", "", []string{"asn: `asn` is missing: the number of the own AS"}},
		{"a reserved AS", "asn = 64500\n", "asn = 23456\n", []string{"asn: AS 23456 " + notReserved}},
		{"the router ID is missing", "router_id = \"192.0.2.1\"\n", "", []string{
			"router_id: `router_id` is missing: the BGP identifier, an IPv4 address that nobody else in the AS has"}},
		{"the router ID is 0.0.0.0", "192.0.2.1", "0.0.0.0", []string{
			"router_id: `router_id` is 0.0.0.0: it must be an IPv4 address (RFC 6286), also where all else is IPv6"}},
		{"the locator is missing", "locator = \"2001:db8:b1::/48\"\n", "", []string{
			"srv6.locator: `locator` is missing: the prefix that SIDs are issued from, such as \"2001:db8:b1::/48\""}},
		{"a block longer than the locator", "[srv6]", "[srv6]\nblock_length = 49", []string{
			"srv6.block_length: `block_length` is 49: it must be 1 to the locator's length, 48"}},
		{"a function of too many bits", "[srv6]", "[srv6]\nfunction_length = 33", []string{
			"srv6.locator: locator 2001:db8:b1::/48: function has 33 bits, needs 8 to 32"}},
		{"an IPv4 locator", "2001:db8:b1::/48", "192.0.2.0/24", []string{
			"srv6.block_length: `block_length` is 32: it must be 1 to the locator's length, 24"}},
		{"no interface", `["eth0"]`, "[]", []string{
			"srv6.interfaces: `interfaces` is missing: name those that packets of content servers come in by"}},
		{"an interface twice", `["eth0"]`, `["eth0", "eth0"]`, []string{
			"srv6.interfaces[1]: interface eth0 of entry 2 is that of entry 1, too: give each its own"}},
		{"an interface that can't be", `["eth0"]`, `["a/b"]`, []string{
			"srv6.interfaces[0]: `a/b` is no interface name: 1 to 15 characters, no spaces, no `/` and no `:`"}},
		{"the kernel's own tables", "", "[kernel]\ntables = '250-260'\n", []string{
			"kernel.tables: `tables` 250-260 holds one of the kernel's own (0, 253 default, 254 main, 255 local): begin above 255"}},
		{"a rule after the main table's", "", "[kernel]\nrule_priority = 32760\n", []string{
			"kernel.rule_priority: `rule_priority` is 32760: it must be 1 to 32756, so that ten rules come before the main table's (32766)"}},
		{"prefixes longer than addresses", "", "[import]\nipv6_max_length = 129\nipv4_max_length = 33\n", []string{
			"import.ipv6_max_length: `ipv6_max_length` is 129: an IPv6 prefix has at most 128 bits",
			"import.ipv4_max_length: `ipv4_max_length` is 33: an IPv4 prefix has at most 32 bits"}},
		{"a refused prefix with host bits", "", "[import]\nrefuse = ['2001:db8::1/32']\n", []string{
			"import.refuse[0]: `refuse`: `2001:db8::1/32` has bits set after its length: write 2001:db8::/32"}},
	})
	runBadCases(t, goodBorder[:strings.Index(goodBorder, "[[reflector]]")], []badCase{
		{"neither reflector nor peer", "asn", "asn", []string{
			"reflector: no [[reflector]]: name at least one route reflector of the own AS",
			"peer: no [[peer]]: name at least one egress peer"}},
	})
}

func TestWrongImports(t *testing.T) {
	peer := func(line string) string { return "asn = 64496\n" + line + "\n" }
	cache := func(more string) string { return "[[rpki_cache]]\nname = 'c'\naddress = '2001:db8::323'\n" + more }
	runBadCases(t, goodBorder, []badCase{
		{"a warning above the bound", "asn = 64496\n", peer("max_prefixes_warning = 101"), []string{
			"peer[0].max_prefixes_warning: `max_prefixes_warning` is 101: it is a share of `max_prefixes`, at most 100 percent"}},
		{"a restart of a session that stays", "asn = 64496\n", peer("max_prefixes_restart = '5m'"), []string{
			"peer[0].max_prefixes_restart: `max_prefixes_restart` is for `max_prefixes_action = \"teardown\"`, which ends the session; `transit-a` has \"refuse\""}},
		{"a restart", "asn = 64496\n", peer("max_prefixes_action = 'teardown'\nmax_prefixes_restart = '5m'"), nil},
		{"a role that there is not", "asn = 64496\n", peer("local_role = 'transit'"), []string{
			"peer[0].local_role: `local_role`: \"transit\" is unknown; expected one of \"none\", \"provider\", \"customer\", \"peer\", \"rs\", \"rs-client\""}},
		{"strict without a role", "asn = 64496\n", peer("strict_role = true"), []string{
			"peer[0].strict_role: `strict_role` of `transit-a` needs a `local_role`"}},
		{"strict where GoBGP has the session", "asn = 64496\n", peer("strict_role = true\nlocal_role = 'customer'") + "[router]\nbest_paths = true\n[[peer]]\nname = 'x'\nnumber = 9\naddress = '2001:db8:e::1'\nasn = 64499\n", []string{
			"peer[0].strict_role: `strict_role` of `transit-a` needs a session that the agent opens: take out `passive` and `router.best_paths`"}},
		{"a list's length out of range", "asn = 64496\n", peer("import.accept_prefixes = ['2001:db8::/32 le 31']"), []string{
			"peer[0].import.accept_prefixes[0]: `accept_prefixes`: `le 31` of `2001:db8::/32 le 31`: a length from 32 to 128 is needed"}},
		{"a list's range that is empty", "asn = 64496\n", peer("import.accept_prefixes = ['2001:db8::/32 ge 40 le 36']"), []string{
			"peer[0].import.accept_prefixes[0]: `accept_prefixes`: `2001:db8::/32 ge 40 le 36` matches no length: `ge` is above `le`"}},
		{"a list's word", "asn = 64496\n", peer("import.refuse_prefixes = ['2001:db8::/32 up 40', '2001:db8::/32 le']"), []string{
			"peer[0].import.refuse_prefixes[0]: `refuse_prefixes`: `2001:db8::/32 up 40` has `up`; expected `ge` or `le`",
			"peer[0].import.refuse_prefixes[1]: `refuse_prefixes`: `2001:db8::/32 le` ends with `le`; expected `ge` or `le` with a length"}},
		{"a wrong expression", "asn = 64496\n", peer("import.refuse_as_paths = ['(']"), []string{
			"peer[0].import.refuse_as_paths[0]: `refuse_as_paths`: `(` is no regular expression: error parsing regexp: missing closing ): `(`"}},
		{"a wrong community", "asn = 64496\n", peer("import.refuse_communities = ['rt:1']"), []string{
			"peer[0].import.refuse_communities[0]: `refuse_communities`: reading a community from `rt:1`: expected `64500:100`, `64500:1:2`, `rt:64500:100`, `soo:64500:100` or 0x and 16 hexadecimal digits; `*` stands for any number"}},
		{"prefixes of a peer longer than addresses", "asn = 64496\n", peer("import.ipv6_max_length = 129"), []string{
			"peer[0].import.ipv6_max_length: `ipv6_max_length` is 129: an IPv6 prefix has at most 128 bits"}},
		{"a cache", "", cache(""), nil},
		{"a cache without address", "", "[[rpki_cache]]\nname = 'c'\n", []string{"rpki_cache[0].address: `address` is missing: the cache's address"}},
		{"a cache at nobody's address", "", "[[rpki_cache]]\nname = 'c'\naddress = '::'\n", []string{"rpki_cache[0].address: `address` is ::, which is nobody's"}},
		{"caches of one name and address", "", cache("") + cache(""), []string{
			"rpki_cache[1].name: name c of [[rpki_cache]] 2 is that of [[rpki_cache]] 1, too: give each its own",
			"rpki_cache[1].address: address [2001:db8::323]:323 of `c` is that of `c`, too: give each its own"}},
		{"a cache from the other family", "", cache("local_address = '192.0.2.1'\n"), []string{
			"rpki_cache[0].local_address: `local_address` is 192.0.2.1, but `c` is 2001:db8::323: both must be IPv6"}},
		{"intervals out of range", "", cache("retry = '3h'\nexpire = '1m'\n"), []string{
			"rpki_cache[0].retry: `retry` is 3h0m0s: it must be 1s to 2h0m0s (RFC 8210 §6)",
			"rpki_cache[0].expire: `expire` is 1m0s: it must be 10m0s to 48h0m0s (RFC 8210 §6)"}},
		{"an early expiry", "", cache("expire = '1h'\n"), []string{
			"rpki_cache[0].expire: `expire` is 1h0m0s: it must be longer than `refresh` and `retry` (RFC 8210 §6)"}},
	})
}

func TestPeersHaveTheImportPolicyOfAll(t *testing.T) {
	border := mustParse(t, goodBorder+"import.ipv6_max_length = 44\nlocal_role = 'rs-client'\n[import]\nipv6_max_length = 40\nipv4_max_length = 20\ndefault_route = true\n").Border
	a, b := border.Peers[0], border.Peers[1]
	if a.Import.IPv6MaxLength != 40 || a.Import.IPv4MaxLength != 20 || !a.Import.DefaultRoute || !a.FirstAS() {
		t.Errorf("without keys of its own a peer has %+v", a.Import)
	}
	if b.Import.IPv6MaxLength != 44 || b.Import.IPv4MaxLength != 20 || b.FirstAS() {
		t.Errorf("with keys of its own a peer has %+v", b.Import)
	}
}

func TestWrongPeers(t *testing.T) {
	runBadCases(t, goodBorder, []badCase{
		{"the AS is missing", "asn = 64496\n", "", []string{"peer[0].asn: `asn` is missing: the neighbour's AS number"}},
		{"the own AS", "asn = 64496", "asn = 64500", []string{
			"peer[0].asn: `transit-a` has the own AS 64500, so it is no way out of it: give the neighbour's AS " +
				"(docs/egress-deploy.md shows how an own router hands on a peer's routes)"}},
		{"TTL security over several hops", "asn = 64496", "asn = 64496\nttl_security = true\nmultihop = 2", []string{
			"peer[0].ttl_security: `ttl_security` and `multihop` 2 exclude each other (RFC 5082 §3)"}},
		{"TTL security", "asn = 64496", "asn = 64496\nttl_security = true", nil},
		{"the number is missing", "number = 1\n", "", []string{
			"peer[0].number: `number` is missing: the peer's number at this border, from 1 up, never given to another one"}},
		{"number 0", "number = 1\n", "number = 0\n", []string{
			"peer[0].number: `number` is 0: it must be 1 to 65535, since it becomes part of the route distinguisher"}},
		{"a number too large for the tables", "number = 1\n", "number = 1000\n", []string{
			"peer[0].number: table 11000 of `transit-a` is outside `kernel.tables` 10000-10999: take a smaller number or a longer range"}},
		{"a number of somebody else", "number = 7\n", "number = 1\n", []string{
			"peer[1].number: number 1 of `transit-b` is that of `transit-a`, too: give each its own"}},
		{"an address of somebody else", "2001:db8:b::1", "2001:db8:a::1", []string{
			"peer[1].address: address 2001:db8:a::1 of `transit-b` is that of `transit-a`, too: give each its own"}},
		{"an own address in the locator", "asn = 64496\n", "asn = 64496\nlocal_address = '2001:db8:b1::9'\n", []string{
			"peer[0].local_address: `local_address` 2001:db8:b1::9 of `transit-a` lies in the locator 2001:db8:b1::/48, which is for SIDs alone"}},
		{"an own address towards a reflector in the locator", "name = \"rr1\"\n", "name = \"rr1\"\nlocal_address = '2001:db8:b1::9'\n", []string{
			"reflector[0].local_address: `local_address` 2001:db8:b1::9 of `rr1` lies in the locator 2001:db8:b1::/48, which is for SIDs alone"}},
		{"an address in the locator", "2001:db8:a::1", "2001:db8:b1::1", []string{
			"peer[0].address: `address` 2001:db8:b1::1 of `transit-a` lies in the locator 2001:db8:b1::/48, which is for SIDs alone"}},
		{"a link-local address without interface", "2001:db8:a::1", "fe80::1", []string{
			"peer[0].address: `address` is link-local: say on which interface, such as `fe80::1%eth0`"}},
		{"a link-local address with interface", "2001:db8:a::1", "fe80::1%eth1", nil},
		{"a multicast address", "2001:db8:a::1", "ff02::1", []string{"peer[0].address: `address` is ff02::1, which is nobody's"}},
		{"a source of the other family", "asn = 64496", "asn = 64496\nlocal_address = '192.0.2.9'", []string{
			"peer[0].local_address: `local_address` is 192.0.2.9, but `transit-a` is 2001:db8:a::1: both must be IPv6"}},
		{"a passive session that nobody waits for", "asn = 64496", "asn = 64496\npassive = true", []string{
			"peer[0].passive: `transit-a` is passive, but `bgp.listen` has no IPv6 address to wait on"}},
		{"a hold time that is too short", "asn = 64496", "asn = 64496\nhold_time = '2s'", []string{
			"peer[0].hold_time: `hold_time` is 2s: it must be whole seconds from 3s to 65535s (RFC 4271 §4.2)"}},
		{"no hops", "asn = 64496", "asn = 64496\nmultihop = 0", []string{
			"peer[0].multihop: `multihop` is 0: 1 is directly connected"}},
		{"no families", "asn = 64496", "asn = 64496\nfamilies = []", []string{
			"peer[0].families: `families` is empty: name \"ipv6\", \"ipv4\" or both"}},
		{"a family twice", "asn = 64496", "asn = 64496\nfamilies = ['ipv6', 'ipv6']", []string{
			"peer[0].families[1]: family ipv6 of entry 2 is that of entry 1, too: give each its own"}},
		{"no routes", "asn = 64496", "asn = 64496\nmax_prefixes = 0", []string{
			"peer[0].max_prefixes: `max_prefixes` is 0: no route of `transit-a` would be taken"}},
		{"a password that is not there", "asn = 64496", "asn = 64496\npassword_file = '/nonexistent'", []string{
			"peer[0].password_file: reading the BGP password: open /nonexistent: no such file or directory"}},
		{"a name that is none", `name = "transit-a"`, `name = "-a"`, []string{
			"peer[0].name: `name` is `-a`: it must be 1 to 64 letters, digits, `.`, `_` and `-`, and begin with a letter or digit"}},
		{"a name of a reflector", `name = "transit-a"`, `name = "rr1"`, []string{
			"peer[0].name: name rr1 of [[peer]] 1 is that of [[reflector]] 1, too: give each its own"}},
	})
}

func TestWrongOverrides(t *testing.T) {
	runBadCases(t, goodBorder, []badCase{
		{"a SID of another locator", "number = 1\n", "number = 1\nsid = '2001:db8:b2:1::'\n", []string{
			"peer[0].sid: `sid` 2001:db8:b2:1:: is no SID of the locator 2001:db8:b1::/48: after its 48 bits comes a " +
				"function of 16 bits, not zero, and then zeros only"}},
		{"a SID with an argument", "number = 1\n", "number = 1\nsid = '2001:db8:b1:1::1'\n", []string{
			"peer[0].sid: `sid` 2001:db8:b1:1::1 is no SID of the locator 2001:db8:b1::/48: after its 48 bits comes a " +
				"function of 16 bits, not zero, and then zeros only"}},
		{"a SID that another's number gives", "number = 1\n", "number = 1\nsid = '2001:db8:b1:7::'\n", []string{
			"peer[1].number: SID 2001:db8:b1:7:: of `transit-b` is that of `transit-a`, too: give each its own"}},
		{"a SID of one's own choice", "number = 1\n", "number = 1\nsid = '2001:db8:b1:ff::'\n", nil},
		{"the main table", "number = 1\n", "number = 1\ntable = 254\n", []string{
			"peer[0].table: table 254 of `transit-a` is one of the kernel's own (253 default, 254 main, 255 local)"}},
		{"a table that another's number gives", "number = 7\n", "number = 7\ntable = 10001\n", []string{
			"peer[1].table: table 10001 of `transit-b` is that of `transit-a`, too: give each its own"}},
		{"a table of one's own choice", "number = 7\n", "number = 7\ntable = 42\n", nil},
		{"an RD that another's number gives", "number = 7\n", "number = 7\nrd = '192.0.2.1:1'\n", []string{
			"peer[1].rd: RD 192.0.2.1:1 of `transit-b` is that of `transit-a`, too: give each its own"}},
		{"the border's own RD", "number = 7\n", "number = 7\nrd = '192.0.2.1:0'\n", []string{
			"peer[1].rd: `rd` of `transit-b` is 192.0.2.1:0, which is the border's own: give it another number"}},
		{"the border's own RT", "number = 7\n", "number = 7\nrt = '192.0.2.1:0'\n", []string{
			"peer[1].rt: `rt` of `transit-b` is 192.0.2.1:0, which is the border's own: give it another number"}},
		{"an RT that another's number gives", "number = 7\n", "number = 7\nrt = '192.0.2.1:1'\n", []string{
			"peer[1].rt: RT 192.0.2.1:1 of `transit-b` is that of `transit-a`, too: give each its own"}},
	})
	short := strings.Replace(goodBorder, "[srv6]", "[srv6]\nfunction_length = 8", 1)
	runBadCases(t, short, []badCase{
		{"a number that the function has no bits for", "number = 7\n", "number = 256\n", []string{
			"peer[1].number: number 256 of `transit-b` does not fit the SID's function of 8 bits: take a smaller one, or give it a `sid`"}},
	})
	both := strings.Replace(goodBorder, "asn = 64496", "asn = 64496\nfamilies = ['ipv6', 'ipv4']\n", 1)
	runBadCases(t, both, []badCase{
		{"a second SID outside the locator", "families", "ipv4_sid = '2001:db8:b2:1::'\nfamilies", []string{
			"peer[0].ipv4_sid: `ipv4_sid` 2001:db8:b2:1:: is no SID of the locator 2001:db8:b1::/48: after its 48 bits comes " +
				"a function of 16 bits, not zero, and then zeros only"}},
		{"another peer's SID for IPv4", "families", "ipv4_sid = '2001:db8:b1:7::'\nfamilies", []string{
			"peer[1].number: SID 2001:db8:b1:7:: of `transit-b` is that of IPv4 of `transit-a`, too: give each its own"}},
		{"a second SID of one's own choice", "families", "ipv4_sid = '2001:db8:b1:ff::'\nfamilies", nil},
	})
}

func TestRoutesByBMP(t *testing.T) {
	const byBMP = "asn = 64496\nroutes = 'bmp'"
	runBadCases(t, goodBorder, []badCase{
		{"nobody waits for routers", "asn = 64496", byBMP, []string{
			"peer[0].routes: `transit-a` has its routes by BMP, but `bmp.listen` has no address to wait for routers on"}},
		{"an unknown source", "asn = 64496", "asn = 64496\nroutes = 'rumour'", []string{
			"peer[0].routes: `routes`: \"rumour\" is unknown; expected one of \"session\", \"bmp\", \"add-path\""}},
		{"LOCAL_PREF 0", "asn = 64496", "asn = 64496\nlocal_pref = 0", []string{
			"peer[0].local_pref: `local_pref` is 0: it must be 1 to 4294967295, and is 100 without the key"}},
	})
	station := goodBorder + "[bmp]\nlisten = ['[2001:db8::b1]:11019']\nrouters = ['2001:db8::b1']\n"
	runBadCases(t, station, []badCase{
		{"all is right", "asn = 64496", byBMP, nil},
		{"a session's keys", "asn = 64496", byBMP + "\nhold_time = '9s'", []string{
			"peer[0].hold_time: `hold_time` is for a session, and the agent has none with `transit-a`, whose routes come by BMP"}},
		{"no routers", "routers = ['2001:db8::b1']\n", "", []string{
			"bmp.routers: `routers` is missing: name the addresses that BMP routers connect from"}},
		{"a short time", "routers = ", "dead_time = '1s'\nrouters = ", []string{
			"bmp.dead_time: `dead_time` is 1s: at least 3s is needed"}},
		{"no port", ":11019", ":0", []string{
			"bmp.listen[0]: `listen`: `[2001:db8::b1]:0` is no ADDRESS:PORT such as 127.0.0.1:9100"}},
	})
	runBadCases(t, station+"[router]\nbest_paths = true\n", []badCase{
		{"best paths", "asn = 64496", byBMP, []string{
			"peer[0].routes: `transit-a` has its routes by BMP, which `router.best_paths` does not see: " +
				"leave the main table to the router that has the session"}},
	})
}

func TestRoutesByAddPath(t *testing.T) {
	const byPath = "asn = 64496\nroutes = 'add-path'"
	runBadCases(t, goodBorder, []badCase{
		{"nobody sends them", "asn = 64496", byPath, []string{
			"peer[0].routes: `transit-a` has its routes by ADD-PATH, but there is no [[add_path]] that sends them"}},
	})
	router := goodBorder + "[[add_path]]\nname = 'router'\naddress = '2001:db8::b0'\n"
	runBadCases(t, router, []badCase{
		{"all is right", "asn = 64496", byPath, nil},
		{"a session's keys", "asn = 64496", byPath + "\nhold_time = '9s'", []string{
			"peer[0].hold_time: `hold_time` is for a session, and the agent has none with `transit-a`, whose routes come by ADD-PATH"}},
		{"a next hop of nobody", "asn = 64496", byPath + "\nadd_path.next_hops = ['::']", []string{
			"peer[0].add_path.next_hops[0]: `next_hops` has ::: it needs addresses of the peer, as routes have them"}},
	})
}

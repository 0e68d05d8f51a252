package importpolicy

import "net/netip"

// globalUnicast is what IANA has handed out for the Internet (RFC 4291 §2.4).
var globalUnicast = netip.MustParsePrefix("2000::/3")

// martians are prefixes of IANA's registries of special-purpose addresses (RFC 6890). Nobody
// may announce them to all, nor anything within them (RFC 7454 §6.1.1). IPv6 has those of
// [globalUnicast] alone.
var martians = map[bool][]netip.Prefix{
	true: prefixes(
		"0.0.0.0/8",       // this network, RFC 791 §3.2
		"10.0.0.0/8",      // private use, RFC 1918
		"100.64.0.0/10",   // behind a carrier's NAT, RFC 6598
		"127.0.0.0/8",     // loopback, RFC 1122 §3.2.1.3
		"169.254.0.0/16",  // link-local, RFC 3927
		"172.16.0.0/12",   // private use, RFC 1918
		"192.0.0.0/24",    // of protocols, RFC 6890 §2.1
		"192.0.2.0/24",    // documentation, RFC 5737
		"192.88.99.0/24",  // former relays of 6to4, RFC 7526
		"192.168.0.0/16",  // private use, RFC 1918
		"198.18.0.0/15",   // benchmarks, RFC 2544
		"198.51.100.0/24", // documentation, RFC 5737
		"203.0.113.0/24",  // documentation, RFC 5737
		"224.0.0.0/4",     // multicast, RFC 5771
		"240.0.0.0/4",     // reserved, RFC 1112 §4
	),
	false: prefixes(
		"2001:2::/48",   // benchmarks, RFC 5180
		"2001:10::/28",  // former ORCHID, RFC 4843
		"2001:db8::/32", // documentation, RFC 3849
		"3ffe::/16",     // former 6bone, RFC 3701
		"3fff::/20",     // documentation, RFC 9637
	),
}

// relayed may be announced as they are, and nothing within them.
var relayed = prefixes(
	"2001::/32", // Teredo, RFC 4380
	"2002::/16", // 6to4, RFC 3056 §2
)

func prefixes(list ...string) (parsed []netip.Prefix) {
	for _, text := range list {
		parsed = append(parsed, netip.MustParsePrefix(text))
	}
	return parsed
}

// martian reports whether a prefix is nobody's in the Internet.
func martian(p netip.Prefix) bool {
	if p.Addr().Is6() && !covers(globalUnicast, p) {
		return true
	}
	for _, m := range martians[p.Addr().Is4()] {
		if covers(m, p) {
			return true
		}
	}
	for _, r := range relayed {
		if covers(r, p) && r != p {
			return true
		}
	}
	return false
}

func covers(whole, part netip.Prefix) bool {
	return whole.Bits() <= part.Bits() && whole.Contains(part.Addr())
}

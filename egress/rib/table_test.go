package rib_test

import (
	"net/netip"
	"slices"
	"testing"

	"hikyaku/egress/rib"
)

func TestLongest(t *testing.T) {
	var table rib.Table[string]
	for _, p := range []string{"::/0", "2001:db8::/32", "2001:db8:1::/48", "2001:db8:2::/48", "0.0.0.0/0", "198.51.100.0/24"} {
		table.Set(netip.MustParsePrefix(p), p)
	}
	table.Set(netip.MustParsePrefix("2001:db8:3::/48"), "unusable")
	table.Set(netip.MustParsePrefix("2001:db8:4::/48"), "gone")
	table.Delete(netip.MustParsePrefix("2001:db8:4::/48"))
	table.Delete(netip.MustParsePrefix("2001:db8:9::/48"))
	for name, test := range map[string]struct{ within, want string }{
		"an address in the longest":                {"2001:db8:1::7/128", "2001:db8:1::/48"},
		"exactly a prefix":                         {"2001:db8:2::/48", "2001:db8:2::/48"},
		"a prefix wider than the longest":          {"2001:db8::/40", "2001:db8::/32"},
		"past an unusable one":                     {"2001:db8:3::1/128", "2001:db8::/32"},
		"past a deleted one":                       {"2001:db8:4::1/128", "2001:db8::/32"},
		"the default":                              {"2001:db9::1/128", "::/0"},
		"IPv4":                                     {"198.51.100.9/32", "198.51.100.0/24"},
		"IPv4 does not match the IPv6 default":     {"192.0.2.1/32", "0.0.0.0/0"},
		"a prefix as wide as the default is found": {"::/0", "::/0"},
	} {
		_, got, ok := table.Longest(netip.MustParsePrefix(test.within), func(v string) bool { return v != "unusable" })
		if !ok || got != test.want {
			t.Errorf("%s: %s matches %q, %v, want %q", name, test.within, got, ok, test.want)
		}
	}
	if table.Len() != 7 {
		t.Errorf("%d prefixes, want 7", table.Len())
	}
	var empty rib.Table[string]
	if p, _, ok := empty.Longest(netip.MustParsePrefix("::/0"), func(string) bool { return true }); ok {
		t.Errorf("an empty table matches %s", p)
	}
}

func TestCoveringPrefixesComeLongestFirst(t *testing.T) {
	var table rib.Table[int]
	for i, text := range []string{"::/0", "2001:db8::/32", "2001:db8:1::/48", "2001:db8:2::/48", "0.0.0.0/0"} {
		table.Set(netip.MustParsePrefix(text), i)
	}
	var got []int
	for _, v := range table.Covering(netip.MustParsePrefix("2001:db8:1::7/128")) {
		got = append(got, v)
	}
	if !slices.Equal(got, []int{2, 1, 0}) {
		t.Errorf("covering prefixes are %v", got)
	}
}

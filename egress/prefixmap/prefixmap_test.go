package prefixmap

import (
	"net/netip"
	"slices"
	"testing"
)

func TestSet(t *testing.T) {
	set := NewSet([]netip.Prefix{
		netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2001:db8:1::/48"),
		netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("203.0.113.7/32"),
	})
	for _, c := range []struct {
		addr string
		want bool
	}{
		{"2001:db8:1::1", true}, {"2001:db8:ffff::1", true}, {"2001:db9::1", false},
		{"192.0.2.255", true}, {"192.0.3.0", false}, {"203.0.113.7", true}, {"203.0.113.8", false}, {"::", false},
	} {
		if got := set.Contains(netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s in the set: %t, want %t", c.addr, got, c.want)
		}
	}
	if set.Contains(netip.Addr{}) {
		t.Error("the zero address is in the set")
	}
	if !slices.Equal(set.lengths[1], []int{48, 32}) {
		t.Errorf("lengths %v, want the longest first", set.lengths[1])
	}
}

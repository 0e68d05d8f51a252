package endpoint_test

import (
	"net/netip"
	"testing"

	"hikyaku/egress/speaker"
)

// TestTwoSIDs has a border with a SID for each family. The withdrawal of the first, which stands
// for the whole path, takes both families out of use.
func TestTwoSIDs(t *testing.T) {
	w := newWorld(t)
	six, four := netip.MustParseAddr("2001:db8:b1:1::"), netip.MustParseAddr("2001:db8:b1:8001::")
	learn := func(sid netip.Addr, prefix netip.Prefix) {
		w.planner.Learned(learned(1, route(1, sid.String(), speaker.Attributes{}), prefix.String()))
		w.flush()
	}
	marker := netip.PrefixFrom(six, 128)
	learn(six, marker)
	learn(six, netip.MustParsePrefix("2001:db9::/32"))
	learn(four, netip.MustParsePrefix("198.51.100.0/24"))
	v, _ := w.planner.View("a")
	if !v.Up || v.SID != six || v.IPv4SID != four || len(w.planner.SharedSIDs()) != 0 {
		t.Fatalf("with a SID for each family the path is %+v, with the problems %q", v, w.planner.SharedSIDs())
	}
	for _, r := range w.routes {
		want := six
		if r.Prefix.Addr().Is4() {
			want = four
		}
		if got := w.nexthops[r.Nexthop].SID; got != want {
			t.Errorf("%s leads to the SID %s, want %s", r.Prefix, got, want)
		}
	}
	w.planner.Withdrawn(speaker.VPNWithdrawn{RD: rd(1), Prefixes: []netip.Prefix{marker}})
	if v, _ := w.planner.View("a"); v.Up {
		t.Error("the border has withdrawn the path, and it is in use")
	}
}

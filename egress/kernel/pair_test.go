package kernel

import (
	"net/netip"
	"strings"
	"testing"

	"hikyaku/egress/netnstest"
)

// TestPairState puts the state of a border's pair of devices into the kernel, and reads it back.
func TestPairState(t *testing.T) {
	ns := netnstest.New(t, "pair")
	a := open(t, ns, Options{})
	for range 2 { // the second time it is there
		if err := a.EnsurePair(t.Context(), "hkpair2711", 10001, 65535); err != nil {
			t.Fatal(err)
		}
	}
	for _, device := range []string{"hkpair2711", "hkpair2711p"} {
		link := ns.IP("link show " + device)
		for _, word := range []string{"NOARP", "02:00:00:00:27:11", "LOWER_UP", "group 200"} {
			if !strings.Contains(link, word) {
				t.Errorf("%s lacks %s: %s", device, word, link)
			}
		}
	}
	sid := netip.MustParsePrefix("2001:db8:b1:8001::/128")
	ns.IP("-6 addr add 2001:db8:a::2/64 dev " + anchorName + " nodad")
	want := State{
		Nexthops: []Nexthop{
			{ID: FirstNexthopID + 1, Family: IPv6, Device: "hkpair2711"},
			{ID: FirstNexthopID + 2, Family: IPv6, Device: anchorName, Local: Local{Action: EndDX4}},
			{ID: FirstNexthopID + 3, Family: IPv6, Device: anchorName, Gateway: netip.MustParseAddr("2001:db8:a::1")},
		},
		Routes: []Route{
			{Prefix: sid, Table: MainTable, Nexthop: FirstNexthopID + 1},
			{Prefix: sid, Table: 10001, Nexthop: FirstNexthopID + 2},
			// An IPv4 route by an IPv6 neighbour (RFC 8950).
			{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Table: 10001, Nexthop: FirstNexthopID + 3},
		},
		Rules: []Rule{
			{Family: IPv4, Priority: 10000, InDevice: "hkpair2711p", Table: 10001},
			{Family: IPv4, Priority: 10001, InDevice: "hkpair2711p", Action: RuleBlackhole},
		},
	}
	reach(t, a, want)
	if left := Diff(read(t, a), want); len(left) != 0 {
		t.Errorf("read back, the state differs by %v", left)
	}
	reach(t, a, State{})
	if left := read(t, a); len(left.Routes)+len(left.Nexthops)+len(left.Rules) != 0 {
		t.Errorf("removed, it leaves %+v", left)
	}
}

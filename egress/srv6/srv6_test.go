package srv6

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

var routerID = netip.MustParseAddr("192.0.2.1")

func locator(t testing.TB, prefix string) Locator {
	t.Helper()
	l, err := NewLocator(netip.MustParsePrefix(prefix))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLocatorFaults(t *testing.T) {
	valid := locator(t, "2001:db8:100::/48")
	with := func(change func(*Locator)) Locator { l := valid; change(&l); return l }
	cases := []struct {
		name string
		l    Locator
		ok   bool
	}{
		{"valid", valid, true},
		{"zero value", Locator{}, false},
		{"IPv4", with(func(l *Locator) { l.Prefix = netip.MustParsePrefix("192.0.2.0/24") }), false},
		{"bits after the prefix", with(func(l *Locator) { l.Prefix = netip.MustParsePrefix("2001:db8:100::1/48") }), false},
		{"multicast", with(func(l *Locator) { l.Prefix = netip.MustParsePrefix("ff00:db8:100::/48") }), false},
		{"link-local", with(func(l *Locator) { l.Prefix = netip.MustParsePrefix("fe80::/48") }), false},
		{"block and node are not the prefix", with(func(l *Locator) { l.NodeBits = 8 }), false},
		{"function too short", with(func(l *Locator) { l.FunctionBits = 7 }), false},
		{"function too long", with(func(l *Locator) { l.FunctionBits = 33 }), false},
		{"no room for the function", Locator{netip.MustParsePrefix("2001:db8::/120"), 32, 88, 16}, false},
		{"function to the last bit", Locator{netip.MustParsePrefix("2001:db8::/112"), 32, 80, 16}, true},
		{"no byte boundary", Locator{netip.MustParsePrefix("2001:db8:8000::/33"), 32, 1, 13}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if err := c.l.Validate(); (err == nil) != c.ok {
				t.Errorf("Validate says %v", err)
			}
		})
	}
}

func TestSIDAndFunction(t *testing.T) {
	cases := []struct {
		name     string
		l        Locator
		function uint32
		sid      string
	}{
		{"usual", locator(t, "2001:db8:100::/48"), 0x1234, "2001:db8:100:1234::"},
		{"across the halves", Locator{netip.MustParsePrefix("2001:db8:0:0::/56"), 32, 24, 16}, 0x1234, "2001:db8:0:12:3400::"},
		{"no byte boundary", Locator{netip.MustParsePrefix("2001:db8::/33"), 32, 1, 8}, 0xff, "2001:db8:7f80::"},
		{"last bits", Locator{netip.MustParsePrefix("2001:db8::/112"), 32, 80, 16}, 1, "2001:db8::1"},
		{"32 bits", Locator{netip.MustParsePrefix("2001:db8::/48"), 32, 16, 32}, 0x89abcdef, "2001:db8:0:89ab:cdef::"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			sid, err := c.l.SID(c.function)
			if err != nil || sid.String() != c.sid {
				t.Fatalf("SID is %s (%v), want %s", sid, err, c.sid)
			}
			if f, ok := c.l.Function(sid); !ok || f != c.function {
				t.Errorf("function is %#x (%v), want %#x", f, ok, c.function)
			}
		})
	}
	l := locator(t, "2001:db8:100::/48")
	for _, f := range []uint32{0, 1 << 16} {
		if sid, err := l.SID(f); err == nil {
			t.Errorf("function %#x gave %s", f, sid)
		}
	}
	for _, a := range []string{"2001:db8:100::", "2001:db8:101:1::", "2001:db8:100:1::1", "192.0.2.1"} {
		if f, ok := l.Function(netip.MustParseAddr(a)); ok {
			t.Errorf("%s gave function %#x", a, f)
		}
	}
}

func TestOverlaps(t *testing.T) {
	a := locator(t, "2001:db8:100::/48")
	for prefix, want := range map[string]bool{"2001:db8:100::/48": true, "2001:db8::/32": true, "2001:db8:100:8000::/52": true, "2001:db8:101::/48": false} {
		if b := locator(t, prefix); a.Overlaps(b) != want || b.Overlaps(a) != want {
			t.Errorf("%s overlaps %s: want %v", a.Prefix, prefix, want)
		}
	}
}

func allocator(t testing.TB, l Locator) *Allocator {
	t.Helper()
	a, err := NewAllocator(l, routerID)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// These values are on the wire of running networks: a release that changes them
// moves every SID on upgrade.
func TestIdentitiesNeverChange(t *testing.T) {
	a := allocator(t, locator(t, "2001:db8:100::/48"))
	for peer, want := range map[string]string{
		"transit-a":       "2001:db8:100:1b0f:: 192.0.2.1:6927 192.0.2.1:6927",
		"transit-b":       "2001:db8:100:2bc4:: 192.0.2.1:11204 192.0.2.1:11204",
		"2001:db8:1::179": "2001:db8:100:7977:: 192.0.2.1:31095 192.0.2.1:31095",
	} {
		id, err := a.Allocate(peer)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(id.SID, " ", id.RD, " ", id.RT); got != want {
			t.Errorf("%s is %s, want %s", peer, got, want)
		}
	}
}

func TestAllocationIsStable(t *testing.T) {
	small := locator(t, "2001:db8:100::/48")
	small.FunctionBits = 8 // 255 numbers: collisions are certain
	var peers []string
	for i := range 200 {
		peers = append(peers, fmt.Sprintf("peer-%d", i))
	}
	first, err := allocator(t, small).AllocateAll(peers)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(peers)
	again, err := allocator(t, small).AllocateAll(peers)
	if err != nil || !slices.Equal(first, again) {
		t.Errorf("another order of the configuration gives other identities (%v)", err)
	}
	seen := map[netip.Addr]string{}
	for _, id := range first {
		if other, ok := seen[id.SID]; ok {
			t.Errorf("%s and %s have the same SID %s", other, id.Peer, id.SID)
		}
		seen[id.SID] = id.Peer
	}

	// Recorded SIDs stay when peers before them in the order go.
	recorded := allocator(t, small)
	for _, id := range first[100:] {
		if _, err := recorded.Reserve(id.Peer, id.SID); err != nil {
			t.Fatal(err)
		}
	}
	if got := recorded.Identities(); !slices.Equal(got, first[100:]) {
		t.Error("reserved identities differ from those recorded")
	}
}

func TestAllocatorLimits(t *testing.T) {
	small := locator(t, "2001:db8:100::/48")
	small.FunctionBits = 8
	a := allocator(t, small)
	for i := range 255 {
		if _, err := a.Allocate(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Allocate("one more"); !errors.Is(err, ErrLocatorFull) {
		t.Errorf("a full locator gave %v", err)
	}
	a.Release("7")
	if _, err := a.Allocate("one more"); err != nil {
		t.Errorf("after a release: %v", err)
	}
	if _, err := NewAllocator(small, netip.IPv6Loopback()); err == nil {
		t.Error("an IPv6 router ID was accepted")
	}
	if _, err := NewAllocator(Locator{}, routerID); err == nil {
		t.Error("an invalid locator was accepted")
	}
}

func TestReserveRefuses(t *testing.T) {
	a := allocator(t, locator(t, "2001:db8:100::/48"))
	taken, err := a.Allocate("taken")
	if err != nil {
		t.Fatal(err)
	}
	for name, sid := range map[string]netip.Addr{
		"another peer's":      taken.SID,
		"outside the locator": netip.MustParseAddr("2001:db8:101:1::"),
		"function 0":          netip.MustParseAddr("2001:db8:100::"),
	} {
		if _, err := a.Reserve("new", sid); err == nil {
			t.Errorf("%s was reserved", name)
		}
	}
	moved, err := a.Reserve("taken", netip.MustParseAddr("2001:db8:100:1::"))
	if err != nil || moved.RD.String() != "192.0.2.1:1" {
		t.Errorf("moving a peer gave %+v (%v)", moved, err)
	}
	if _, err := a.Reserve("new", taken.SID); err != nil {
		t.Errorf("the SID that a peer left is not free: %v", err)
	}
}

func TestDistinguishersAndTargets(t *testing.T) {
	for text, ok := range map[string]bool{
		"192.0.2.1:7": true, "64500:4294967295": true, "4200000000:65535": true, "0:0": true,
		"192.0.2.1:65536": false, "64500": false, "2001:db8::1:7": false, "x:1": false, "64500:-1": false, "": false,
	} {
		rd, err := ParseRouteDistinguisher(text)
		if (err == nil) != ok || ok && rd.String() != text {
			t.Errorf("RD %q read as %s (%v)", text, rd, err)
		}
		rt, err := ParseRouteTarget(text)
		if (err == nil) != ok || ok && rt.String() != text {
			t.Errorf("RT %q read as %s (%v)", text, rt, err)
		}
		if !ok {
			continue
		}
		if back, err := DistinguisherFromGoBGP(rd.GoBGP()); err != nil || back != rd {
			t.Errorf("RD %s through GoBGP is %s (%v)", rd, back, err)
		}
		community, err := rt.GoBGP()
		if err != nil {
			t.Fatal(err)
		}
		attrs := []bgp.PathAttributeInterface{bgp.NewPathAttributeExtendedCommunities([]bgp.ExtendedCommunityInterface{community})}
		if back := TargetsFromGoBGP(attrs); len(back) != 1 || back[0] != rt {
			t.Errorf("RT %s through GoBGP is %v", rt, back)
		}
		var text2 RouteTarget
		if b, err := rt.MarshalText(); err != nil || text2.UnmarshalText(b) != nil || text2 != rt {
			t.Errorf("RT %s as text is %q (%v)", rt, b, err)
		}
	}
	unknown := RouteDistinguisher{9, 9}
	if unknown.String() != "0x0909000000000000" {
		t.Errorf("unknown RD is shown as %s", unknown)
	}
	if _, err := DistinguisherFromGoBGP(nil); err == nil {
		t.Error("a missing RD was accepted")
	}
}

package border_test

import (
	"net/netip"
	"slices"
	"testing"

	"hikyaku/egress/border"
	"hikyaku/egress/kernel"
	"hikyaku/egress/srv6"
)

var (
	client4  = netip.MustParsePrefix("198.51.100.0/24")
	gateway6 = netip.MustParseAddr("fe80::1")
	sid4     = netip.MustParseAddr("2001:db8:b1:8001::")
)

// newPairWorld has a peer that advertises a prefix of each family, and takes IPv4 by a pair of
// devices.
func newPairWorld(t *testing.T) *world {
	w := newWorld(t)
	w.lookup = border.ByPair
	w.start()
	w.up("a")
	a := attributes(0)
	w.learn("a", a, prefix(1))
	a.NextHop = gateway6 // as RFC 8950 allows
	w.learn("a", a, client4)
	w.flush()
	return w
}

// mainRoute is the route to an address in the main table, by its nexthop; nil without one.
func (w *world) mainRoute(a netip.Addr) (r kernel.Route, n kernel.Nexthop) {
	r = w.routes[kernel.RouteKey{Prefix: netip.PrefixFrom(a, a.BitLen()), Table: kernel.MainTable}]
	return r, w.nexthops[r.Nexthop]
}

func TestIPv4ByPair(t *testing.T) {
	w := newPairWorld(t)
	if _, n := w.mainRoute(sid4); n.Device != "pair-a" || n.Local.Action != kernel.NoLocal {
		t.Errorf("packets to the SID for IPv4 go to %+v, not into the pair", n)
	}
	table := w.table("a")
	if n := table[netip.PrefixFrom(sid4, 128)]; n.Local.Action != kernel.EndDX4 {
		t.Errorf("behind the pair the SID has %+v", n)
	}
	if n := table[client4]; n.Gateway != gateway6 || n.Family != kernel.IPv6 {
		t.Errorf("the IPv4 route has the nexthop %+v", n)
	}
	for p, want := range map[netip.Prefix]srv6.Service{
		prefix(1): {SID: w.peer("a").SID, Behavior: srv6.EndDT6}, client4: {SID: sid4, Behavior: srv6.EndDT4},
	} {
		got := w.announced["a"][p].Service
		if got.SID != want.SID || got.Behavior != want.Behavior {
			t.Errorf("%s is announced with %s at %s, want %s at %s", p, got.Behavior, got.SID, want.Behavior, want.SID)
		}
	}
	var by []kernel.Family
	for _, rule := range w.planner.Want().Rules {
		if rule.InDevice == "pair-ap" && rule.Action == kernel.Lookup && rule.Table == w.peer("a").Table {
			by = append(by, rule.Family)
		}
		if rule.InDevice == "pair-ap" && rule.Action != kernel.Lookup && rule.Priority != w.config.Kernel.RulePriority+1 {
			t.Errorf("rule %+v is not behind the lookup", rule)
		}
	}
	if !slices.Equal(by, []kernel.Family{kernel.IPv6, kernel.IPv4}) {
		t.Errorf("packets out of the pair are looked up for %v", by)
	}
}

func TestALostPeerClosesBothSIDs(t *testing.T) {
	w := newPairWorld(t)
	w.down("a")
	steps := w.planner.Flush("a", 1)
	if len(steps) < 2 || steps[0].Drop == nil || steps[1].Drop == nil || steps[1].Drop.Prefix.Addr() != sid4 {
		t.Fatalf("the first steps of a lost peer are %s", describe(steps))
	}
}

func TestARestartKeepsTheSIDForIPv4(t *testing.T) {
	w := newPairWorld(t)
	w.start()
	if _, n := w.mainRoute(sid4); n.Device != "pair-a" {
		t.Errorf("after a restart packets to the SID for IPv4 go to %+v", n)
	}
	w.planner.Expire()
	w.flush()
	if r, n := w.mainRoute(sid4); n.Device != "" {
		t.Errorf("the peer has not come back, and the SID for IPv4 has %+v by %+v", r, n)
	}
	if table := w.table("a"); len(table) != 0 {
		t.Errorf("the table of a peer that has not come back has %v", table)
	}
}

package endpoint_test

import (
	"net/netip"
	"strings"
	"testing"

	"hikyaku/egress/endpoint"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

var (
	gateway   = kernel.MainHop{Device: "eth0", Gateway: netip.MustParseAddr("2001:db8:5::1")}
	linkLocal = kernel.MainHop{Device: "eth0", Gateway: netip.MustParseAddr("fe80::1")}
	stranger  = kernel.MainHop{Device: "eth0", Gateway: netip.MustParseAddr("2001:db8:5::9")}
	border    = netip.MustParseAddr("192.0.2.1")
)

// plainRoute is a route by which the border's main table sends packets, too.
func plainRoute(peer uint16, sid string) *speaker.VPNRoute {
	r := speaker.NewVPNRoute(srv6.Service{SID: netip.MustParseAddr(sid)}, speaker.Attributes{}, rt(peer), srv6.MainTarget(border))
	return &r
}

const (
	sidA = "2001:db8:b1:1::"
	sidB = "2001:db8:b1:2::"
)

func (w *world) route(prefix string, hops ...kernel.MainHop) {
	w.main.Put(kernel.MainRoute{Prefix: netip.MustParsePrefix(prefix), Hops: hops}, true)
}

// itself has the border announce its address.
func (w *world) itself(address string) {
	w.planner.Learned(learned(0, plainRoute(0, "2001:db8:b1::"), address))
}

func TestPathOfPlainPackets(t *testing.T) {
	const client, wide = "2001:db8:c::/48", "2001:db8::/32"
	byA := func(w *world) {
		w.planner.Learned(learned(1, plainRoute(1, sidA), client))
		w.planner.Learned(learned(2, route(2, sidB, speaker.Attributes{LocalPref: 900}), client))
	}
	known := func(w *world) {
		w.itself("2001:db8:5::1/128")
		w.route("::/0", gateway)
		byA(w)
	}
	for _, test := range []struct {
		name  string
		steps func(*world)
		want  string
		// unknown is a part of the reason.
		unknown string
	}{
		{"that of the border's main table, whatever the attributes", known, "a", ""},
		{"without a route on the server", func(w *world) { w.itself("2001:db8:5::1/128"); byA(w) }, "", "no next hop"},
		{"a route on the server that drops", func(w *world) { known(w); w.route(client) }, "", "no next hop"},
		{"by a router that is no border", func(w *world) { known(w); w.route("::/0", stranger) }, "", "2001:db8:5::9 on eth0, is no address of a border"},
		{"a longer route on the server", func(w *world) { known(w); w.route(client, stranger) }, "", "no address of a border"},
		{"the border spreads them", func(w *world) {
			known(w)
			w.planner.Learned(learned(2, plainRoute(2, sidB), client))
		}, "", "spreads them over a and b"},
		{"the border sends them elsewhere", func(w *world) {
			known(w)
			w.planner.Learned(learned(1, route(1, sidA, speaker.Attributes{}), client))
		}, "", "by none of its paths"},
		{"a border of before", func(w *world) { w.route("::/0", gateway); byA(w) }, "", "is no address of a border"},
		{"the longest route of the border's main table", func(w *world) {
			known(w)
			w.planner.Learned(learned(2, plainRoute(2, sidB), wide))
		}, "a", ""},
		{"the border by its link-local address", func(w *world) {
			known(w)
			w.route("::/0", linkLocal)
			w.planner.SetNeighbours(map[kernel.MainHop]string{linkLocal: "mac", gateway: "mac"})
		}, "a", ""},
		{"another router by its link-local address", func(w *world) {
			known(w)
			w.route("::/0", linkLocal)
			w.planner.SetNeighbours(map[kernel.MainHop]string{linkLocal: "mac", gateway: "other"})
		}, "", "fe80::1 on eth0"},
		{"the border is gone", func(w *world) {
			known(w)
			w.planner.Withdrawn(speaker.VPNWithdrawn{RD: rd(0), Prefixes: prefixes("2001:db8:5::1/128")})
		}, "", "no address of a border"},
		{"the path is lost", func(w *world) {
			known(w)
			w.planner.Learned(learned(1, plainRoute(1, sidA), sidA+"/128"))
			w.planner.Withdrawn(speaker.VPNWithdrawn{RD: rd(1), Prefixes: prefixes(sidA + "/128")})
		}, "", "by none of its paths"},
		{"by a router that the operator knows", func(w *world) {
			known(w)
			w.route("::/0", stranger)
			w.config.Plain.Border = border
		}, "a", ""},
		{"the border that the operator names does not report", func(w *world) {
			byA(w)
			w.route("::/0", stranger)
			w.config.Plain.Border = border
		}, "", "does not report"},
		{"an address of a border whose SID is foreign", func(w *world) {
			w.planner.Learned(learned(0, plainRoute(0, "2001:db8:bad::"), "2001:db8:5::1/128"))
			w.route("::/0", gateway)
			byA(w)
		}, "", "no address of a border"},
	} {
		w := newWorld(t)
		test.steps(w)
		reaches, plain := w.planner.Lookup(netip.MustParsePrefix("2001:db8:c::1/128"))
		if plain.Path != test.want || (plain.Path == "") == (plain.Unknown == "") || !strings.Contains(plain.Unknown, test.unknown) {
			t.Errorf("%s: plain is %+v, want %q, unknown since %q", test.name, plain, test.want, test.unknown)
		}
		if len(reaches) == 0 {
			t.Errorf("%s: nothing reaches the client", test.name)
		}
	}
}

func TestPlainPacketsOverSeveralBorders(t *testing.T) {
	w := newWorld(t)
	w.config.Paths[1].Border = netip.MustParseAddr("192.0.2.2")
	w.planner = endpoint.New(w.config, endpoint.Options{Main: w.main}, kernel.State{})
	second := srv6.NewRouteDistinguisher(w.config.Paths[1].Border, 0)
	route := speaker.NewVPNRoute(srv6.Service{SID: netip.MustParseAddr("2001:db8:b1::")}, speaker.Attributes{}, srv6.MainTarget(w.config.Paths[1].Border))
	w.itself("2001:db8:5::1/128")
	w.planner.Learned(speaker.VPNLearned{RD: second, Route: &route, Prefixes: prefixes("2001:db8:5::9/128")})
	w.planner.Learned(learned(1, plainRoute(1, sidA), "2001:db8:c::/48"))
	client := netip.MustParsePrefix("2001:db8:c::1/128")
	w.route("::/0", gateway, stranger)
	if _, plain := w.planner.Lookup(client); !strings.Contains(plain.Unknown, "spreads them over borders") {
		t.Errorf("with two next hops plain is %+v", plain)
	}
	w.route("::/0", stranger)
	if _, plain := w.planner.Lookup(client); !strings.Contains(plain.Unknown, "192.0.2.2 sends them by none") {
		t.Errorf("by the second border plain is %+v", plain)
	}
	w.route("::/0", gateway)
	if _, plain := w.planner.Lookup(client); plain.Path != "a" {
		t.Errorf("by the first border plain is %+v", plain)
	}
}

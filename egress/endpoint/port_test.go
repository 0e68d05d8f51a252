package endpoint_test

import (
	"net/netip"
	"strings"
	"testing"

	"hikyaku/egress/port"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

func TestAPathHasTheStateOfItsPort(t *testing.T) {
	const sid = "2001:db8:b1:1::"
	w := newWorld(t)
	name := w.planner.Names()[0]
	view := func() *port.State {
		v, _ := w.planner.View(name)
		return v.Port
	}
	want := port.State{Number: 3, Kind: port.Transit, Price: 450, Admitted: port.Shares{10, 20, 30}, Billed: port.All, Spare: 2}
	var list []speaker.LargeCommunity
	for _, c := range want.Communities(w.config.ASN) {
		list = append(list, c)
	}
	marker := route(1, sid, speaker.Attributes{}.WithLargeCommunities(list...))
	w.planner.Learned(learned(1, route(1, sid, speaker.Attributes{}), "2001:db9::/32"))
	if view() != nil {
		t.Errorf("before the marker the port is %+v", view())
	}
	w.planner.Learned(learned(1, marker, sid+"/128"))
	if got := view(); got == nil || *got != want {
		t.Errorf("the port is %+v instead of %+v", got, want)
	}
	if v, _ := w.planner.View(name); len(v.Problems) > 0 {
		t.Errorf("a port whose state has come is a problem: %q", v.Problems)
	}
	// A reflector takes large communities off. The target says that they were there.
	for _, test := range []struct {
		name    string
		targets []srv6.RouteTarget
		want    bool
	}{
		{"no port", nil, false},
		{"a port of its border", []srv6.RouteTarget{srv6.PortTarget(w.config.Paths[0].Border)}, true},
		{"a port of another border", []srv6.RouteTarget{srv6.PortTarget(netip.MustParseAddr("192.0.2.99"))}, false},
	} {
		plain := route(1, sid, speaker.Attributes{})
		stripped := speaker.NewVPNRoute(plain.Service, plain.Attributes, append(plain.Targets(), test.targets...)...)
		w.planner.Learned(learned(1, &stripped, sid+"/128"))
		v, _ := w.planner.View(name)
		if got := len(v.Problems) == 1 && strings.Contains(v.Problems[0], "RFC 8092"); got != test.want || v.Port != nil {
			t.Errorf("%s: the problems are %q, the port %+v", test.name, v.Problems, v.Port)
		}
	}
	w.planner.Withdrawn(speaker.VPNWithdrawn{RD: rd(1), Prefixes: prefixes(sid + "/128")})
	if view() != nil {
		t.Errorf("without the marker the port is %+v", view())
	}
}

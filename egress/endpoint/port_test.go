package endpoint_test

import (
	"testing"

	"hikyaku/egress/port"
	"hikyaku/egress/speaker"
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
	w.planner.Withdrawn(speaker.VPNWithdrawn{RD: rd(1), Prefixes: prefixes(sid + "/128")})
	if view() != nil {
		t.Errorf("without the marker the port is %+v", view())
	}
}

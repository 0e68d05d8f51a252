package border_test

import (
	"net/netip"
	"slices"
	"testing"

	"hikyaku/egress/border"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

// A change of a port is one route, and a peer that is lost meanwhile is withdrawn.
func TestAPortIsAnnouncedWithTheMarkerAlone(t *testing.T) {
	w := newWorld(t)
	w.up("a")
	w.learn("a", attributes(0), prefix(1))
	w.flush()
	port := []speaker.LargeCommunity{{64500, 1, 2}, {64500, 3, 4}}
	w.planner.SetPort("a", port)
	steps := w.planner.Flush("a", 10)
	if len(steps) != 1 || steps[0].Announce == nil || !slices.Equal(steps[0].Announce.Prefixes, []netip.Prefix{border.Marker(w.peer("a").SID)}) {
		t.Fatalf("a change of the port gives the steps %v", steps)
	}
	got := steps[0].Announce.Route.Attributes.LargeCommunities()
	if want := append(port, speaker.LargeCommunity{64500, 1, 2}); !slices.Equal(got, want) {
		t.Errorf("the marker has the large communities %v instead of %v", got, want)
	}
	target := srv6.PortTarget(netip.MustParseAddr("192.0.2.1"))
	if !steps[0].Announce.Route.HasTarget(target) {
		t.Errorf("the marker has the targets %v, without that of a port", steps[0].Announce.Route.Targets())
	}
	w.planner.SetPort("a", slices.Clone(port))
	if w.planner.Pending("a") {
		t.Error("the same state is announced again")
	}
	w.planner.SetPort("a", nil)
	if steps := w.planner.Flush("a", 10); len(steps) != 1 || steps[0].Announce.Route.HasTarget(target) {
		t.Errorf("without a port the marker is announced by %v", steps)
	}
	w.planner.SetPort("a", slices.Clone(port))
	w.planner.PeerDown("a", "test")
	w.flush()
	if w.marked["a"] {
		t.Error("servers keep the path of a peer that was lost before its new state was sent")
	}
}

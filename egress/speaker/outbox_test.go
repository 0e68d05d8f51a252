package speaker

import (
	"net/netip"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/srv6"
)

func TestWithdrawalOvertakesUnreadRoutesOfASlowReflector(t *testing.T) {
	r := listenAsReflector(t)
	s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{r.neighbor("rr", VPNv6)}})
	p := r.acceptUnread(64<<10, bgp.RF_IPv6_VPN)
	expect[PeerUp](s)
	id, route := testRoute(t, s.at.Addr(), "transit", srv6.EndDT6, 64601)
	announce := func(prefixes []netip.Prefix) {
		t.Helper()
		if err := s.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: route, Prefixes: prefixes}); err != nil {
			t.Fatal(err)
		}
	}
	// Far more than the buffers of both ends hold.
	const routes = 200_000
	all := bgptest.Prefixes6(0, routes)
	first, last := all[0], all[routes-1]
	announce(all)
	waiting := s.waitUntilStalled("rr", routes)
	if err := s.WithdrawVPN(id.RD, []netip.Prefix{first, last}); err != nil {
		t.Fatal(err)
	}
	marker := bgptest.Prefixes6(routes, 1)
	announce(marker)

	before, withdrawn := 0, false
	left := make(map[netip.Prefix]bool)
	for !left[marker[0]] {
		u := p.nextUpdate()
		for _, prefix := range bgptest.Announced(u) {
			left[prefix] = true
		}
		for _, prefix := range bgptest.Withdrawn(u) {
			delete(left, prefix)
			withdrawn = withdrawn || prefix == first
		}
		if !withdrawn {
			before = len(left)
		}
	}
	// Only the contents of the buffers come first.
	if sent := routes - waiting; !withdrawn || before == 0 || before > sent {
		t.Errorf("the withdrawal (%t) came after %d announcements, of which %d had been sent", withdrawn, before, sent)
	}
	if waiting < routes*3/4 {
		t.Errorf("%d of %d announcements waited where withdrawals overtake them", waiting, routes)
	}
	if len(left) != routes-1 || left[first] || left[last] || !left[marker[0]] {
		t.Errorf("the reflector has %d routes in the end, want %d without the two withdrawn", len(left), routes-1)
	}
}

// waitUntilStalled returns how many routes wait for a reflector that does not read,
// of those queued before, when its buffers are full.
func (s *testSpeaker) waitUntilStalled(name string, queued int) int {
	s.t.Helper()
	s.announcing.Lock()
	reflector := s.opened[name].reflector
	s.announcing.Unlock()
	const still = 25 // checks without a change
	same, last := 0, queued
	for deadline := time.Now().Add(patience); same < still; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%d of %d routes wait, and it goes on", last, queued)
		}
		if now := reflector.Waiting(); now < queued && now == last {
			same++
		} else {
			same, last = 0, now
		}
	}
	return last
}

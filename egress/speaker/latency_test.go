package speaker

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/srv6"
)

const latencyTrials = 100

// TestLatencyOfOneChange prints how long one change at a transit takes to the
// content server: transit, border, reflector, server, all real sessions. It
// fails only when a change does not arrive: machines differ.
func TestLatencyOfOneChange(t *testing.T) {
	rr := startRouter(t, loopback(), ownAS)
	borderAt, serverAt := loopback(), loopback()
	for _, client := range []netip.Addr{borderAt, serverAt} {
		rr.accept(client, ownAS, true, VPNv6)
	}
	measureLatency(t, rr.at, borderAt, serverAt, "GoBGP reflector")
}

// measureLatency announces and withdraws one prefix again and again.
func measureLatency(t *testing.T, reflector netip.AddrPort, borderAt, serverAt netip.Addr, name string) {
	transit := startRouter(t, loopback(), 64601)
	transit.accept(borderAt, ownAS, false, IPv6Unicast)
	toReflector := func(local netip.Addr) Neighbor {
		return Neighbor{Name: "rr", Address: reflector.Addr(), Port: reflector.Port(), AS: ownAS, LocalAddress: local, Families: []Family{VPNv6}}
	}
	border, server := startSpeaker(t, borderAt, Config{}), startSpeaker(t, serverAt, Config{})
	border.connect(transit.neighbor("transit", 64601, borderAt, IPv6Unicast))
	ready(border, "transit", IPv6Unicast)
	border.connect(toReflector(borderAt))
	server.connect(toReflector(serverAt))
	ready(border, "rr", VPNv6)
	id, route := testRoute(t, borderAt, "transit", srv6.EndDT6, 64601)
	go bridge(t, border, id, route)

	ready(server, "rr", VPNv6)
	var adds, withdraws []time.Duration
	for trial := range latencyTrials {
		// Every trial has its own prefix and origin, and no event but its own two may come.
		// A left-over one would make the next trial look instant.
		prefix, origin := bgptest.Prefixes6(1+trial, 1), uint32(65000+trial)
		begin := time.Now()
		transit.announce(Attributes{ASPath: NewASPath(origin)}, prefix...)
		l := expect[VPNLearned](server)
		adds = append(adds, time.Since(begin))
		if show(l.Prefixes) != show(prefix) || l.Route.Attributes.ASPath.Origin() != origin {
			t.Fatalf("trial %d announced %v from AS %d, server learned %+v", trial, prefix, origin, l)
		}
		begin = time.Now()
		transit.withdraw(prefix...)
		w := expect[VPNWithdrawn](server)
		withdraws = append(withdraws, time.Since(begin))
		if show(w.Prefixes) != show(prefix) {
			t.Fatalf("trial %d withdrew %v, server lost %v", trial, prefix, w.Prefixes)
		}
	}
	t.Logf("%s: add median %s p99 %s, withdraw median %s p99 %s", name,
		percentile(adds, 50), percentile(adds, 99), percentile(withdraws, 50), percentile(withdraws, 99))
}

// ready returns when a GoBGP has sent all its routes. Before, it may not have noticed that
// the session is up: routes that it gets then, here or by its own API, go to nobody.
func ready(client *testSpeaker, peer string, family Family) {
	client.t.Helper()
	skipTo(client, func(e EndOfRIB) bool { return e.Peer == peer && e.Family == family })
}

// bridge does the work of a border's planner, without a kernel.
func bridge(t *testing.T, border *testSpeaker, id srv6.Identity, route VPNRoute) {
	for e := range border.Events() {
		var err error
		switch e := e.(type) {
		case Learned:
			route.Attributes.ASPath = e.Attributes.ASPath
			err = border.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: route, Prefixes: e.Prefixes})
		case Withdrawn:
			err = border.WithdrawVPN(id.RD, e.Prefixes)
		}
		if err != nil {
			t.Errorf("border passing %T on: %v", e, err)
		}
	}
}

func percentile(list []time.Duration, p int) time.Duration {
	slices.Sort(list)
	return list[min(len(list)*p/100, len(list)-1)].Round(10 * time.Microsecond)
}

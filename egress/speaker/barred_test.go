package speaker

import (
	"net/netip"
	"testing"

	"hikyaku/egress/speaker/bgptest"
)

// Routes that the import policy refuses are no best paths, and reflectors get none of them.
func TestBarredRoutesAreNoBestPaths(t *testing.T) {
	borderAt, reflector := loopback(), startRouter(t, loopback(), ownAS)
	reflector.accept(borderAt, ownAS, true, IPv6Unicast)
	transits := []*router{startRouter(t, loopback(), 64601), startRouter(t, loopback(), 64602)}
	config := Config{BestPaths: true, Neighbors: []Neighbor{reflector.neighbor("rr", ownAS, borderAt, IPv6Unicast)}}
	prefix := bgptest.Prefixes6(1, 1)
	for i, transit := range transits {
		transit.accept(borderAt, ownAS, false, IPv6Unicast)
		config.Neighbors = append(config.Neighbors, transit.neighbor("t"+string(rune('1'+i)), uint32(64601+i), borderAt, IPv6Unicast))
	}
	border := startSpeaker(t, borderAt, config) // the last to start
	for range 3 {
		skipTo[EndOfRIB](border, nil)
	}
	bar := func(peer string, barred, free []netip.Prefix) {
		t.Helper()
		if err := border.Bar(peer, barred, free); err != nil {
			t.Fatal(err)
		}
	}
	transits[0].announce(Attributes{ASPath: NewASPath(64700, 64701)}, prefix...)
	skipTo(border, func(b BestPath) bool { return b.Peer == "t1" && b.Prefix == prefix[0] })
	transits[1].announce(Attributes{ASPath: NewASPath(64700)}, prefix...)
	skipTo(border, func(b BestPath) bool { return b.Peer == "t2" })
	waitForRoute(t, reflector, prefix[0], borderAt)
	bar("t2", prefix, nil)
	skipTo(border, func(b BestPath) bool { return b.Peer == "t1" && b.Prefix == prefix[0] })
	bar("t1", prefix, nil)
	skipTo(border, func(b BestPath) bool { return b.Attributes == nil && b.Prefix == prefix[0] })
	// Another prefix, announced later, is none of them.
	other := bgptest.Prefixes6(2, 1)
	transits[0].announce(Attributes{ASPath: NewASPath(64700)}, other...)
	skipTo(border, func(b BestPath) bool { return b.Peer == "t1" && b.Prefix == other[0] })
	transits[1].announce(Attributes{ASPath: NewASPath(64701)}, prefix...) // still barred
	skipTo[Learned](border, nil)
	border.quiet(2 * barDelay)
	bar("t2", nil, prefix)
	skipTo(border, func(b BestPath) bool { return b.Peer == "t2" && b.Prefix == prefix[0] })
	waitForRoute(t, reflector, prefix[0], borderAt)
}

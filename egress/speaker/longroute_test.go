package speaker

import (
	"net/netip"
	"testing"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

func TestLongRoutesThroughGoBGPDaemon(t *testing.T) { testLongRoutes(t, gobgpd, false) }

func TestLongRoutesThroughFRR(t *testing.T) { testLongRoutes(t, frr, true) }

// testLongRoutes has a daemon reflect routes whose attributes nearly fill a message, or more
// than fill it, with others before and behind them. extended reports whether it takes
// extended messages.
func testLongRoutes(t *testing.T, d daemon, extended bool) {
	if !inNamespace(t) {
		return
	}
	borderAt, serverAt := loopback(), loopback()
	at := d.start(t, borderAt, serverAt)
	border, server := startSpeaker(t, borderAt, Config{}), startSpeaker(t, serverAt, Config{})
	for _, s := range []*testSpeaker{border, server} {
		s.connect(Neighbor{Name: "rr", Address: at.Addr(), Port: at.Port(), AS: ownAS, LocalAddress: s.at.Addr(), Families: []Family{VPNv6, VPNv4}})
		ready(s, "rr", VPNv6)
	}
	id, plain := testRoute(t, borderAt, "transit", srv6.EndDT6, 64601)
	announce := func(ases int, prefixes ...netip.Prefix) {
		t.Helper()
		a := longPath(ases)
		a.NextHop = netip.MustParseAddr("2001:db8::1")
		if err := border.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: NewVPNRoute(plain.Service, a, id.RT), Prefixes: prefixes}); err != nil {
			t.Fatal(err)
		}
	}
	has := make(map[netip.Prefix]int) // the length of the AS path
	withdrawn := 0
	await := func(p netip.Prefix) {
		t.Helper()
		for has[p] == 0 {
			switch e := server.next().(type) {
			case VPNLearned:
				for _, prefix := range e.Prefixes {
					has[prefix] = e.Route.Attributes.ASPath.Len()
				}
			case VPNWithdrawn:
				for _, prefix := range e.Prefixes {
					delete(has, prefix)
					withdrawn++
				}
			}
		}
	}
	routes := bgptest.Prefixes6(0, 400)
	announce(2, routes...)
	await(routes[399])
	longest := longestPath(t, id, plain)
	for i, ases := range []int{longest, longest + 1, 990, 1200} {
		announce(ases, routes[i])
	}
	announce(3, bgptest.Prefixes6(500, 1)...)
	await(bgptest.Prefixes6(500, 1)[0])
	for i, ases := range []int{longest, longest + 1, 990, 1200} {
		want := ases
		if i > 0 && !extended {
			want = 0
		}
		if got := has[routes[i]]; got != want {
			t.Errorf("%s: of a route with %d AS numbers the server has %d, want %d", d.name, ases, got, want)
		}
	}
	gone := 0
	if !extended {
		gone = 3
	}
	if len(has) != 401-gone || withdrawn != gone || border.Withheld("rr").Routes[id.RD] != gone {
		t.Errorf("%s: the server has %d routes, of 401, and %d were withdrawn; withheld %+v", d.name, len(has), withdrawn, border.Withheld("rr"))
	}
}

// longestPath is how many AS numbers have room in a message of 4,096 bytes.
func longestPath(t *testing.T, id srv6.Identity, plain VPNRoute) (n int) {
	t.Helper()
	for fits := true; fits; n++ {
		b, err := NewVPNRoute(plain.Service, longPath(n+1), id.RT).Encode()
		if err != nil {
			t.Fatal(err)
		}
		_, tooLong := wire.Announcement(b, netip.MustParseAddr("2001:db8::1"), VPNv6, wire.MaxMessage).Split(bgptest.Prefixes6(0, 1))
		fits = len(tooLong) == 0
	}
	return n - 1
}

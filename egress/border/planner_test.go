package border_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"hikyaku/egress/border"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
)

func TestStepsInOrder(t *testing.T) {
	for _, test := range []struct {
		name   string
		before func(*world)
		event  func(*world)
		want   []string
	}{
		{"a peer that comes up gets its SID", func(*world) {}, func(w *world) { w.up("a") },
			[]string{"put [2001:db8:b1:1::/128 2001:db8:b1:1::/128 ::/0]", "announce [2001:db8:b1:1::/128]"}},
		{"a route is in the table before it is announced", func(w *world) { w.up("a") },
			func(w *world) { w.learn("a", attributes(0), prefix(1)) },
			[]string{"put [2001:db8:c01::/48]", "announce [2001:db8:c01::/48]"}},
		{"a route leaves the table before it is withdrawn",
			func(w *world) { w.up("a"); w.learn("a", attributes(0), prefix(1), prefix(2)) },
			func(w *world) { w.withdraw("a", prefix(1)) },
			[]string{"remove [2001:db8:c01::/48]", "withdraw [2001:db8:c01::/48]"}},
		{"the last route takes its nexthop along",
			func(w *world) { w.up("a"); w.learn("a", attributes(0), prefix(1)) },
			func(w *world) { w.withdraw("a", prefix(1)) },
			[]string{"remove [2001:db8:c01::/48]", "withdraw [2001:db8:c01::/48]", "remove 1 nexthops []"}},
		{"other attributes are announced, the kernel has nothing to do",
			func(w *world) { w.up("a"); w.learn("a", attributes(0), prefix(1)) },
			func(w *world) { w.learn("a", attributes(2), prefix(1)) },
			[]string{"announce [2001:db8:c01::/48]"}},
		{"the same again is nothing",
			func(w *world) { w.up("a"); w.learn("a", attributes(0), prefix(1)) },
			func(w *world) { w.learn("a", attributes(0), prefix(1)) }, nil},
		{"a lost peer: drop, withdraw, clear, close",
			func(w *world) { w.up("a"); w.learn("a", attributes(0), prefix(1), prefix(2)) },
			func(w *world) { w.down("a") },
			[]string{"drop 2001:db8:b1:1::/128", "withdraw [2001:db8:b1:1::/128]", "withdraw [2001:db8:c01::/48 2001:db8:c02::/48]",
				"remove [2001:db8:c01::/48 2001:db8:c02::/48]",
				"remove 1 nexthops [2001:db8:b1:1::/128 2001:db8:b1:1::/128 ::/0]", "remove 1 nexthops []"}},
		{"a peer that flaps: nothing of the former session is left when its SID opens",
			func(w *world) { w.up("a"); w.learn("a", attributes(0), prefix(1), prefix(2)) },
			func(w *world) { w.down("a"); w.up("a"); w.learn("a", attributes(0), prefix(2)) },
			[]string{"drop 2001:db8:b1:1::/128", "withdraw [2001:db8:b1:1::/128]", "remove [2001:db8:c01::/48]",
				"withdraw [2001:db8:c01::/48]", "put [2001:db8:b1:1::/128 2001:db8:b1:1::/128 ::/0]",
				"announce [2001:db8:b1:1::/128]", "announce [2001:db8:c02::/48]"}},
		{"a path whose marker was withdrawn by mistake is announced again",
			func(w *world) { w.up("a"); w.learn("a", attributes(0), prefix(1)) },
			func(w *world) { w.planner.MarkAgain("a") },
			[]string{"announce [2001:db8:b1:1::/128]"}},
		{"a withdrawal and an announcement together: the withdrawal goes first",
			func(w *world) { w.up("a"); w.learn("a", attributes(0), prefix(1)) },
			func(w *world) { w.learn("a", attributes(0), prefix(2)); w.withdraw("a", prefix(1)) },
			[]string{"remove [2001:db8:c01::/48]", "withdraw [2001:db8:c01::/48]",
				"put [2001:db8:c02::/48]", "announce [2001:db8:c02::/48]"}},
	} {
		w := newWorld(t)
		test.before(w)
		w.flush()
		test.event(w)
		var got []string
		for w.planner.Pending("a") {
			got = append(got, describe(w.planner.Flush("a", 100))...)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: steps\n  %s\nwant\n  %s", test.name, strings.Join(got, "\n  "), strings.Join(test.want, "\n  "))
		}
	}
}

func TestRoutesThatAreNotTaken(t *testing.T) {
	for _, test := range []struct{ name, prefix string }{
		{"too long", "2001:db8:c::/56"},
		{"the default route", "::/0"},
		{"IPv4 without a SID for it", "198.51.100.0/24"},
		{"a prefix of the border's own locator", "2001:db8:b1::/48"},
	} {
		w := newWorld(t)
		w.up("a")
		w.flush()
		a := attributes(0)
		w.planner.Learned(speaker.Learned{Peer: "a", Prefixes: []netip.Prefix{netip.MustParsePrefix(test.prefix)}, Attributes: &a})
		if w.planner.Pending("a") {
			t.Errorf("%s: leads to %v", test.name, describe(w.planner.Flush("a", 9)))
		}
	}
}

func TestNextHopWithoutAWay(t *testing.T) {
	w := newWorld(t)
	w.up("a")
	a := attributes(0)
	w.learn("a", a, prefix(1))
	w.flush()
	a.NextHop = nowhere
	w.learn("a", a, prefix(1))
	w.flush()
	if len(w.table("a")) != 0 || len(w.announced["a"]) != 0 {
		t.Errorf("a route whose next hop nothing leads to: table %v, announced %v", w.table("a"), w.announced["a"])
	}
	if v, _ := w.planner.View("a"); len(v.Problems) != 1 || !strings.Contains(v.Problems[0], nowhere.String()) {
		t.Errorf("problems %q do not name the next hop", v.Problems)
	}
	w.planner.ResolveAgain()
	if w.planner.Pending("a") {
		t.Error("there is something to do while nothing leads to the next hop")
	}
	w.reachable = true
	w.planner.ResolveAgain()
	w.flush()
	w.check("when something leads there")
}

// A peer may be several hops away, and interior routing change on the way.
func TestPeersAreFollowedByInteriorRouting(t *testing.T) {
	w := newWorld(t)
	w.up("a")
	far := attributes(0)
	far.NextHop = nowhere
	w.via = map[netip.Addr]netip.Addr{nowhere: netip.MustParseAddr("fe80::1")}
	w.learn("a", far, prefix(1))
	w.learn("a", attributes(0), prefix(2))
	w.flush()
	w.planner.ResolveAgain()
	if w.planner.Pending("a") {
		t.Errorf("the ways are as before, but there is to do %v", describe(w.planner.Flush("a", 9)))
	}
	w.via[nowhere] = netip.MustParseAddr("fe80::2")
	w.planner.ResolveAgain()
	done := len(w.log)
	w.flush()
	if steps := w.log[done:]; len(steps) != 2 {
		t.Errorf("another gateway leads to %q, want a new nexthop with its route, and no more", steps)
	}
	if got := w.table("a")[prefix(1)].Gateway; got != w.via[nowhere] {
		t.Errorf("the route goes by %s, want %s", got, w.via[nowhere])
	}
	delete(w.via, nowhere)
	w.planner.ResolveAgain()
	w.flush()
	if len(w.table("a")) != 1 || len(w.announced["a"]) != 1 {
		t.Errorf("the way is lost: table %v, announced %v", w.table("a"), w.announced["a"])
	}
	w.reachable = true
	w.planner.ResolveAgain()
	w.flush()
	w.check("when there is a way again")
	w.planner.Fail("a", errors.New("the interface is down"))
	w.flush()
	before := w.asked
	if w.planner.ResolveAgain(); w.asked != before {
		t.Error("the next hops of a peer that is out of use are looked for")
	}
	if !slices.Contains(w.planner.Devices("a"), "eth1") {
		t.Error("the device by which a peer that is out of use was reached is forgotten")
	}
}

func TestMaxPrefixes(t *testing.T) {
	w := newWorld(t)
	w.up("a")
	for n := range 9 {
		a := attributes(0)
		w.planner.Learned(speaker.Learned{Peer: "a", Prefixes: []netip.Prefix{prefix(n)}, Attributes: &a})
	}
	w.flush()
	v, _ := w.planner.View("a")
	if len(w.table("a")) != 8 || v.IPv6 != 8 || len(v.Problems) != 1 || !strings.Contains(v.Problems[0], "max_prefixes (8)") {
		t.Errorf("of 9 routes with a limit of 8 the table has %d, the view %d; problems %q", len(w.table("a")), v.IPv6, v.Problems)
	}
}

func TestAnnouncement(t *testing.T) {
	w := newWorld(t)
	w.up("a")
	w.learn("a", attributes(0), prefix(1))
	w.flush()
	route := w.announced["a"][prefix(1)]
	peer := w.peer("a")
	if route.Service.SID != peer.SID || route.Service.Structure != w.config.SRv6.SIDLocator().Structure() ||
		!route.HasTarget(peer.RT) || route.Attributes.NextHop.IsValid() || route.Attributes.ASPath != attributes(0).ASPath {
		t.Errorf("announced %+v", route)
	}
	if got := route.Attributes.Communities(); !slices.Equal(got, []uint32{64500<<16 | 7}) {
		t.Errorf("communities %v", got)
	}
	if want := route.Attributes.WithLargeCommunities(speaker.LargeCommunity{64500, 1, 2}); route.Attributes != want {
		t.Errorf("announced %+v, want large communities as in %+v", route.Attributes, want)
	}
	if err := w.planner.SetDrain("a", true); err != nil {
		t.Fatal(err)
	}
	w.flush()
	if got := w.announced["a"][prefix(1)].Attributes.Communities(); !slices.Contains(got, 65535<<16) {
		t.Errorf("a drained peer's routes have communities %v, without GRACEFUL_SHUTDOWN", got)
	}
	if err := w.planner.SetDrain("nobody", true); err == nil {
		t.Error("a peer that is not there can be drained")
	}
}

func TestKernelRefuses(t *testing.T) {
	w := newWorld(t)
	w.up("a")
	w.learn("a", attributes(0), prefix(1))
	w.flush()
	w.planner.Fail("a", errors.New("no buffer space"))
	w.flush()
	if w.open("a") || len(w.announced["a"]) > 0 || len(w.table("a")) > 0 {
		t.Errorf("after the kernel refused: SID open %v, announced %v, table %v", w.open("a"), w.announced["a"], w.table("a"))
	}
	v, _ := w.planner.View("a")
	if v.Usable || !strings.Contains(v.Reason, "no buffer space") {
		t.Errorf("the view says %+v", v)
	}
	w.planner.Retry("a")
	w.flush()
	w.check("after a retry")
}

// TestPromiseHolds sends events at random, crashes included, and looks after each
// flush whether table, announcements and what peers advertise agree.
func TestPromiseHolds(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 5))
		w := newWorld(t)
		up := map[string]bool{}
		for range 60 {
			name := []string{"a", "b"}[random.IntN(2)]
			switch random.IntN(12) {
			case 0:
				if !up[name] {
					up[name] = true
					w.up(name)
				}
			case 1:
				if up[name] {
					up[name] = false
					w.down(name)
				}
			case 2:
				if up[name] {
					w.endOfRIB(name)
				}
			case 3:
				if random.IntN(4) == 0 {
					clear(up)
					w.start()
				}
			case 4:
				if up[name] {
					w.planner.Fail(name, errors.New("test"))
					w.planner.Retry(name)
				}
			case 5, 6, 7:
				if up[name] {
					w.withdraw(name, prefix(random.IntN(6)))
				}
			case 8:
				w.flushSome(name)
			default:
				if up[name] {
					w.learn(name, attributes(random.IntN(4)), prefix(random.IntN(6)), prefix(random.IntN(6)))
				}
			}
			if random.IntN(3) == 0 {
				w.flush()
				w.check("in between")
			}
		}
		w.planner.Expire()
		clear(w.stale)
		w.flush()
		w.check("at the end")
	}
}

func TestNothingIsLeftOfLostPeers(t *testing.T) {
	w := newWorld(t)
	w.up("a")
	w.learn("a", attributes(0), prefix(1), prefix(2), prefix(3), prefix(4), prefix(5))
	w.flush()
	w.down("a")
	w.flush()
	if len(w.nexthops) > 0 || len(w.routes) != 1 {
		t.Errorf("left are nexthops %v and routes %v, want the locator's alone", w.nexthops, w.routes)
	}
}

func TestCrashedBorderWithoutPeer(t *testing.T) {
	w := newWorld(t)
	w.up("a")
	w.learn("a", attributes(0), prefix(1))
	w.flush()
	w.start()
	if !w.open("a") || len(w.table("a")) != 1 {
		t.Fatal("a restart interrupts what was there")
	}
	w.planner.Expire()
	w.flush()
	if w.open("a") || len(w.table("a")) > 0 {
		t.Error("a peer that does not come back is still in use")
	}
}

func TestBestPaths(t *testing.T) {
	w := newWorld(t)
	w.config.Router.BestPaths = true
	w.start()
	w.up("a")
	a := attributes(0)
	w.planner.Best(speaker.BestPath{Prefix: prefix(1), Peer: "a", Attributes: &a})
	w.flush()
	key := kernel.RouteKey{Prefix: prefix(1), Table: kernel.MainTable, Metric: 20}
	if w.nexthops[w.routes[key].Nexthop].Gateway != a.NextHop {
		t.Errorf("the main table has %v", w.routes)
	}
	w.start()
	if w.routes[key].Nexthop == 0 {
		t.Error("a restart takes best paths out of the main table")
	}
	w.planner.Best(speaker.BestPath{Prefix: prefix(1)})
	w.flush()
	if _, ok := w.routes[key]; ok {
		t.Error("a best path that is gone stays in the main table")
	}
}

func TestBestPathWhosePeerHadNoWay(t *testing.T) {
	w := newWorld(t)
	w.config.Router.BestPaths = true
	w.start()
	w.up("a")
	a := attributes(0)
	a.NextHop = nowhere
	w.planner.Best(speaker.BestPath{Prefix: prefix(1), Peer: "a", Attributes: &a})
	w.flush()
	key := kernel.RouteKey{Prefix: prefix(1), Table: kernel.MainTable, Metric: 20}
	if _, ok := w.routes[key]; ok {
		t.Error("a best path that nothing leads to is in the main table")
	}
	w.reachable = true
	w.planner.ResolveAgain()
	w.flush()
	if w.nexthops[w.routes[key].Nexthop].Gateway != nowhere {
		t.Errorf("when something leads there the main table has %v", w.routes)
	}
	w.planner.Best(speaker.BestPath{Prefix: prefix(1)})
	w.flush()
	if _, ok := w.routes[key]; ok {
		t.Error("a best path that is gone stays in the main table")
	}
}

func TestBestPathsByOtherBorders(t *testing.T) {
	w := newWorld(t)
	w.config.Router.BestPaths = true
	w.start()
	a := attributes(0)
	event := speaker.BestPath{Prefix: prefix(1), Peer: "rr", Attributes: &a}
	key := kernel.RouteKey{Prefix: prefix(1), Table: kernel.MainTable, Metric: 20}
	for _, step := range []struct{ name, interior, want string }{
		{"nothing leads to the other border", "", ""},
		{"something does", "eth0", "eth0"},
		{"interior routing changes", "eth7", "eth7"},
		{"the border is lost", "", ""},
		{"and comes back", "eth0", "eth0"},
	} {
		w.interior = step.interior
		if step.name == "nothing leads to the other border" {
			w.planner.Best(event)
		}
		w.planner.ResolveAgain()
		w.flush()
		if got := w.nexthops[w.routes[key].Nexthop]; got.Device != step.want {
			t.Errorf("%s: the main table has %v", step.name, w.routes)
		}
	}
	w.up("a")
	event.Peer = "a"
	w.planner.Best(event)
	w.interior = "eth7"
	w.planner.ResolveAgain()
	w.flush()
	if got := w.nexthops[w.routes[key].Nexthop]; got.Device != "eth1" {
		t.Errorf("a peer became best: the main table has %v", w.routes)
	}
}

func TestLocatorStaysShutWithoutItsRoute(t *testing.T) {
	w := newWorld(t)
	w.config = parse(t, strings.Replace(borderTOML, "[srv6]", "[srv6]\nlocator_route = false", 1))
	w.start()
	w.up("a")
	w.flush()
	w.down("a")
	w.flush()
	if r := w.routes[border.Drops(w.peer("a"), w.lookup)[0].Key()]; r.Type != kernel.Blackhole || len(w.routes) != 1 {
		t.Errorf("without a route for the locator the lost peer's SID must stay a blackhole; routes %v", w.routes)
	}
}

func describe(steps []border.Step) []string {
	var lines []string
	prefixes := func(routes []kernel.Route) string {
		words := []string{}
		for _, r := range routes {
			words = append(words, r.Prefix.String())
		}
		slices.Sort(words)
		return "[" + strings.Join(words, " ") + "]"
	}
	joined := func(list []netip.Prefix) string {
		words := []string{}
		for _, p := range list {
			words = append(words, p.String())
		}
		slices.Sort(words)
		return "[" + strings.Join(words, " ") + "]"
	}
	for _, s := range steps {
		switch {
		case s.Drop != nil:
			lines = append(lines, "drop "+s.Drop.Prefix.String())
		case s.Withdraw != nil:
			lines = append(lines, "withdraw "+joined(s.Withdraw.Prefixes))
		case s.Announce != nil:
			lines = append(lines, "announce "+joined(s.Announce.Prefixes))
		case len(s.Change.Put.Routes) > 0:
			lines = append(lines, "put "+prefixes(s.Change.Put.Routes))
		case len(s.Change.Remove.Nexthops) > 0:
			lines = append(lines, "remove 1 nexthops "+prefixes(s.Change.Remove.Routes))
		default:
			lines = append(lines, "remove "+prefixes(s.Change.Remove.Routes))
		}
	}
	return lines
}

// A peer has so many next hops that resolving them would delay others.
func TestNextHopsAreBounded(t *testing.T) {
	const maxHops = 4096
	w := newWorld(t)
	w.config.Peers[0].MaxPrefixes = 3 * maxHops
	w.start()
	w.up("a")
	w.reachable = true
	learn := func(n, hop int) {
		a := attributes(0)
		a.NextHop = netip.AddrFrom16([16]byte{0x20, 0x01, 14: byte(hop >> 8), 15: byte(hop)})
		w.learn("a", a, prefix(n))
	}
	for n := range maxHops + 10 {
		learn(n, n)
	}
	w.flush()
	w.planner.ResolveAgain()
	// The first next hops have routes as ever, and one that has lost its last makes room.
	learn(maxHops+20, 5)
	w.withdraw("a", prefix(7))
	learn(maxHops+21, maxHops+21)
	w.flush()
	if n := len(w.table("a")); n != maxHops+1 {
		t.Errorf("the table has %d routes, want %d", n, maxHops+1)
	}
	if _, ok := w.table("a")[prefix(maxHops+21)]; !ok {
		t.Error("a route whose next hop took the place of another is not used")
	}
	v, _ := w.planner.View("a")
	if len(v.Problems) != 1 || !strings.Contains(v.Problems[0], "10 announcements by next hops beyond the first 4096") {
		t.Errorf("problems %q", v.Problems)
	}
	asked := w.asked
	w.planner.ResolveAgain()
	if n := w.asked - asked; n != maxHops {
		t.Errorf("%d next hops are resolved, want %d", n, maxHops)
	}
}

// However many next hops have no way, a few are named.
func TestLostNextHopsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.config.Peers[0].MaxPrefixes = 100
	w.start()
	w.up("a")
	w.isolated = true
	for n := range 30 {
		a := attributes(0)
		a.NextHop = netip.AddrFrom16([16]byte{0x20, 0x01, 15: byte(n + 1)})
		w.learn("a", a, prefix(n))
	}
	w.flush()
	v, _ := w.planner.View("a")
	if len(v.Problems) != 9 || !strings.Contains(v.Problems[8], "22 further next hops") {
		t.Errorf("problems %q", v.Problems)
	}
}

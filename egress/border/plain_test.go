package border_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"hikyaku/egress/border"
	"hikyaku/egress/config"
	"hikyaku/egress/fib"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

// The next hops of peers a and b, which attributes gives them, another router's, and one
// inside of the AS.
var (
	hopA      = kernel.MainHop{Device: "eth1", Gateway: netip.MustParseAddr("fe80::1")}
	hopB      = kernel.MainHop{Device: "eth1", Gateway: netip.MustParseAddr("fe80::2")}
	hopOther  = kernel.MainHop{Device: "eth1", Gateway: netip.MustParseAddr("fe80::3")}
	hopInside = kernel.MainHop{Device: "eth0", Gateway: netip.MustParseAddr("fe80::1")}
	onLink    = kernel.MainHop{Device: "eth1"}
	globalA   = kernel.MainHop{Device: "eth1", Gateway: netip.MustParseAddr("2001:db8:a::1")}
)

// setMain puts a route into the main table; without next hops it drops packets.
func (w *world) setMain(prefix string, hops ...kernel.MainHop) {
	w.main.Put(kernel.MainRoute{Prefix: netip.MustParsePrefix(prefix), Metric: 20, Hops: hops}, true)
}

// mains returns the peers and prefixes whose announced routes are the main table's.
func (w *world) mains() string {
	w.t.Helper()
	w.planner.MainChanged(w.main.Take())
	w.flush()
	w.planner.Recheck()
	w.flush()
	var found []string
	for name, routes := range w.announced {
		for prefix, r := range routes {
			if r.HasTarget(srv6.MainTarget(w.config.RouterID)) {
				found = append(found, name+" "+prefix.String())
			}
		}
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}

func TestAnnouncedRoutesSayWhatTheMainTableDoes(t *testing.T) {
	const client = "2001:db8:c01::/48" // prefix(1)
	both := func(w *world) {
		w.learn("a", attributes(0), prefix(1))
		w.learn("b", attributes(1), prefix(1))
	}
	for _, test := range []struct {
		name  string
		steps func(*world)
		want  string
	}{
		{"an empty table", both, ""},
		{"one peer of two", func(w *world) { both(w); w.setMain(client, hopA) }, "a " + client},
		{"the route was there first", func(w *world) { w.setMain(client, hopB); both(w) }, "b " + client},
		{"it changes", func(w *world) { both(w); w.setMain(client, hopA); w.mains(); w.setMain(client, hopB) }, "b " + client},
		{"it goes", func(w *world) {
			both(w)
			w.setMain(client, hopA)
			w.mains()
			w.main.Delete(kernel.MainRoute{Prefix: prefix(1), Metric: 20})
		}, ""},
		{"another metric is better", func(w *world) {
			both(w)
			w.setMain(client, hopA)
			w.main.Put(kernel.MainRoute{Prefix: prefix(1), Metric: 10, Hops: []kernel.MainHop{hopB}}, false)
		}, "b " + client},
		{"ECMP over both", func(w *world) { both(w); w.setMain(client, hopA, hopB) }, "a " + client + ", b " + client},
		{"ECMP over a peer and a router that is none", func(w *world) { both(w); w.setMain(client, hopA, hopOther) }, ""},
		{"ECMP over both, of whom one does not announce it", func(w *world) {
			w.learn("a", attributes(0), prefix(1))
			w.setMain(client, hopA, hopB)
		}, ""},
		{"another border", func(w *world) { both(w); w.setMain(client, hopInside) }, ""},
		{"dropped", func(w *world) { both(w); w.setMain(client) }, ""},
		{"the default route alone", func(w *world) { both(w); w.setMain("::/0", hopB) }, "b " + client},
		{"the default route changes", func(w *world) { both(w); w.setMain("::/0", hopB); w.mains(); w.setMain("::/0", hopA) }, "a " + client},
		{"a part goes elsewhere, which servers cannot see", func(w *world) {
			both(w)
			w.setMain(client, hopA)
			w.setMain("2001:db8:c01:8000::/49", hopOther)
		}, ""},
		{"a part goes to a peer that does not announce it", func(w *world) {
			both(w)
			w.setMain("2001:db8:c01::/40", hopA)
			w.setMain("2001:db8:c01:8000::/49", hopB)
		}, ""},
		{"that part goes away", func(w *world) {
			both(w)
			w.setMain(client, hopA)
			w.setMain("2001:db8:c01:8000::/49", hopOther)
			w.mains()
			w.main.Delete(kernel.MainRoute{Prefix: netip.MustParsePrefix("2001:db8:c01:8000::/49"), Metric: 20})
		}, "a " + client},
		{"a part on a link has no clients", func(w *world) {
			both(w)
			w.setMain(client, hopA)
			w.setMain("2001:db8:c01:8000::/64", onLink)
		}, "a " + client},
		{"a part is another EPE route, which comes late", func(w *world) {
			wide := netip.MustParsePrefix("2001:db8:c00::/40")
			w.learn("a", attributes(0), wide)
			w.setMain(wide.String(), hopA)
			w.setMain(client, hopB)
			w.mains()
			w.learn("b", attributes(1), prefix(1))
		}, "a 2001:db8:c00::/40, b " + client},
		{"that EPE route is withdrawn", func(w *world) {
			wide := netip.MustParsePrefix("2001:db8:c00::/40")
			w.learn("a", attributes(0), wide)
			w.learn("b", attributes(1), prefix(1))
			w.setMain(wide.String(), hopA)
			w.setMain(client, hopB)
			w.mains()
			w.withdraw("b", prefix(1))
		}, ""},
		{"the same neighbour by another address", func(w *world) {
			both(w)
			w.setMain(client, globalA)
			w.mains()
			w.planner.SetNeighbours(map[kernel.MainHop]string{hopA: "mac", globalA: "mac"})
		}, "a " + client},
		{"another neighbour by its address", func(w *world) {
			both(w)
			w.setMain(client, hopA)
			w.planner.SetNeighbours(map[kernel.MainHop]string{hopA: "mac", hopB: "other"})
		}, "a " + client},
		{"many changes at once", func(w *world) {
			both(w)
			w.mains()
			w.setMain(client, hopA)
			w.main.Take()
			w.planner.MainChanged(nil, true)
		}, "a " + client},
	} {
		w := newWorld(t)
		w.up("a")
		w.up("b")
		w.flush()
		test.steps(w)
		if got := w.mains(); got != test.want {
			t.Errorf("%s: the main table's routes are [%s], want [%s]", test.name, got, test.want)
		}
		w.check(test.name)
	}
}

func TestOnlyChangedRoutesAreAnnouncedAgain(t *testing.T) {
	w := newWorld(t)
	w.up("a")
	w.up("b")
	for n := range 8 {
		w.learn("a", attributes(0), prefix(n))
		w.learn("b", attributes(1), prefix(n))
		w.setMain(prefix(n).String(), hopA)
	}
	w.mains()
	w.log = nil
	w.setMain(prefix(3).String(), hopB)
	w.mains()
	want := []string{"a: announce 192.0.2.1:1 via SID 2001:db8:b1:1::: " + prefix(3).String(),
		"b: announce 192.0.2.1:2 via SID 2001:db8:b1:2::: " + prefix(3).String()}
	slices.Sort(w.log)
	if !slices.Equal(w.log, want) {
		t.Errorf("after one change the steps are\n%s\nwant\n%s", w.steps(), strings.Join(want, "\n"))
	}
}

func TestServersGetTheBordersAddresses(t *testing.T) {
	w := newWorld(t)
	one, two := netip.MustParseAddr("2001:db8:5::1"), netip.MustParseAddr("2001:db8:6::1")
	got := func(addresses ...netip.Addr) map[string]speaker.VPNRoute {
		w.planner.SetAddresses(addresses)
		routes := make(map[string]speaker.VPNRoute)
		for w.planner.Pending("the border itself") {
			for _, step := range w.planner.Flush("the border itself", 8) {
				if step.Withdraw != nil {
					for _, p := range step.Withdraw.Prefixes {
						routes["withdrawn "+step.Withdraw.RD.String()+" "+p.String()] = speaker.VPNRoute{}
					}
				} else {
					for _, p := range step.Announce.Prefixes {
						routes[step.Announce.RD.String()+" "+p.String()] = step.Announce.Route
					}
				}
			}
		}
		return routes
	}
	keys := func(routes map[string]speaker.VPNRoute) string {
		return strings.Join(slices.Sorted(maps.Keys(routes)), ", ")
	}
	if routes := got(one); keys(routes) != "192.0.2.1:0 2001:db8:5::1/128" ||
		!routes["192.0.2.1:0 2001:db8:5::1/128"].HasTarget(srv6.MainTarget(w.config.RouterID)) {
		t.Errorf("the first address gives %v", routes)
	}
	if routes := got(two); keys(routes) != "192.0.2.1:0 2001:db8:6::1/128, withdrawn 192.0.2.1:0 2001:db8:5::1/128" {
		t.Errorf("another address in its place gives %v", routes)
	}
	if routes := got(two); len(routes) > 0 {
		t.Errorf("the same address gives %v", routes)
	}
}

// BenchmarkMainChanged has the main table move 200,000 prefixes from a peer to another. Both
// peers' routes are announced again, without and with the main table's target.
func BenchmarkMainChanged(b *testing.B) {
	const routes = 200_000
	c := parse(b, strings.ReplaceAll(borderTOML, "max_prefixes = 8\n", ""))
	main := fib.New()
	p := border.New(c, border.Options{
		Anchor: "anchor", Lookup: func(*config.Peer) border.Lookup { return border.ByTable }, Main: main,
		Resolve: func(_ *config.Peer, nextHop netip.Addr) (border.Hop, error) {
			return border.Hop{Device: "eth1", Gateway: nextHop}, nil
		},
	}, kernel.State{})
	flush := func() (announced int) {
		for _, name := range p.Names() {
			for p.Pending(name) {
				for _, step := range p.Flush(name, 1024) {
					if step.Announce != nil {
						announced += len(step.Announce.Prefixes)
					}
				}
			}
		}
		return announced
	}
	prefixes := make([]netip.Prefix, routes)
	for n := range prefixes {
		prefixes[n] = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, byte(n >> 16), byte(n >> 8), byte(n)}), 48)
	}
	move := func(to kernel.MainHop) {
		for _, prefix := range prefixes {
			main.Put(kernel.MainRoute{Prefix: prefix, Metric: 20, Hops: []kernel.MainHop{to}}, true)
		}
	}
	move(hopA)
	for n, name := range []string{"a", "b"} {
		a := attributes(n)
		p.PeerUp(name)
		p.Learned(speaker.Learned{Peer: name, Prefixes: prefixes, Attributes: &a})
	}
	flush()
	p.MainChanged(main.Take())
	flush()
	hops := []kernel.MainHop{hopB, hopA}
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		move(hops[n%2])
		b.StartTimer()
		p.MainChanged(main.Take())
		if announced := flush(); announced != 2*routes {
			b.Fatalf("%d routes are announced again, want %d", announced, 2*routes)
		}
	}
}

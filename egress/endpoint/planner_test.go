package endpoint_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"hikyaku/egress/endpoint"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

func TestTables(t *testing.T) {
	const client, other = "2001:db8:c::/48", "2001:db8:d::/48"
	const sid, newSID = "2001:db8:b1:1::", "2001:db8:b1:9::"
	plain := speaker.Attributes{}
	foreign := speaker.NewVPNRoute(srv6.Service{SID: netip.MustParseAddr(sid)}, plain, rt(9))
	for _, test := range []struct {
		name   string
		events func(*endpoint.Planner)
		want   map[string]string
	}{
		{"a route", func(p *endpoint.Planner) { p.Learned(learned(1, route(1, sid, plain), client)) },
			map[string]string{client: sid}},
		{"a withdrawal, by its distinguisher", func(p *endpoint.Planner) {
			p.Learned(learned(1, route(1, sid, plain), client, other))
			p.Withdrawn(speaker.VPNWithdrawn{RD: rd(1), Prefixes: prefixes(client)})
		}, map[string]string{other: sid}},
		{"another SID", func(p *endpoint.Planner) {
			p.Learned(learned(1, route(1, sid, plain), client, other))
			p.Learned(learned(1, route(1, newSID, plain), client))
		}, map[string]string{client: newSID, other: sid}},
		{"a distinguisher of no path", func(p *endpoint.Planner) { p.Learned(learned(9, route(1, sid, plain), client)) },
			map[string]string{}},
		{"the target of another path", func(p *endpoint.Planner) { p.Learned(learned(1, &foreign, client)) },
			map[string]string{}},
		{"a route that loses its target", func(p *endpoint.Planner) {
			p.Learned(learned(1, route(1, sid, plain), client))
			p.Learned(learned(1, &foreign, client))
		}, map[string]string{}},
		{"a SID outside the locators", func(p *endpoint.Planner) { p.Learned(learned(1, route(1, "2001:db8:bad::1", plain), client)) },
			map[string]string{}},
		{"more than the limit", func(p *endpoint.Planner) {
			p.Learned(learned(1, route(1, sid, plain), "2001:db8:1::/48", "2001:db8:2::/48", "2001:db8:3::/48",
				"2001:db8:4::/48", "2001:db8:5::/48", "2001:db8:6::/48", "2001:db8:7::/48"))
			p.Withdrawn(speaker.VPNWithdrawn{RD: rd(1), Prefixes: prefixes("2001:db8:1::/48", "2001:db8:2::/48", "2001:db8:3::/48",
				"2001:db8:4::/48", "2001:db8:5::/48")})
		}, map[string]string{"2001:db8:6::/48": sid}},
		{"a blocked path", func(p *endpoint.Planner) {
			p.Learned(learned(1, route(1, sid, plain), client))
			p.Block("a", errors.New("test"))
		}, map[string]string{}},
		{"a path that is blocked no more", func(p *endpoint.Planner) {
			p.Block("a", errors.New("test"))
			p.Learned(learned(1, route(1, sid, plain), client))
			p.Block("a", nil)
		}, map[string]string{client: sid}},
		{"IPv4 clients", func(p *endpoint.Planner) { p.Learned(learned(1, route(1, sid, plain), "198.51.100.0/24")) },
			map[string]string{"198.51.100.0/24": sid}},
	} {
		for _, flushBetween := range []bool{false, true} {
			w := newWorld(t)
			if flushBetween {
				test.events(w.planner)
				w.flush()
			}
			test.events(w.planner)
			w.flush()
			got := w.sids(1)
			if len(got) != len(test.want) {
				t.Errorf("%s: the table is %v, want %v", test.name, got, test.want)
			}
			for p, sid := range test.want {
				if got[p] != sid {
					t.Errorf("%s: %s leads to SID %q, want %q", test.name, p, got[p], sid)
				}
			}
		}
	}
}

func TestRules(t *testing.T) {
	w := newWorld(t)
	got := []string{}
	for _, r := range w.planner.Want().Rules {
		got = append(got, strings.TrimSpace(kernel.Op{Verb: kernel.Add, Object: r}.String()))
	}
	for _, want := range []string{
		"ip -6 rule add pref 10000 from 2001:db8:5::a1/128 lookup 10001 protocol 200",
		"ip -6 rule add pref 10001 from 2001:db8:5::a1/128 unreachable protocol 200",
		"ip -4 rule add pref 10000 from 198.51.100.1/32 lookup 10001 protocol 200",
		"ip -6 rule add pref 10002 from all fwmark 0x680002/0xffffffff lookup 10002 protocol 200",
		"ip -4 rule add pref 10002 from all fwmark 0x680002/0xffffffff lookup 10002 protocol 200",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no rule is %q; there are\n%s", want, strings.Join(got, "\n"))
		}
	}
	for _, a := range w.planner.Want().Addresses {
		if !a.Deprecated || a.Device != "eth0" || !a.Prefix.IsSingleIP() {
			t.Errorf("EPE address %+v: must be a host address that is never a default source", a)
		}
	}
}

func TestDraining(t *testing.T) {
	w := newWorld(t)
	shutdown := speaker.Attributes{}.WithCommunities(65535 << 16)
	w.planner.Learned(learned(1, route(1, "2001:db8:b1:1::", shutdown), "2001:db8:c::/48"))
	if v, _ := w.planner.View("a"); !v.Up || !v.Draining || !v.ByBorder {
		t.Errorf("a path whose routes have GRACEFUL_SHUTDOWN is %+v", v)
	}
	w.planner.Learned(learned(1, route(1, "2001:db8:b1:1::", speaker.Attributes{}), "2001:db8:c::/48"))
	if v, _ := w.planner.View("a"); v.Draining {
		t.Error("the border's drain does not end")
	}
	if err := w.planner.SetDrain("a", true); err != nil {
		t.Fatal(err)
	}
	w.flush()
	reaches, _ := w.planner.Lookup(netip.MustParsePrefix("2001:db8:c::/48"))
	if len(w.sids(1)) != 1 || len(reaches) != 1 || !reaches[0].Draining {
		t.Errorf("a drained path has the routes %v, the lookup says %+v", w.sids(1), reaches)
	}
}

// TestRestart keeps confirmed routes and removes the rest when the path's routes are complete.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	r := route(1, "2001:db8:b1:1::", speaker.Attributes{})
	w.planner.Learned(learned(1, r, "2001:db8:c::/48", "2001:db8:d::/48", "198.51.100.0/24"))
	w.flush()
	w.start()
	w.planner.Learned(learned(1, r, "2001:db8:c::/48"))
	w.flush()
	if len(w.sids(1)) != 3 {
		t.Errorf("a restart interrupts what was there: the table is %v", w.sids(1))
	}
	w.planner.Settled(rd(2))
	w.flush()
	if got := w.sids(1); len(got) != 3 {
		t.Errorf("when another path's routes are complete the table is %v", got)
	}
	w.planner.Settled(rd(1))
	w.flush()
	if got := w.sids(1); len(got) != 1 {
		t.Errorf("when the path's routes are complete the table is %v", got)
	}
	w.planner.Withdrawn(speaker.VPNWithdrawn{RD: rd(1), Prefixes: prefixes("2001:db8:c::/48")})
	w.flush()
	if len(w.nexthops) != 0 {
		t.Errorf("nexthops %v are left without a route", w.nexthops)
	}
}

// TestLostAsAWhole takes a path out of use by the withdrawal of its SID alone.
func TestLostAsAWhole(t *testing.T) {
	const sid = "2001:db8:b1:1::"
	w := newWorld(t)
	r := route(1, sid, speaker.Attributes{})
	w.planner.Learned(learned(1, r, sid+"/128", "2001:db8:c::/48", "2001:db8:d::/48"))
	w.flush()
	leading := func() (n int) {
		for r := range w.rules {
			if r.Table == 10001 {
				n++
			}
		}
		return n
	}
	if got := w.sids(1); len(got) != 2 || leading() != 4 {
		t.Fatalf("the table is %v, and %d rules lead there", got, leading())
	}
	w.planner.Withdrawn(speaker.VPNWithdrawn{RD: rd(1), Prefixes: prefixes(sid + "/128")})
	steps := w.planner.Flush("a", 1)
	if len(steps) != 1 || len(steps[0].Change.Remove.Rules) != 4 || len(steps[0].Change.Remove.Routes) != 0 {
		t.Errorf("the first steps are %+v, want the removal of the rules alone", steps)
	}
	w.apply(steps[0].Change)
	if reaches, _ := w.planner.Lookup(netip.MustParsePrefix("2001:db8:c::/48")); len(reaches) > 0 {
		t.Errorf("a lost path reaches %+v", reaches)
	}
	if v, _ := w.planner.View("a"); v.Up {
		t.Error("a lost path is up")
	}
	w.planner.Withdrawn(speaker.VPNWithdrawn{RD: rd(1), Prefixes: prefixes("2001:db8:d::/48")})
	w.planner.Learned(learned(1, r, sid+"/128"))
	w.flush()
	if got := w.sids(1); len(got) != 1 || leading() != 4 {
		t.Errorf("when it is back the table is %v, and %d rules lead there", got, leading())
	}
}

// TestDeadPath takes a path out of use, and back, whose border is dead. Its table follows BGP
// meanwhile, and plain packets still go there.
func TestDeadPath(t *testing.T) {
	const client, other = "2001:db8:c::/48", "2001:db8:d::/48"
	w := newWorld(t)
	w.itself("2001:db8:5::1/128")
	w.route("::/0", gateway)
	w.planner.Learned(learned(1, plainRoute(1, sidA), client))
	w.planner.Learned(learned(2, route(2, sidB, speaker.Attributes{}), client))
	w.flush()
	w.planner.SetDead("a", errors.New("no answer"))
	steps := w.planner.Flush("a", 9)
	if len(steps) != 1 || len(steps[0].Change.Remove.Rules) != 4 || len(steps[0].Change.Remove.Routes) != 0 {
		t.Errorf("the steps are %+v, want the removal of the rules alone", steps)
	}
	w.apply(steps[0].Change)
	reaches, plain := w.planner.Lookup(netip.MustParsePrefix(client))
	if len(reaches) != 1 || reaches[0].Path != "b" || plain.Path != "a" {
		t.Errorf("the client is reached by %+v, and plain goes by %+v", reaches, plain)
	}
	if v, _ := w.planner.View("a"); v.Up || v.Reason != "no answer" || len(v.Problems) != 1 {
		t.Errorf("the view is %+v", v)
	}
	w.planner.Learned(learned(1, route(1, "2001:db8:b1:1::", speaker.Attributes{}), other))
	w.flush()
	if got := w.sids(1); len(got) != 2 {
		t.Errorf("the table of a dead path is %v", got)
	}
	w.planner.SetDead("a", nil)
	w.flush()
	if v, _ := w.planner.View("a"); !v.Up {
		t.Errorf("the view of a path that is back is %+v", v)
	}
}

// TestTableFollows sends events at random, restarts included, and compares the tables with
// the announcements.
func TestTableFollows(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(t)
		want := map[string]string{}
		for range 60 {
			p := []string{"2001:db8:1::/48", "2001:db8:2::/48", "2001:db8:3::/48", "198.51.100.0/24"}[random.IntN(4)]
			sid := []string{"2001:db8:b1:1::", "2001:db8:b1:2::"}[random.IntN(2)]
			switch random.IntN(8) {
			case 0, 1, 2:
				w.planner.Withdrawn(speaker.VPNWithdrawn{RD: rd(1), Prefixes: prefixes(p)})
				delete(want, p)
			case 3:
				w.flush()
			case 4:
				w.planner.Block("a", errors.New("test"))
				w.flush()
				w.planner.Block("a", nil)
			case 5:
				w.flush()
				w.start()
				for p, sid := range want {
					w.planner.Learned(learned(1, route(1, sid, speaker.Attributes{}), p))
				}
			default:
				w.planner.Learned(learned(1, route(1, sid, speaker.Attributes{}), p))
				want[p] = sid
			}
		}
		w.planner.Expire()
		w.flush()
		got := w.sids(1)
		if len(got) != len(want) {
			t.Fatalf("seed %d: the table is %v, want %v", seed, got, want)
		}
		for p, sid := range want {
			if got[p] != sid {
				t.Fatalf("seed %d: %s leads to %q, want %q", seed, p, got[p], sid)
			}
		}
	}
}

// TestRefusedRoutesAreCountedWhileTheyAre: refused routes count only as long as they
// are announced so.
func TestRefusedRoutesAreCountedWhileTheyAre(t *testing.T) {
	const client, other, sid, bad = "2001:db8:c::/48", "2001:db8:d::/48", "2001:db8:b1:1::", "2001:db8:bad::1"
	plain := speaker.Attributes{}
	many := []string{
		"2001:db8:1::/48", "2001:db8:2::/48", "2001:db8:3::/48", "2001:db8:4::/48", "2001:db8:5::/48",
		"2001:db8:6::/48", "2001:db8:7::/48", "2001:db8:8::/48",
	}
	for _, test := range []struct {
		name   string
		events func(*endpoint.Planner)
		want   string
	}{
		{"announced twice", func(p *endpoint.Planner) {
			p.Learned(learned(1, route(1, bad, plain), client, other))
			p.Learned(learned(1, route(1, bad, plain), client))
		}, "path a: 2 routes are refused, since their SID"},
		{"mended", func(p *endpoint.Planner) {
			p.Learned(learned(1, route(1, bad, plain), client, other))
			p.Learned(learned(1, route(1, sid, plain), client, other))
		}, ""},
		{"withdrawn", func(p *endpoint.Planner) {
			p.Learned(learned(1, route(1, bad, plain), client, other))
			p.Withdrawn(speaker.VPNWithdrawn{RD: rd(1), Prefixes: prefixes(client, other)})
		}, ""},
		{"beyond the limit", func(p *endpoint.Planner) {
			p.Learned(learned(1, route(1, sid, plain), many...))
		}, "path a: 2 routes beyond limits.routes_per_path (6) are refused"},
		{"beyond the limit and withdrawn", func(p *endpoint.Planner) {
			p.Learned(learned(1, route(1, sid, plain), many...))
			p.Withdrawn(speaker.VPNWithdrawn{RD: rd(1), Prefixes: prefixes(many...)})
		}, ""},
	} {
		w := newWorld(t)
		test.events(w.planner)
		v, _ := w.planner.View("a")
		if got := strings.Join(v.Problems, "; "); !strings.HasPrefix(got, test.want) || (test.want == "") != (got == "") {
			t.Errorf("%s: problems are %q, want %q", test.name, got, test.want)
		}
	}
}

func TestOriginAS(t *testing.T) {
	reach := func(name string, ases ...uint32) endpoint.Reach {
		return endpoint.Reach{Path: name, Route: &speaker.VPNRoute{Attributes: speaker.Attributes{ASPath: speaker.NewASPath(ases...)}}}
	}
	for _, test := range []struct {
		name    string
		reaches []endpoint.Reach
		best    string
		want    uint32
	}{
		{"no path", nil, "", 0},
		{"that of the best path", []endpoint.Reach{reach("a", 64496, 64999), reach("b", 64497, 64998)}, "b", 64998},
		{"that of the first path, where none is known to be the best", []endpoint.Reach{reach("a", 64496, 64999), reach("b", 64497, 64998)}, "", 64999},
		{"the own AS", []endpoint.Reach{reach("a")}, "a", 0},
	} {
		if got := endpoint.OriginAS(test.reaches, test.best); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// Borders whose locators overlap announce one SID for two peers, and packets go to one of
// these alone.
func TestSharedSIDsAreAProblem(t *testing.T) {
	const client, sid, other = "2001:db8:c::/48", "2001:db8:b1:1::", "2001:db8:b1:2::"
	w := newWorld(t)
	w.config.Paths[1].Border = netip.MustParseAddr("192.0.2.2")
	both := func(second string) {
		w.planner.Learned(learned(1, route(1, sid, speaker.Attributes{}), client))
		w.planner.Learned(learned(2, route(2, second, speaker.Attributes{}), client))
	}
	expect := func(what string, want ...string) {
		t.Helper()
		got := strings.Join(w.planner.SharedSIDs(), "\n")
		if (got == "") != (len(want) == 0) {
			t.Errorf("%s: problems %q", what, got)
		}
		for _, word := range want {
			if !strings.Contains(got, word) {
				t.Errorf("%s: %q lacks %q", what, got, word)
			}
		}
	}
	expect("before routes come")
	both(other)
	expect("a SID for each")
	both(sid)
	expect("one SID", "paths a and b", sid, "border 192.0.2.1 and border 192.0.2.2")
	w.planner.Block("b", errors.New("test"))
	expect("one of them not in use")
	w.planner.Block("b", nil)
	expect("both in use again", "paths a and b")
	w.planner.Withdrawn(speaker.VPNWithdrawn{RD: rd(2), Prefixes: prefixes(client)})
	w.flush()
	expect("one of them withdrawn")
}

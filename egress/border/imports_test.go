package border_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"hikyaku/egress/border"
	"hikyaku/egress/config"
	"hikyaku/egress/importpolicy"
	"hikyaku/egress/rpki"
	"hikyaku/egress/speaker"
)

// vrps is a table that allows an AS some of the prefixes of [prefix].
func vrps(t *testing.T, as uint32, ns ...int) *rpki.Table {
	t.Helper()
	var list []rpki.VRP
	for _, n := range ns {
		v, err := rpki.NewVRP(prefix(n), 48, as)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	slices.SortFunc(list, rpki.Compare)
	return rpki.NewTable(list)
}

// withPeer is the configuration with lines added to peer a.
func withPeer(t *testing.T, lines string) *config.Border {
	t.Helper()
	return parse(t, strings.Replace(borderTOML, "max_prefixes = 8\n", "max_prefixes = 8\n"+lines+"\n", 1))
}

func (w *world) refused(name string) map[string]int {
	v, _ := w.planner.View(name)
	counts := map[string]int{}
	for _, r := range v.Refused {
		if r.Routes > 0 {
			counts[r.Reason.String()] = r.Routes
		}
	}
	return counts
}

// taken are the prefixes in a peer's table, which must be those that servers have.
func (w *world) taken(name string) (list []netip.Prefix) {
	w.t.Helper()
	for p := range w.table(name) {
		if _, announced := w.announced[name][p]; !announced {
			w.t.Fatalf("%s is in the table of %s and was not announced", p, name)
		}
		list = append(list, p)
	}
	if len(list) != len(w.announced[name]) {
		w.t.Fatalf("of %s %d routes are in the table and %d announced", name, len(list), len(w.announced[name]))
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return list
}

func (w *world) expectTaken(what string, ns ...int) {
	w.t.Helper()
	var want []netip.Prefix
	for _, n := range ns {
		want = append(want, prefix(n))
	}
	slices.SortFunc(want, netip.Prefix.Compare)
	if got := w.taken("a"); !slices.Equal(got, want) {
		w.t.Errorf("%s: %v are taken, want %v", what, got, want)
	}
}

func origin(as uint32) speaker.Attributes {
	a := attributes(0)
	a.ASPath = speaker.NewASPath(64601, as)
	return a
}

func TestOtherVRPsApplyToRoutesThatAreThere(t *testing.T) {
	w := newWorld(t)
	w.up("a")
	w.learn("a", origin(1), prefix(1), prefix(2))
	w.learn("a", origin(2), prefix(3))
	w.flush()
	w.expectTaken("without VRPs", 1, 2, 3)
	w.planner.SetVRPs(vrps(t, 1, 1, 3))
	w.flush()
	w.expectTaken("with VRPs", 1, 2)
	if v, _ := w.planner.View("a"); v.Origins != (border.Origins{Valid: 1, NotFound: 1}) || w.refused("a")["rpki_invalid"] != 1 {
		t.Errorf("origins %+v, refused %v", v.Origins, w.refused("a"))
	}
	w.planner.SetVRPs(vrps(t, 2, 2, 3))
	w.flush()
	w.expectTaken("with others", 1, 3)
	w.learn("a", origin(1), prefix(3))
	w.learn("a", origin(2), prefix(2))
	w.flush()
	w.expectTaken("with other announcements", 1, 2)
	w.withdraw("a", prefix(3))
	w.planner.SetVRPs(vrps(t, 1, 3))
	w.flush()
	w.expectTaken("with a withdrawal of a refused route", 1, 2)
	w.planner.SetVRPs(nil)
	w.flush()
	w.expectTaken("when they have expired", 1, 2)
	if v, _ := w.planner.View("a"); v.Origins != (border.Origins{}) || len(w.refused("a")) != 0 {
		t.Errorf("origins %+v, refused %v", v.Origins, w.refused("a"))
	}
	w.down("a")
	w.flush()
	if v, _ := w.planner.View("a"); v.IPv6 != 0 || len(w.refused("a")) != 0 {
		t.Errorf("after the session %+v", v)
	}
}

func TestAnotherPolicyAppliesToRoutesThatAreThere(t *testing.T) {
	w := newWorld(t)
	w.up("a")
	w.learn("a", origin(1), prefix(1), prefix(2))
	w.learn("a", origin(666), prefix(3))
	w.flush()
	reload := func(lines string) {
		t.Helper()
		if unfit := w.planner.SetImport(withPeer(t, lines)); len(unfit.Incomplete)+len(unfit.Exceeded) > 0 {
			t.Errorf("unfit peers %+v", unfit)
		}
		w.flush()
	}
	reload(`import.refuse_as_paths = ["_666$"]`)
	w.expectTaken("without an origin", 1, 2)
	reload(fmt.Sprintf("import.refuse_as_paths = [\"_666$\"]\nimport.refuse_prefixes = [%q]", prefix(1)))
	w.expectTaken("without a prefix", 2)
	if got := w.refused("a"); got["as_path"] != 1 || got["prefix"] != 1 || len(got) != 2 {
		t.Errorf("refused %v", got)
	}
	reload("")
	w.expectTaken("as before", 1, 2, 3)
	w.check("at the end")
}

// Routes beyond the bound were not kept.
func TestHigherBoundNeedsTheRoutesAgain(t *testing.T) {
	w := newWorld(t)
	w.up("a")
	for n := range 9 {
		w.planner.Learned(speaker.Learned{Peer: "a", Prefixes: []netip.Prefix{prefix(n)}, Attributes: ptr(origin(1))})
	}
	if unfit := w.planner.SetImport(withPeer(t, "import.refuse_as_paths = [\"_666$\"]")); len(unfit.Incomplete) > 0 {
		t.Errorf("for another list %v must send everything again", unfit.Incomplete)
	}
	if unfit := w.planner.SetImport(withBound(t, 9, "")); !slices.Equal(unfit.Incomplete, []string{"a"}) {
		t.Errorf("for a higher bound %v must send everything again", unfit.Incomplete)
	}
	if v, _ := w.planner.View("a"); len(w.refused("a")) != 0 || strings.Contains(strings.Join(v.Problems, "\n"), "were refused") {
		t.Errorf("after a higher bound %v are refused, and the problems are %q", w.refused("a"), v.Problems)
	}
}

// withBound is the configuration with another max_prefixes of peer a, and further lines.
func withBound(t *testing.T, bound int, lines string) *config.Border {
	t.Helper()
	return parse(t, strings.Replace(borderTOML, "max_prefixes = 8\n", fmt.Sprintf("max_prefixes = %d\n%s\n", bound, lines), 1))
}

// The routes are there already: no announcement is waited for.
func TestLowerBoundEndsTheSession(t *testing.T) {
	for _, c := range []struct {
		name, action string
		routes       int
		want         []string
	}{
		{"beyond, to be refused", "refuse", 8, nil},
		{"beyond, to be reported", "warn", 8, nil},
		{"beyond, to be torn down", "teardown", 8, []string{"a"}},
		{"as many as may be", "teardown", 5, nil},
	} {
		w := newWorld(t)
		w.up("a")
		for n := range c.routes {
			w.learn("a", origin(1), prefix(n))
		}
		unfit := w.planner.SetImport(withBound(t, 5, fmt.Sprintf("max_prefixes_action = %q", c.action)))
		if !slices.Equal(unfit.Exceeded, c.want) || len(unfit.Incomplete) > 0 {
			t.Errorf("%s: %+v", c.name, unfit)
		}
		w.flush()
		v, _ := w.planner.View("a")
		problem := strings.Contains(strings.Join(v.Problems, "\n"), "it sends 8 routes, more than max_prefixes (5)")
		if len(w.taken("a")) != c.routes || problem != (c.routes > 5) {
			t.Errorf("%s: %d routes are taken, the problems are %q", c.name, len(w.taken("a")), v.Problems)
		}
	}
}

// monitored is the configuration whose peer a a BMP router reports.
func monitored(t *testing.T, bound int, lines string) *config.Border {
	t.Helper()
	text := strings.Replace(borderTOML, "max_prefixes = 8\n", fmt.Sprintf("max_prefixes = %d\nroutes = \"bmp\"\n%s\n", bound, lines), 1)
	return parse(t, text+"[bmp]\nlisten = [\"[::1]:11019\"]\nrouters = [\"::1\"]\n")
}

// monitoredWorld has some routes of peer a, which a BMP router reports.
func monitoredWorld(t *testing.T, bound, routes int) *world {
	w := newWorld(t)
	w.config = monitored(t, bound, "")
	w.start()
	w.up("a")
	for n := range routes {
		w.learn("a", origin(1), prefix(n))
	}
	w.flush()
	return w
}

func TestPeerThatIsLeftOut(t *testing.T) {
	w := monitoredWorld(t, 3, 5)
	w.planner.LeaveOut("a", "too many")
	w.flush()
	w.expectTaken("while it is left out")
	if v, _ := w.planner.View("a"); v.Usable || v.Open || v.Reason != "too many" || !w.planner.LeftOut("a") {
		t.Errorf("left out it is %+v", v)
	}
	w.withdraw("a", prefix(0)) // the router goes on reporting
	w.learn("a", origin(1), prefix(6))
	w.planner.SetImport(monitored(t, 8, ""))
	if !w.planner.TakeIn("a") {
		t.Error("its routes are not complete")
	}
	w.flush()
	w.expectTaken("with a higher bound", 1, 2, 3, 4, 6)
	w.planner.LeaveOut("a", "too many")
	w.flush()
	w.down("a")
	if w.planner.LeftOut("a") {
		t.Error("it is left out without a session")
	}
	w.up("a")
	w.learn("a", origin(1), prefix(1))
	w.flush()
	w.expectTaken("in another session", 1)

	w = monitoredWorld(t, 3, 7) // one more than is kept
	w.planner.LeaveOut("a", "too many")
	if unfit := w.planner.SetImport(monitored(t, 8, "")); len(unfit.Incomplete) > 0 {
		t.Errorf("a peer that is left out: %+v", unfit)
	}
	if w.planner.TakeIn("a") || !w.planner.LeftOut("a") {
		t.Error("it is taken in without all of its routes")
	}
}

// A BMP router cannot be asked for routes again.
func TestRoutesBeyondTheBoundAreKeptForBMP(t *testing.T) {
	w := monitoredWorld(t, 3, 6)
	w.expectTaken("below the bound", 0, 1, 2)
	w.learn("a", origin(2), prefix(4)) // announced again
	w.withdraw("a", prefix(5))
	if got := w.refused("a"); got["max_prefixes"] != 2 {
		t.Errorf("refused %v", got)
	}
	unfit := w.planner.SetImport(monitored(t, 4, ""))
	w.flush()
	if got := w.refused("a"); len(unfit.Incomplete) > 0 || len(w.taken("a")) != 4 || got["max_prefixes"] != 1 {
		t.Errorf("with room for one more: %+v, %d are taken, refused %v", unfit, len(w.taken("a")), got)
	}
	unfit = w.planner.SetImport(monitored(t, 5, "import.refuse_as_paths = [\"_2$\"]"))
	w.flush()
	w.expectTaken("with room, by another list", 0, 1, 2, 3)
	if got := w.refused("a"); len(unfit.Incomplete) > 0 || got["max_prefixes"] != 0 || got["as_path"] != 1 {
		t.Errorf("with room for all: %+v, refused %v", unfit, got)
	}

	w = monitoredWorld(t, 3, 6)
	if unfit := w.planner.SetImport(monitored(t, 4, "max_prefixes_action = \"teardown\"")); !slices.Equal(unfit.Exceeded, []string{"a"}) {
		t.Errorf("beyond the bound with kept routes: %+v", unfit)
	}
	w.down("a")
	w.up("a")
	w.planner.SetImport(monitored(t, 8, ""))
	w.flush()
	w.expectTaken("of a former session")

	w = monitoredWorld(t, 3, 7)
	if got := w.refused("a"); got["max_prefixes"] != 4 {
		t.Errorf("of more than are kept refused %v", got)
	}
	if unfit := w.planner.SetImport(monitored(t, 8, "")); !slices.Equal(unfit.Incomplete, []string{"a"}) {
		t.Errorf("of more than are kept: %+v", unfit)
	}
}

func ptr[T any](v T) *T { return &v }

func TestActionsOfMaxPrefixes(t *testing.T) {
	for action, want := range map[string]struct {
		taken    int
		exceeded bool
		problem  string
	}{
		"refuse":   {8, false, "1 announcements beyond max_prefixes (8) were refused"},
		"warn":     {9, false, "it sends 9 routes, more than max_prefixes (8)"},
		"teardown": {8, true, "1 announcements beyond max_prefixes (8) were refused"},
	} {
		w := newWorld(t)
		w.config = withPeer(t, fmt.Sprintf("max_prefixes_action = %q", action))
		w.start()
		w.up("a")
		exceeded := false
		for n := range 9 {
			if exceeded {
				t.Errorf("%s: too early", action)
			}
			exceeded = w.planner.Learned(speaker.Learned{Peer: "a", Prefixes: []netip.Prefix{prefix(n)}, Attributes: ptr(origin(1))})
			v, _ := w.planner.View("a")
			warned := slices.ContainsFunc(v.Problems, func(p string) bool { return strings.Contains(p, "75 percent of max_prefixes (8)") })
			if near := n+1 >= 6 && n+1 <= 8; warned != near {
				t.Errorf("%s: with %d routes of 8 warned %t: %q", action, n+1, warned, v.Problems)
			}
		}
		w.flush()
		v, _ := w.planner.View("a")
		if exceeded != want.exceeded || len(w.table("a")) != want.taken || !strings.Contains(strings.Join(v.Problems, "\n"), want.problem) {
			t.Errorf("%s: exceeded %t, %d routes are taken, problems %q", action, exceeded, len(w.table("a")), v.Problems)
		}
	}
}

// Routes that are refused are kept, and so count.
func TestRefusedRoutesCountForMaxPrefixes(t *testing.T) {
	w := newWorld(t)
	w.config = withPeer(t, `import.refuse_as_paths = ["_666$"]`)
	w.start()
	w.up("a")
	for n := range 8 {
		w.planner.Learned(speaker.Learned{Peer: "a", Prefixes: []netip.Prefix{prefix(n)}, Attributes: ptr(origin(666))})
	}
	w.planner.Learned(speaker.Learned{Peer: "a", Prefixes: []netip.Prefix{prefix(8)}, Attributes: ptr(origin(1))})
	if got := w.refused("a"); got["as_path"] != 8 || got["max_prefixes"] != 1 {
		t.Errorf("refused %v", got)
	}
}

func TestPeersThatCarryNothing(t *testing.T) {
	all := netip.MustParsePrefix("::/0")
	for _, c := range []struct {
		name string
		do   func(*world)
		want string // empty: nothing is reported
	}{
		{"no route yet", func(*world) {}, ""},
		{"no route", func(w *world) { w.planner.Complete("a") }, "peer a: it has sent no route, so that it carries nothing: ask it why"},
		{"a default route", func(w *world) { w.learn("a", origin(1), all) }, "peer a: it sends a default route and nothing else, which is refused"},
		{"refused routes", func(w *world) {
			w.learn("a", origin(666), prefix(1), prefix(2))
			w.learn("a", origin(1), all)
		}, "peer a: all of its 3 routes are refused (2 as_path, 1 default_route), so that it carries nothing"},
		{"loops", func(w *world) {
			w.planner.Withdrawn(speaker.Withdrawn{Peer: "a", Prefixes: []netip.Prefix{prefix(1)}, Cause: speaker.Looped})
			w.planner.Withdrawn(speaker.Withdrawn{Peer: "a", Prefixes: []netip.Prefix{prefix(2)}, Cause: speaker.Malformed})
		}, "all of its 2 routes are refused (1 malformed, 1 own_as)"},
		{"a loop that was withdrawn", func(w *world) {
			w.planner.Withdrawn(speaker.Withdrawn{Peer: "a", Prefixes: []netip.Prefix{prefix(1)}, Cause: speaker.Looped})
			w.withdraw("a", prefix(1))
			w.flush()
		}, ""},
		{"one route that is taken", func(w *world) {
			w.learn("a", origin(666), prefix(1))
			w.learn("a", origin(1), prefix(2))
			w.planner.Complete("a")
		}, ""},
	} {
		w := newWorld(t)
		w.config = withPeer(t, `import.refuse_as_paths = ["_666$"]`)
		w.start()
		w.up("a")
		c.do(w)
		w.flush()
		v, _ := w.planner.View("a")
		if got := strings.Join(v.Problems, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: problems %q, want %q", c.name, got, c.want)
		}
	}
}

// A route that the peer has announced again in another way was in use before.
func TestRouteThatIsRefusedLaterIsTakenBack(t *testing.T) {
	for name, again := range map[string]func(*world){
		"a loop": func(w *world) {
			w.planner.Withdrawn(speaker.Withdrawn{Peer: "a", Prefixes: []netip.Prefix{prefix(1)}, Cause: speaker.Looped})
		},
		"malformed": func(w *world) {
			w.planner.Withdrawn(speaker.Withdrawn{Peer: "a", Prefixes: []netip.Prefix{prefix(1)}, Cause: speaker.Malformed})
		},
		"refused": func(w *world) { w.learn("a", origin(666), prefix(1)) },
	} {
		w := newWorld(t)
		w.config = withPeer(t, `import.refuse_as_paths = ["_666$"]`)
		w.start()
		w.up("a")
		w.learn("a", origin(1), prefix(1))
		w.flush()
		again(w)
		w.flush()
		w.expectTaken(name)
		w.learn("a", origin(1), prefix(1))
		w.flush()
		w.expectTaken(name+", then as before", 1)
		if len(w.refused("a")) != 0 {
			t.Errorf("%s: refused %v", name, w.refused("a"))
		}
	}
}

// A best path by a route that is refused is in no table.
func TestBestPathsFollowTheImportPolicy(t *testing.T) {
	w := newWorld(t)
	w.config.Router.BestPaths = true
	w.start()
	w.up("a")
	w.learn("a", origin(2), prefix(1))
	w.planner.SetVRPs(vrps(t, 1, 1))
	w.planner.Best(speaker.BestPath{Prefix: prefix(1), Peer: "a", Attributes: ptr(origin(2))})
	w.flush()
	main := func() (n int) {
		for _, r := range w.routes {
			if r.Prefix == prefix(1) && r.Table == 254 {
				n++
			}
		}
		return n
	}
	if main() != 0 {
		t.Error("an invalid route is in the main table")
	}
	w.planner.SetVRPs(vrps(t, 2, 1))
	w.flush()
	if main() != 1 {
		t.Error("a valid route is not in the main table")
	}
	w.planner.SetVRPs(vrps(t, 1, 1))
	w.flush()
	if main() != 0 {
		t.Error("a route that has become invalid is in the main table")
	}
}

// TestCountsAgree sends events, VRPs and policies at random. Then the routes that the last
// policy takes must be in use, and the counts be theirs.
func TestCountsAgree(t *testing.T) {
	policies := []string{"", `import.refuse_as_paths = ["_1$"]`, fmt.Sprintf("import.accept_prefixes = [%q, %q]", prefix(1), prefix(2))}
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 11))
		w := newWorld(t)
		w.up("a")
		w.up("b")
		has := map[netip.Prefix]speaker.Attributes{}
		var table *rpki.Table
		c := w.config
		for range 40 {
			n, as := random.IntN(6), uint32(random.IntN(3)+1)
			switch random.IntN(6) {
			case 0, 1, 2:
				has[prefix(n)] = origin(as)
				w.learn("a", origin(as), prefix(n))
			case 3:
				delete(has, prefix(n))
				w.withdraw("a", prefix(n))
			case 4:
				if table = nil; random.IntN(4) > 0 {
					table = vrps(t, as, random.IntN(3), 3+random.IntN(3))
				}
				w.planner.SetVRPs(table)
			case 5:
				c = withPeer(t, policies[random.IntN(len(policies))])
				w.planner.SetImport(c)
			}
			if random.IntN(3) == 0 {
				w.flushSome("a")
			}
		}
		w.flush()
		policy := importpolicy.New(c, &c.Peers[0])
		wanted, refused := 0, map[string]int{}
		for p, a := range has {
			verdict := policy.Judge(p, policy.Attributes(&a), table)
			_, taken := w.table("a")[p]
			if taken == verdict.Refuses() {
				t.Fatalf("seed %d: %s is %s, and taken %t; steps:\n%s", seed, p, verdict.Reason(), taken, w.steps())
			}
			if verdict.Refuses() {
				refused[verdict.Reason().String()]++
			} else {
				wanted++
			}
		}
		v, _ := w.planner.View("a")
		if v.IPv6 != wanted || len(w.taken("a")) != wanted || fmt.Sprint(w.refused("a")) != fmt.Sprint(refused) {
			t.Fatalf("seed %d: %d are taken, %d counted, want %d; refused %v, want %v", seed, len(w.taken("a")), v.IPv6, wanted, w.refused("a"), refused)
		}
	}
}

// TestRefusedRoutesAreBarred follows what GoBGP must keep out of best paths.
func TestRefusedRoutesAreBarred(t *testing.T) {
	w := newWorld(t)
	w.config = withPeer(t, `import.refuse_as_paths = ["_666$"]`)
	w.config.Router.BestPaths = true
	w.start()
	w.up("a")
	w.learn("a", origin(666), prefix(1), prefix(2))
	w.learn("a", origin(1), prefix(3))
	w.flush()
	expect := func(what string, ns ...int) {
		t.Helper()
		if len(w.barred) != len(ns) {
			t.Errorf("%s: %v are barred, want %v", what, w.barred, ns)
		}
		for _, n := range ns {
			if !w.barred[prefix(n)] {
				t.Errorf("%s: %s is not barred", what, prefix(n))
			}
		}
	}
	expect("at first", 1, 2)
	w.learn("a", origin(1), prefix(1))
	w.withdraw("a", prefix(2))
	w.planner.SetVRPs(vrps(t, 2, 3))
	w.flush()
	expect("after changes", 3)
	w.down("a")
	w.flush()
	expect("after the session")
}

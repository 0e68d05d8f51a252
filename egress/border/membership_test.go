package border_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"hikyaku/egress/kernel"
)

// removeForGood takes a peer away, and fails the test if anything of it stays in the kernel or
// at servers.
func (w *world) removeForGood(name string) {
	w.t.Helper()
	p := w.peer(name)
	w.planner.Remove(name)
	w.up(name) // a report that was under way
	clear(w.advertised[name])
	w.stale[name] = false
	w.flush()
	w.remove(w.planner.Forget(name).Remove)
	for _, r := range w.routes {
		if r.Table == p.Table || r.Prefix.Contains(p.SID) && r.Prefix.Bits() == 128 {
			w.t.Errorf("%s in table %d stays; steps:\n%s", r.Prefix, r.Table, w.steps())
		}
	}
	if len(w.announced[name]) > 0 || w.marked[name] {
		w.t.Errorf("servers still have the peer: %v, marked %v", w.announced[name], w.marked[name])
	}
	used := make(map[kernel.NexthopID]bool)
	for _, r := range w.routes {
		used[r.Nexthop] = true
	}
	for id := range w.nexthops {
		if !used[id] {
			w.t.Errorf("nexthop %d stays for nobody", id)
		}
	}
	delete(w.advertised, name)
	w.check("removed")
}

func TestPeersAreRemovedInEveryState(t *testing.T) {
	learnAll := func(w *world) {
		for _, name := range []string{"a", "b"} {
			w.up(name)
			w.learn(name, attributes(0), prefix(1), prefix(2), prefix(3), prefix(4), prefix(5))
		}
	}
	for what, prepare := range map[string]func(*world){
		"never up":     func(*world) {},
		"not flushed":  learnAll,
		"half flushed": func(w *world) { learnAll(w); w.flushSome("a"); w.flushSome("b"); w.flushSome("b") },
		"in use":       func(w *world) { learnAll(w); w.flush() },
		"lost":         func(w *world) { learnAll(w); w.flush(); w.down("a"); w.flushSome("a") },
		"failed":       func(w *world) { learnAll(w); w.flush(); w.planner.Fail("a", errors.New("test")); w.flushSome("a") },
		"of a former run": func(w *world) {
			learnAll(w)
			w.flush()
			w.start()
			w.up("b")
			w.learn("b", attributes(0), prefix(1))
			w.endOfRIB("b")
		},
	} {
		for _, locator := range []bool{true, false} {
			w := newWorld(t)
			w.config.SRv6.LocatorRoute = locator
			w.start()
			prepare(w)
			p := w.peer("a")
			w.removeForGood("a")

			w.planner.Add(p)
			w.advertised["a"] = map[netip.Prefix]bool{}
			w.up("a")
			w.learn("a", attributes(1), prefix(7))
			w.flush()
			w.check(what + ", and added again")
		}
	}
}

func TestOtherCommunitiesAreAnnounced(t *testing.T) {
	w := newWorld(t)
	w.up("a")
	w.up("b")
	w.learn("a", attributes(0), prefix(1))
	w.learn("b", attributes(0), prefix(1))
	w.flush()
	next := *w.config
	next.Peers = slices.Clone(next.Peers)
	next.Peers[0].Communities = next.Peers[0].Communities[:1]
	w.planner.Configure(&next)
	if !w.planner.Pending("a") || w.planner.Pending("b") {
		t.Errorf("after other communities of a, pending are a %v, b %v", w.planner.Pending("a"), w.planner.Pending("b"))
	}
	w.flush()
	if got := w.announced["a"][prefix(1)].Attributes.Communities(); !slices.Contains(got, 64500<<16|7) {
		t.Errorf("the route has the communities %v", got)
	}
	w.check("after the change")
}

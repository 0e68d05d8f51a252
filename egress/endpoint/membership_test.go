package endpoint_test

import (
	"errors"
	"testing"

	"hikyaku/egress/endpoint"
	"hikyaku/egress/speaker"
)

func TestPathsAreRemovedAndAdded(t *testing.T) {
	const client, sid = "2001:db8:c::/48", "2001:db8:b1:1::"
	announce := func(w *world) {
		w.planner.Learned(learned(1, route(1, sid, speaker.Attributes{}), client, "2001:db8:d::/48", "2001:db8:e::/48"))
		w.planner.Learned(learned(2, route(2, "2001:db8:b1:2::", speaker.Attributes{}), client))
	}
	for what, prepare := range map[string]func(*world){
		"without routes":  func(*world) {},
		"not flushed":     announce,
		"in use":          func(w *world) { announce(w); w.flush() },
		"blocked":         func(w *world) { announce(w); w.flush(); w.planner.Block("a", errors.New("test")); w.flush() },
		"of a former run": func(w *world) { announce(w); w.flush(); w.start() },
	} {
		w := newWorld(t)
		prepare(w)
		view, _ := w.planner.View("a")
		w.planner.Remove("a")
		w.planner.Block("a", nil) // what blocked it is over
		w.flush()
		w.apply(w.planner.Forget("a"))
		for rule := range w.rules {
			if rule.Table == view.Config.Table || rule.From.Addr() == view.Config.Addresses[0] {
				t.Errorf("%s: the rule %v stays", what, rule)
			}
		}
		if left := w.sids(1); len(left) > 0 {
			t.Errorf("%s: the table still has %v", what, left)
		}
		if want := w.planner.Want(); len(want.Addresses) != 1 {
			t.Errorf("%s: the addresses are %v", what, want.Addresses)
		}
		w.planner.Learned(learned(1, route(1, sid, speaker.Attributes{}), client))
		if w.flush(); len(w.sids(1)) > 0 {
			t.Errorf("%s: a route of a removed path is taken", what)
		}

		first := w.planner.Add(view.Config)
		if len(first.Put.Addresses) != 2 || len(first.Put.Rules) != 2 {
			t.Errorf("%s: an added path begins with %v", what, first.Put)
		}
		w.apply(first)
		announce(w)
		w.flush()
		if got := w.sids(1)[client]; got != sid {
			t.Errorf("%s: the added path leads to %q", what, got)
		}
		if v, _ := w.planner.View("a"); !v.Up {
			t.Errorf("%s: the added path is down: %s", what, v.Reason)
		}
	}
}

func TestRoutesAreShownWithTheirRefusals(t *testing.T) {
	w := newWorld(t)
	foreign := route(9, "2001:db8:b1:1::", speaker.Attributes{})
	w.planner.Learned(learned(1, foreign, "2001:db8:c::/48"))
	w.planner.Learned(learned(1, route(1, "2001:db8:b1:1::", speaker.Attributes{}), "2001:db8::/32"))
	w.flush()
	var got []endpoint.RouteView
	for v := range w.planner.Covering("a", prefixes("2001:db8:c::7/128")[0]) {
		got = append(got, v)
	}
	if len(got) != 2 || got[0].Refusal != endpoint.Strange || got[0].InKernel || got[1].Refusal != endpoint.Taken || !got[1].InKernel {
		t.Errorf("the routes are %+v", got)
	}
	n := 0
	for range w.planner.Routes("a") {
		n++
	}
	if n != 2 {
		t.Errorf("%d routes are shown, want 2", n)
	}
}

package main_test

import (
	"fmt"
	"strings"
	"testing"

	"hikyaku/egress/api"
)

// TestTooManyRoutesWithoutASession: a transit announces more than it may to the border's own
// daemon. The agent leaves its routes out, and the daemon's session stays.
func TestTooManyRoutesWithoutASession(t *testing.T) {
	paths := func(t *testing.T) *lab { return newPathLab(t, "") }
	for _, test := range []struct {
		name string
		lab  func(*testing.T) *lab
		own  routing
	}{
		{"FRR by BMP", newMonitoredLab, &frr{bmp: true}},
		{"GoBGP by BMP", newMonitoredLab, &gobgp{}},
		{"FRR by ADD-PATH", paths, &frr{paths: true}},
		{"BIRD by ADD-PATH", paths, &bird{paths: true}},
		{"GoBGP by ADD-PATH", paths, &gobgp{paths: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := test.lab(t)
			const bound = "max_prefixes = 5\nmax_prefixes_action = \"teardown\"\nmax_prefixes_restart = \"2s\"\n"
			edit(t, l.borderConfig, "asn = 64601\n", "asn = 64601\n"+bound)
			l.startBorder()
			l.startServer()
			for n := range l.transits {
				l.command(n, "announce "+clientPrefix)
			}
			test.own.start(t, l.border, [2]int{110, 120})
			l.eventually("the client is reached over both", func() bool { return l.over() == "transit1 transit2 " })
			l.command(0, "bulk 6")
			l.eventually("transit1's routes are left out", func() bool { return l.borderSession("transit1").Ends.Local > 0 })
			l.eventually("the reason is shown", func() bool {
				s := l.borderSession("transit1")
				return s.Up || strings.Contains(s.Error, "it sends more than max_prefixes (5) routes")
			})
			l.eventually("they come back, and are left out again", func() bool { return l.borderSession("transit1").Ends.Local > 1 })
			l.configure("max_prefixes = 5", "max_prefixes = 50")
			l.eventually("a higher bound takes them", func() bool {
				s := l.borderSession("transit1")
				return s.Up && s.Routes.IPv6 == 7 && l.state(l.serverAPI, path(0)) == api.Up && l.over() == "transit1 transit2 "
			})
			for n := range l.transits {
				l.eventually("the client answers over "+path(n), func() bool { return l.ping(epe(n)) })
			}
			if s := l.borderSession("transit2"); s.Ends != (api.Ends{}) {
				t.Errorf("the routes of transit2 went, too: %+v", s)
			}
		})
	}
}

// TestReloadOfRoutersWithAddPath adds a router, changes its session, and removes it, while the
// agent's other sessions stay.
func TestReloadOfRoutersWithAddPath(t *testing.T) {
	t.Parallel()
	l := newPathLab(t, "")
	take, bring := without(t, l.borderConfig, "[[add_path]]")
	// Peers by ADD-PATH need some router. This one never answers.
	const spare = "[[add_path]]\nname = \"spare\"\naddress = \"2001:db8:6::77\"\n"
	take[1], bring[0] = spare, spare
	bring[1] = spare + bring[1]
	edit(t, l.borderConfig, take...)
	(&frr{paths: true}).start(t, l.border, [2]int{110, 120})
	l.startBorder()
	l.startServer()
	for n := range l.transits {
		l.command(n, "announce "+clientPrefix)
	}
	l.eventually("the reflector's session is up", func() bool { return l.session("rr") == "up" })
	before := l.sessions(l.borderAPI)
	reload := func(want string, pairs ...string) {
		t.Helper()
		edit(t, l.borderConfig, pairs...)
		changes, err := api.NewClient(l.borderAPI).Reload(t.Context())
		if err != nil || !strings.Contains(strings.Join(changes, "; "), want) {
			t.Fatalf("the reload gives %q, %v; want %q", changes, err, want)
		}
	}
	works := func(what string) {
		t.Helper()
		for n := range l.transits {
			l.eventually(fmt.Sprintf("%s: the client answers over %s", what, path(n)), func() bool {
				return l.state(l.serverAPI, path(n)) == api.Up && l.ping(epe(n))
			})
		}
	}
	gone := func() {
		t.Helper()
		for n := range l.transits {
			l.eventually(path(n)+" is down", func() bool { return l.state(l.serverAPI, path(n)) == api.Down })
		}
		if hasRoute(l.border, 10001, clientHost) || hasRoute(l.border, 10002, clientHost) {
			t.Error("the tables of the peers have routes of the removed router")
		}
		l.expectKept(l.borderAPI, before, "rr")
	}
	l.sessionSays(path(0), "no [[add_path]] router has connected yet")
	reload("router router is added", bring...)
	works("a router is added")
	first := l.borderSession("router").Since

	reload("router router is connected anew", "name = \"router\"\n", "name = \"router\"\nhold_time = \"30s\"\n")
	l.eventually("the router's session is a new one", func() bool {
		s := l.borderSession("router")
		return s.Up && s.Since.After(first)
	})
	works("another hold time")
	second := l.borderSession("router").Since

	reload("its session stays", "asn = 64602\n", "asn = 64602\nmax_prefixes = 1000\n")
	if s := l.borderSession("router"); !s.Since.Equal(second) || !s.Up {
		t.Errorf("a bound of a peer has ended the router's session: %+v", s)
	}

	edit(t, l.borderConfig, "hold_time = \"30s\"\n", "")
	reload("router router is removed", bring[1], bring[0])
	gone()
	if s := l.session("router"); s != "missing" {
		t.Errorf("the removed router's session is still listed: %s", s)
	}
	l.sessionSays(path(0), "no [[add_path]] router has connected yet")
	reload("router router is added", bring...)
	works("it is added once more")
	l.expectKept(l.borderAPI, before, "rr")
	l.borderAgent.stop()
	l.serverAgent.stop()
	expectNothing(t, "border", l.border)
}

package main_test

import (
	"fmt"
	"strings"
	"testing"

	"hikyaku/egress/api"
)

// many is how many routes the peer sends whose bound changes.
const many = 300

// bound has the border's configuration bound the routes of a transit. The former bound is old, 0
// for none.
func (l *lab) bound(n, old, now int, lines ...string) {
	l.t.Helper()
	line := func(bound int) string { return fmt.Sprintf("max_prefixes = %d\n", bound) }
	asn := fmt.Sprintf("asn = %d\n", 64601+n)
	if old == 0 {
		edit(l.t, l.borderConfig, asn, asn+line(now)+strings.Join(lines, ""))
		return
	}
	edit(l.t, l.borderConfig, line(old), line(now)+strings.Join(lines, ""))
}

// reloads has the border read its configuration by the API, and expects one change of it.
func (l *lab) reloads(want string) {
	l.t.Helper()
	changes, err := api.NewClient(l.borderAPI).Reload(l.t.Context())
	if err != nil || len(changes) != 1 || !strings.Contains(changes[0], want) {
		l.t.Errorf("the reload gives %q, %v, want %q", changes, err, want)
	}
}

// used counts the routes of a transit that the border uses, -1 where its agent does not answer.
func (l *lab) used(n int) int {
	p, err := api.NewClient(l.borderAPI).Path(l.t.Context(), path(n))
	if err != nil {
		return -1
	}
	return p.Routes.IPv6
}

// warned reports whether a problem of the border has a text.
func (l *lab) warned(text string) bool { return problem(l.borderAPI, text)() }

// boundChanges lowers and raises the bound of the second transit, which sends many routes and has a
// bound of 200. Its session goes on, and so do all others.
func (l *lab) boundChanges() {
	l.t.Helper()
	const n = 1
	l.eventually("the peer has as many routes as it may", func() bool {
		return l.used(n) == 200 && l.warned("announcements beyond max_prefixes (200) were refused")
	})
	// The peer in whose place this one has come may have had a session.
	before := l.borderSession(path(n))
	l.bound(n, 200, 1000)
	l.reloads("peer transit2 has other settings, its session stays")
	l.eventually("a higher bound lets all routes in", func() bool { return l.used(n) == many })
	if l.warned("max_prefixes") {
		l.t.Error("a problem with max_prefixes is left with room for all routes")
	}
	l.configure("max_prefixes = 1000\n", "max_prefixes = 100\n")
	l.eventually("too many routes are reported", func() bool {
		return l.warned(fmt.Sprintf("it sends %d routes, more than max_prefixes (100)", many))
	})
	if s := l.borderSession(path(n)); s.Routes.IPv6 != many || s.Ends != before.Ends || !s.Since.Equal(before.Since) {
		l.t.Errorf("a lower bound with \"refuse\": %+v", s)
	}
}

// TestMaxPrefixesOfARunningPeer changes the bound for peers of other people's make.
func TestMaxPrefixesOfARunningPeer(t *testing.T) {
	t.Parallel()
	withPeerDaemons(t, func(t *testing.T, d peerDaemon, program string) {
		l := newLab(t)
		l.bound(1, 0, 200)
		l.startBorder()
		l.startServer()
		l.command(0, "announce "+clientPrefix)
		l.replacePeer(d, program, many-1) // and the long one
		l.boundIsKept()
	})
	t.Run("GoBGP", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.bound(1, 0, 200)
		l.startBorder()
		l.startServer()
		l.command(0, "announce "+clientPrefix)
		l.command(1, fmt.Sprintf("bulk %d", many))
		l.boundIsKept()
	})
}

// boundIsKept is [lab.boundChanges], and then the end of the session by a lower bound.
func (l *lab) boundIsKept() {
	l.t.Helper()
	const n = 1
	l.eventually("the other peer has a route", func() bool { return l.used(0) == 1 })
	other := l.borderSession(path(0))
	l.boundChanges()
	l.bound(n, 100, 100, "max_prefixes_action = \"teardown\"\n")
	l.reloads("peer transit2 has other settings, its session ends: it sends more than max_prefixes (100) routes")
	l.eventually("the session ends", func() bool { return l.borderSession(path(n)).Ends.Local == 1 })
	l.eventually("its path is down", func() bool { return l.state(l.serverAPI, path(n)) == api.Down })
	l.sessionSays(path(n), "it sends more than max_prefixes (100) routes")
	l.configure("max_prefixes = 100\n", "max_prefixes = 1000\n")
	l.eventually("the session is back with all routes", func() bool { return l.session(path(n)) == "up" && l.used(n) == many })
	l.eventually("its path is up", func() bool { return l.state(l.serverAPI, path(n)) == api.Up })
	l.bound(n, 1000, 100, "max_prefixes_restart = \"1s\"\n")
	l.reloads("its session ends")
	l.eventually("it comes back and ends again", func() bool { return l.borderSession(path(n)).Ends.Local >= 3 })
	l.configure("max_prefixes = 100\n", "max_prefixes = 1000\n")
	l.eventually("the session is back once more", func() bool { return l.session(path(n)) == "up" && l.used(n) == many })
	if s := l.borderSession(path(0)); s.Ends != (api.Ends{}) || !s.Since.Equal(other.Since) {
		l.t.Errorf("the session with the other peer was %+v, and is %+v", other, s)
	}
}

// TestMaxPrefixesOfARunningRouter changes the bound for a peer whose session is the border's own
// daemon's. Neither its connection nor the other peer is concerned.
func TestMaxPrefixesOfARunningRouter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, router string
		lab          func(*testing.T) *lab
		own          routing
	}{
		{"FRR by BMP", station, newMonitoredLab, &frr{bmp: true}},
		{"GoBGP by BMP", station, newMonitoredLab, &gobgp{}},
		{"FRR by ADD-PATH", "router", func(t *testing.T) *lab { return newPathLab(t, "") }, &frr{paths: true}},
		{"BIRD by ADD-PATH", "router", func(t *testing.T) *lab { return newPathLab(t, "") }, &bird{paths: true}},
		{"GoBGP by ADD-PATH", "router", func(t *testing.T) *lab { return newPathLab(t, "") }, &gobgp{paths: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := test.lab(t)
			l.bound(1, 0, 200)
			l.startBorder()
			l.startServer()
			l.command(0, "announce "+clientPrefix)
			l.command(1, fmt.Sprintf("bulk %d", many))
			test.own.start(t, l.border, [2]int{110, 120})
			l.eventually("the other peer has a route", func() bool { return l.used(0) == 1 })
			other := l.borderSession(path(0))
			connected := l.router(test.router)
			l.boundChanges()
			if r := l.router(test.router); r.Ends != 0 || !r.Since.Equal(connected.Since) {
				t.Errorf("the router's connection was %+v and is %+v", connected, r)
			}
			l.bound(1, 100, 100, "max_prefixes_action = \"teardown\"\n")
			l.reloads("its session ends")
			l.eventually("the peer is left out", func() bool { return l.router(test.router).Peers[1].State == api.RouterPeerLeftOut })
			l.eventually("its path is down", func() bool { return l.state(l.serverAPI, path(1)) == api.Down })
			if s := l.borderSession(path(0)); s.Ends != (api.Ends{}) || !s.Since.Equal(other.Since) {
				t.Errorf("the session with the other peer was %+v and is %+v", other, s)
			}
			l.configure("max_prefixes = 100\n", "max_prefixes = 2000\n")
			l.eventually("all routes are back", func() bool { return l.session(path(1)) == "up" && l.used(1) == many })
			l.eventually("its path is up", func() bool { return l.state(l.serverAPI, path(1)) == api.Up })
			if r := l.router(test.router); r.Ends != 0 || !r.Since.Equal(connected.Since) || r.Peers[1].State != api.RouterPeerUp {
				t.Errorf("the router's connection was %+v and is at last %+v", connected, r)
			}
		})
	}
}

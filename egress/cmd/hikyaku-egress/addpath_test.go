package main_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"hikyaku/egress/api"
	"hikyaku/egress/netnstest"
)

// daemonAddr is the address that the border's own daemon waits for the agent on, agentAddr the
// agent's.
const (
	daemonAddr = "2001:db8:6::a"
	agentAddr  = "2001:db8:6::b"
)

// newPathLab is a lab whose border has its routes from a daemon on the same machine.
func newPathLab(t *testing.T, ofPeers string) *lab {
	l := newLab(t)
	for n := range l.transits {
		l.border.IP(fmt.Sprintf("addr add 2001:db8:a%d::3/64 dev t%[1]d nodad preferred_lft 0", n+1))
	}
	l.border.IP("addr add " + daemonAddr + "/128 dev lo")
	l.border.IP("addr add " + agentAddr + "/128 dev lo")
	l.configurePaths(ofPeers)
	return l
}

// configurePaths writes the border's configuration, with further lines for each peer, in which
// NUMBER stands for its number.
func (l *lab) configurePaths(ofPeers string) {
	text := fmt.Sprintf(borderTOML, l.borderAPI, filepath.Join(filepath.Dir(l.borderConfig), "border"))
	for n := range l.transits {
		name := fmt.Sprintf("name = \"transit%d\"\n", n+1)
		text = strings.Replace(text, name, name+"routes = \"add-path\"\n"+strings.ReplaceAll(ofPeers, "NUMBER", fmt.Sprint(n+1)), 1)
	}
	text += fmt.Sprintf("[[add_path]]\nname = \"router\"\naddress = %q\nlocal_address = %q\n", daemonAddr, agentAddr)
	write(l.t, l.borderConfig, text)
}

func (l *lab) sessionSays(name, want string) {
	l.t.Helper()
	netnstest.Eventually(l.t, name+": "+want, func() bool { return strings.Contains(l.session(name), want) })
}

// TestRoutesByAddPath: the agent has no session with any transit. Its routes are all that the
// border's own daemon has.
func TestRoutesByAddPath(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		own  routing
	}{{"FRR", &frr{paths: true}}, {"BIRD", &bird{paths: true}}, {"GoBGP", &gobgp{paths: true}}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newPathLab(t, "")
			l.startBorder()
			l.startServer()
			l.command(0, "announce "+clientPrefix+" 2001:db8:d::/48")
			l.command(1, "announce "+clientPrefix)
			l.sessionSays(path(0), "no [[add_path]] router has connected yet")
			test.own.start(t, l.border, [2]int{110, 120})
			for n, routes := range []int{2, 1} {
				l.eventually(fmt.Sprintf("%s has %d routes", path(n), routes), func() bool { return l.reached(n) == routes && l.state(l.serverAPI, path(n)) == api.Up })
				l.eventually("the client answers over "+path(n), func() bool { return l.ping(epe(n)) })
			}
			if prefs, path := l.attributes(); prefs != "110 120" || path != "64601 65601" {
				t.Errorf("the server has the routes with LOCAL_PREF %s and the first with AS path %s", prefs, path)
			}
			l.expectRouter(api.Router{Name: "router", Kind: api.RouterAddPath, Routes: api.Routes{IPv6: 3}}, 2, 1)
			if s := l.borderSession("router"); s.Routes != (api.Routes{IPv6: 3}) {
				t.Errorf("the router's session has the routes %+v", s.Routes)
			}
			l.command(0, "withdraw 2001:db8:d::/48")
			l.eventually("a route less", func() bool { return l.reached(0) == 1 })
			l.command(1, "withdraw "+clientPrefix)
			l.eventually("a path without routes is down", func() bool { return l.state(l.serverAPI, path(1)) == api.Down })
			l.sessionSays(path(1), "router router sends no route with next hop 2001:db8:a2::1")
			if p := l.router("router").Peers[1]; p.State != api.RouterPeerDown || p.Routes != (api.Routes{}) {
				t.Errorf("the router's peer without routes is %+v", p)
			}
			l.command(1, "announce "+clientPrefix)
			l.eventually("the client answers again", func() bool { return l.ping(epe(1)) })
		})
	}
}

// TestNextHopSelfTowardsTheAgent: such routes have no peer, until the configuration names the
// communities that mark them, and is loaded again.
func TestNextHopSelfTowardsTheAgent(t *testing.T) {
	t.Parallel()
	l := newPathLab(t, "")
	own := &frr{paths: true}
	own.start(t, l.border, [2]int{110, 120})
	agent := []string{"vtysh", "--vty_socket", own.dir, "-c", "configure terminal", "-c", "router bgp 64500",
		"-c", "address-family ipv6 unicast", "-c", "neighbor AGENT next-hop-self"}
	netnstest.Eventually(t, "bgpd answers", func() bool {
		return l.border.Command(t.Context(), agent[0], agent[1:]...).Run() == nil
	})
	l.startBorder()
	l.startServer()
	for n := range l.transits {
		l.command(n, "announce "+clientPrefix)
	}
	l.sessionSays("router", "up")
	for n := range l.transits {
		l.sessionSays(path(n), "it has routes with an own router as next hop ("+daemonAddr+"), which hides their peer")
	}
	l.eventually("the router's routes of no peer are counted", func() bool {
		r := l.router("router").Refused
		return len(r) == 1 && r[0].Reason == "no_peer" && r[0].Routes >= 2
	})
	l.configurePaths("add_path.communities = [\"64500:1:NUMBER\"]\n")
	l.border.Run(binary, "reload", "--config", l.borderConfig)
	for n := range l.transits {
		l.eventually("the client answers over "+path(n), func() bool { return l.ping(epe(n)) })
		l.expectTransit(epe(n), n)
	}
}

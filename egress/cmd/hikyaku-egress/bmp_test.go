package main_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hikyaku/egress/api"
	"hikyaku/egress/netnstest"
)

// gobgp is gobgpd as the border's own routing daemon. It puts nothing into the kernel.
type gobgp struct {
	ns *netnstest.NS
	// paths: it sends all paths to the agent (ADD-PATH).
	paths bool
}

func (g *gobgp) start(t *testing.T, ns *netnstest.NS, localPref [2]int) {
	gobgpd, err := exec.LookPath("gobgpd")
	if err != nil {
		t.Skipf("SKIPPED, borders with GoBGP are not tested: %v (Debian's package gobgpd)", err)
	}
	g.ns = ns
	var b strings.Builder
	listen := "port = -1"
	if g.paths {
		listen = fmt.Sprintf("port = 179\nlocal-address-list = [%q]", daemonAddr)
	}
	fmt.Fprintf(&b, "[global.config]\nas = 64500\nrouter-id = \"192.0.2.101\"\n%s\n", listen)
	fmt.Fprintf(&b, "[global.apply-policy.config]\nimport-policy-list = [\"preference\"]\ndefault-import-policy = \"accept-route\"\n")
	for n := range localPref {
		fmt.Fprintf(&b, "[[neighbors]]\n[neighbors.config]\nneighbor-address = \"2001:db8:a%d::1\"\npeer-as = %d\n", n+1, 64601+n)
		fmt.Fprintf(&b, "[neighbors.transport.config]\nlocal-address = \"2001:db8:a%d::3\"\n", n+1)
		fmt.Fprintf(&b, "[neighbors.timers.config]\nconnect-retry = 1\n")
		fmt.Fprintf(&b, "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"ipv6-unicast\"\n")
	}
	if g.paths {
		fmt.Fprintf(&b, "[[neighbors]]\n[neighbors.config]\nneighbor-address = %q\npeer-as = 64500\n", agentAddr)
		fmt.Fprintf(&b, "[neighbors.transport.config]\npassive-mode = true\n[[neighbors.afi-safis]]\n")
		fmt.Fprintf(&b, "[neighbors.afi-safis.config]\nafi-safi-name = \"ipv6-unicast\"\n[neighbors.afi-safis.add-paths.config]\nsend-max = 8\n")
	}
	fmt.Fprintf(&b, "[[bmp-servers]]\n[bmp-servers.config]\naddress = \"%s\"\nport = 11019\nroute-monitoring-policy = \"post-policy\"\n", station)
	fmt.Fprintf(&b, "[[policy-definitions]]\nname = \"preference\"\n")
	for n, preference := range localPref {
		fmt.Fprintf(&b, "[[policy-definitions.statements]]\nname = \"t%d\"\n", n+1)
		fmt.Fprintf(&b, "[policy-definitions.statements.conditions.match-neighbor-set]\nneighbor-set = \"t%d\"\n", n+1)
		fmt.Fprintf(&b, "[policy-definitions.statements.actions.bgp-actions]\nset-local-pref = %d\n", preference)
	}
	for n := range localPref {
		fmt.Fprintf(&b, "[[defined-sets.neighbor-sets]]\nneighbor-set-name = \"t%d\"\nneighbor-info-list = [\"2001:db8:a%[1]d::1\"]\n", n+1)
	}
	file := filepath.Join(t.TempDir(), "gobgpd.toml")
	write(t, file, b.String())
	ns.Start(gobgpd, "-f", file, "--api-hosts", "[::1]:50052", "--pprof-disable", "-p")
}

func (g *gobgp) prefer([2]int) {}

// shut ends the session with a transit.
func (g *gobgp) shut(n int) {
	g.ns.Run("gobgp", "-u", "::1", "-p", "50052", "neighbor", fmt.Sprintf("2001:db8:a%d::1", n+1), "shutdown")
}

// shut ends the session with a transit.
func (f *frr) shut(n int) {
	f.ns.Run("vtysh", "--vty_socket", f.dir, "-c", "configure terminal", "-c", "router bgp 64500",
		"-c", fmt.Sprintf("neighbor 2001:db8:a%d::1 shutdown", n+1))
}

// station is where the border's agent waits for BMP routers, of which one is on the same
// machine.
const station = "2001:db8:6::1"

// newMonitoredLab is a lab whose border has its routes from a daemon's reports.
func newMonitoredLab(t *testing.T) *lab {
	l := newLab(t)
	for n := range l.transits {
		l.border.IP(fmt.Sprintf("addr add 2001:db8:a%d::3/64 dev t%[1]d nodad preferred_lft 0", n+1))
	}
	text := strings.ReplaceAll(fmt.Sprintf(borderTOML, l.borderAPI, filepath.Join(t.TempDir(), "border")),
		"[[peer]]\n", "[[peer]]\nroutes = \"bmp\"\n")
	write(t, l.borderConfig, text+fmt.Sprintf("[bmp]\nlisten = [\"[%s]:11019\"]\nrouters = [%[1]q]\n", station))
	return l
}

// TestRoutesByBMP: the agent has no session with any transit. Its routes are those that the
// border's own daemon has after its import policy.
func TestRoutesByBMP(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		own  interface {
			routing
			shut(n int)
		}
		localPrefs string
	}{
		{"FRR", &frr{bmp: true}, "100 100"}, // it reports none (tried: 8.4)
		{"GoBGP", &gobgp{}, "110 120"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			own := test.own
			l := newMonitoredLab(t)
			l.startBorder()
			l.startServer()
			l.command(0, "announce "+clientPrefix+" 2001:db8:d::/48")
			l.command(1, "announce "+clientPrefix)
			says := func(n int, want string) {
				t.Helper()
				netnstest.Eventually(t, path(n)+": "+want, func() bool { return strings.Contains(l.session(path(n)), want) })
			}
			says(0, "no BMP router has connected yet")
			own.start(t, l.border, [2]int{110, 120})
			for n, routes := range []int{2, 1} {
				l.eventually(fmt.Sprintf("%s has %d routes", path(n), routes), func() bool { return l.reached(n) == routes && l.state(l.serverAPI, path(n)) == api.Up })
				l.eventually("the client answers over "+path(n), func() bool { return l.ping(epe(n)) })
			}
			if prefs, path := l.attributes(); prefs != test.localPrefs || path != "64601 65601" {
				t.Errorf("the server has the routes with LOCAL_PREF %s and the first with AS path %s", prefs, path)
			}
			l.expectRouter(api.Router{Name: station, Kind: api.RouterBMP, Routes: api.Routes{IPv6: 3}}, 2, 1)
			l.command(0, "withdraw 2001:db8:d::/48")
			l.eventually("a route less", func() bool { return l.reached(0) == 1 })
			own.shut(1)
			l.eventually("the second path is down", func() bool { return l.state(l.serverAPI, path(1)) == api.Down })
			says(1, "the session ended")
			l.eventually("the router's peer is down", func() bool {
				r := l.router(station)
				return len(r.Peers) == 2 && r.Peers[1].State == api.RouterPeerDown && r.Peers[1].Reason != "" && r.Routes.IPv6 == 1
			})
			if l.state(l.serverAPI, path(0)) != api.Up {
				t.Error("the first path is not up any more")
			}
		})
	}
}

// router is a router that hands on routes to the border, empty without one.
func (l *lab) router(name string) api.Router {
	routers, err := api.NewClient(l.borderAPI).Routers(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	for _, r := range routers {
		if r.Name == name {
			return r
		}
	}
	return api.Router{}
}

// expectRouter expects a router that is up, with these numbers of routes of its peers, in API,
// metrics and `show routers`.
func (l *lab) expectRouter(want api.Router, routes ...int) {
	l.t.Helper()
	r := l.router(want.Name)
	if !r.Up || r.Kind != want.Kind || r.Error != "" || r.Routes != want.Routes || len(r.Peers) != len(routes) {
		l.t.Fatalf("the router is %+v, want %+v", r, want)
	}
	metrics := l.border.Run("curl", "-s", "--unix-socket", l.borderAPI, "http://egress/metrics")
	metric := func(line string) {
		l.t.Helper()
		if !strings.Contains(metrics, "\nhikyaku_egress_router_"+line+"\n") {
			l.t.Errorf("the metrics lack %s", line)
		}
	}
	of := fmt.Sprintf("kind=%q,router=%q", want.Kind, want.Name)
	metric("up{" + of + "} 1")
	metric("ends_total{" + of + "} 0")
	metric(fmt.Sprintf("peers{%s,state=\"up\"} %d", of, len(routes)))
	metric(fmt.Sprintf("refused_routes{kind=%q,reason=\"martian\",router=%q} 0", want.Kind, want.Name))
	shown := l.border.Run(binary, "show", "--socket", l.borderAPI, "routers")
	for n, want := range routes {
		p := r.Peers[n]
		if p.Name != path(n) || p.State != api.RouterPeerUp || p.Routes != (api.Routes{IPv6: want}) || p.Reason != "" {
			l.t.Errorf("the router's peer is %+v, want %s with %d routes", p, path(n), want)
		}
		metric(fmt.Sprintf("routes{family=\"ipv6\",kind=%q,peer=%q,router=%q} %d", r.Kind, path(n), r.Name, want))
		if !strings.Contains(shown, path(n)) {
			l.t.Errorf("`show routers` lacks %s:\n%s", path(n), shown)
		}
	}
}

// session is why the border's session with a peer is down, or "up".
func (l *lab) session(name string) string {
	sessions, err := api.NewClient(l.borderAPI).Sessions(context.Background())
	if err != nil {
		return err.Error()
	}
	for _, s := range sessions {
		if s.Name == name {
			if s.Up {
				return "up"
			}
			return s.Error
		}
	}
	return "missing"
}

// attributes are the LOCAL_PREF of the paths to the client at the server, and the AS path of
// the first.
func (l *lab) attributes() (localPrefs, asPath string) {
	found, err := api.NewClient(l.serverAPI).Lookup(context.Background(), clientHost)
	if err != nil {
		return err.Error(), ""
	}
	var words []string
	for _, p := range found.Paths {
		words = append(words, fmt.Sprint(p.LocalPref))
	}
	return strings.Join(words, " "), strings.Trim(fmt.Sprint(found.Paths[0].ASPath), "[]")
}

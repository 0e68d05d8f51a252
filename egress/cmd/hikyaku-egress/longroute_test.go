package main_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hikyaku/egress/api"
)

// peerDaemon is an egress peer of other people's make. It announces ordinary routes and one
// whose attributes nearly fill a message: they leave no room for those of the border.
type peerDaemon struct {
	name, binary string
	config       func(ordinary []string) string
	args         func(dir, config string) []string
}

const longRoute = "2001:db8:e00::/48"

var peerDaemons = []peerDaemon{
	{"BIRD", "bird", birdConfig, func(dir, config string) []string {
		return []string{"-f", "-c", config, "-s", filepath.Join(dir, "bird.ctl"), "-P", filepath.Join(dir, "bird.pid")}
	}},
	{"FRR", "/usr/lib/frr/bgpd", frrConfig, func(dir, config string) []string {
		return []string{"-Z", "-S", "-l", "2001:db8:a2::1", "-p", "179", "-f", config, "-P", "0",
			"-i", filepath.Join(dir, "pid"), "--vty_socket", dir, "--log", "stdout"}
	}},
}

// birdConfig gives the long route 500 communities. BIRD sends no route whose attributes nearly
// fill a message: the border adds the rest.
func birdConfig(ordinary []string) string {
	var b strings.Builder
	b.WriteString("log stderr all;\nrouter id 198.51.100.2;\nprotocol device {}\nfilter near_full {\n  if net = " + longRoute + " then {\n")
	for n := range 500 {
		fmt.Fprintf(&b, "    bgp_community.add((64602, %d));\n", n)
	}
	b.WriteString("  }\n  accept;\n}\nprotocol static {\n  ipv6;\n")
	for _, prefix := range append(ordinary, longRoute) {
		fmt.Fprintf(&b, "  route %s unreachable;\n", prefix)
	}
	b.WriteString("}\nprotocol bgp border {\n  local 2001:db8:a2::1 as 64602;\n  neighbor 2001:db8:a2::2 as 64500;\n" +
		"  passive;\n  ipv6 { import none; export filter near_full; };\n}\n")
	return b.String()
}

// frrConfig gives the long route 981 AS numbers, as many in each step as a line may have.
func frrConfig(ordinary []string) string {
	var b strings.Builder
	b.WriteString("ipv6 prefix-list long permit " + longRoute + "\n")
	for n := range 20 {
		fmt.Fprintf(&b, "route-map long permit %d\n match ipv6 address prefix-list long\n set as-path prepend%s\n on-match next\n",
			n+1, strings.Repeat(" 1", 49))
	}
	b.WriteString("route-map long permit 100\nrouter bgp 64602\n bgp router-id 198.51.100.2\n no bgp ebgp-requires-policy\n" +
		" no bgp default ipv4-unicast\n no bgp network import-check\n neighbor 2001:db8:a2::2 remote-as 64500\n" +
		" neighbor 2001:db8:a2::2 passive\n neighbor 2001:db8:a2::2 advertisement-interval 0\n address-family ipv6 unicast\n")
	for _, prefix := range append(ordinary, longRoute) {
		fmt.Fprintf(&b, "  network %s\n", prefix)
	}
	b.WriteString("  neighbor 2001:db8:a2::2 activate\n  neighbor 2001:db8:a2::2 route-map long out\n exit-address-family\n")
	return b.String()
}

// withPeerDaemons tests something with each daemon that is installed, side by side.
func withPeerDaemons(t *testing.T, test func(t *testing.T, d peerDaemon, program string)) {
	for _, d := range peerDaemons {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(d.binary)
			if err != nil {
				t.Skipf("SKIPPED, %s is not tested with %s: %v", t.Name(), d.name, err)
			}
			test(t, d, program)
		})
	}
}

// replacePeer has a daemon announce the long route and `ordinary` others in place of the second
// transit's router.
func (l *lab) replacePeer(d peerDaemon, program string, ordinary int) {
	l.t.Helper()
	l.transits[1].cmd.Process.Kill()
	l.transits[1].cmd.Wait() // its port is free then
	var prefixes []string
	for n := range ordinary {
		prefixes = append(prefixes, fmt.Sprintf("2001:db8:%x::/48", 0xf000+n))
	}
	dir := l.t.TempDir()
	file := filepath.Join(dir, "peer.conf")
	write(l.t, file, d.config(prefixes))
	l.transits[1].ns.Start(program, d.args(dir, file)...)
}

// TestLongRouteOfARealPeer has real routers announce a route without room among ordinary
// ones: those are used, and whatever else there is stays as it was.
func TestLongRouteOfARealPeer(t *testing.T) {
	t.Parallel()
	withPeerDaemons(t, testLongRoute)
}

func testLongRoute(t *testing.T, d peerDaemon, program string) {
	l := newLab(t)
	// The border adds communities of its own, as many as BIRD does.
	var own []string
	for n := range 490 {
		own = append(own, fmt.Sprintf("%q", fmt.Sprintf("64500:%d", n)))
	}
	const peer = "asn = 64602\n"
	l.borderConfig = l.with(l.borderConfig, peer, peer+"communities = ["+strings.Join(own, ", ")+"]\n")
	l.run()
	before := l.path(0)
	const ordinary = 300
	l.replacePeer(d, program, ordinary)
	l.eventually("the server has the ordinary routes", func() bool { return l.reached(1) == ordinary })
	l.eventually("the long one is withheld", func() bool { return l.withheld().Routes == 1 })
	l.command(0, "announce 2001:db8:e77::/48")
	l.eventually("the other peer goes on", func() bool { return l.reached(0) == before.Routes.IPv6+1 })
	if after := l.path(0); after.State != api.Up || after.Since != before.Since {
		t.Errorf("the other path was %+v, and is %+v", before, after)
	}
	sessions, err := api.NewClient(l.borderAPI).Sessions(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sessions {
		if !s.Up || s.Name != path(1) && s.Ends != (api.Ends{}) {
			t.Errorf("session %+v", s)
		}
	}
	if w := l.withheld(); w != (api.Withheld{Routes: 1, Total: 1}) {
		t.Errorf("withheld %+v", w)
	}
	shown := string(l.border.Run(binary, "paths", "--config", l.borderConfig))
	if want := "problem: peer transit2: 1 of its routes are not announced to rr, since their path attributes leave no room"; !strings.Contains(shown, want) {
		t.Errorf("the border's paths do not show %q:\n%s", want, shown)
	}
}

// path is a path at the server.
func (l *lab) path(n int) api.Path {
	l.t.Helper()
	p, err := api.NewClient(l.serverAPI).Path(context.Background(), path(n))
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

// withheld counts the routes that the border does not announce to the reflector.
func (l *lab) withheld() (counted api.Withheld) {
	sessions, err := api.NewClient(l.borderAPI).Sessions(context.Background())
	if err != nil {
		return counted
	}
	for _, s := range sessions {
		if s.Kind == "reflector" {
			counted = s.Withheld
		}
	}
	return counted
}

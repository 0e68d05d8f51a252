package speaker

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hikyaku/egress/netnstest"
	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/srv6"
)

// insideVariable is set where the test binary already runs in the namespace.
const insideVariable = "HIKYAKU_INSIDE_NETNS"

// inNamespace runs the calling test once more, inside a namespace of its own, and returns
// true there. Daemons of other people then meet no address and no port of this machine.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		return true
	}
	netnstest.RequireRoot(t)
	ns := netnstest.New(t, "bgp")
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	defer cancel()
	cmd := ns.Command(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "_test.go:") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if err != nil {
		t.Fatalf("inside the namespace: %v\n%s", err, out)
	}
	return false
}

func TestMain(m *testing.M) {
	netnstest.AllowParallel()
	os.Exit(m.Run())
}

// daemon is a route reflector of other people's make.
type daemon struct {
	name   string
	binary string
	config func(at netip.AddrPort, clients []netip.Addr) string
	args   func(at netip.AddrPort, dir, config string) []string
}

var gobgpd = daemon{
	name: "gobgpd", binary: "gobgpd",
	config: func(at netip.AddrPort, clients []netip.Addr) string {
		var b strings.Builder
		fmt.Fprintf(&b, "[global.config]\nas = %d\nrouter-id = %q\nport = %d\nlocal-address-list = [%q]\n", ownAS, at.Addr(), at.Port(), at.Addr())
		for _, c := range clients {
			fmt.Fprintf(&b, "[[neighbors]]\n[neighbors.config]\nneighbor-address = %q\npeer-as = %d\n", c, ownAS)
			fmt.Fprintf(&b, "[neighbors.transport.config]\npassive-mode = true\n[neighbors.graceful-restart.config]\nenabled = true\nrestart-time = 30\n")
			fmt.Fprintf(&b, "[neighbors.route-reflector.config]\nroute-reflector-client = true\nroute-reflector-cluster-id = %q\n", at.Addr())
			for _, f := range []string{"l3vpn-ipv6-unicast", "l3vpn-ipv4-unicast"} {
				fmt.Fprintf(&b, "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = %q\n", f)
				fmt.Fprintf(&b, "[neighbors.afi-safis.mp-graceful-restart.config]\nenabled = true\n")
			}
		}
		return b.String()
	},
	args: func(at netip.AddrPort, _, config string) []string {
		return []string{"-f", config, "--api-hosts", net.JoinHostPort(at.Addr().String(), "50051"), "--pprof-disable", "-p"}
	},
}

var frr = daemon{
	name: "frr bgpd", binary: "/usr/lib/frr/bgpd",
	config: func(at netip.AddrPort, clients []netip.Addr) string {
		var b strings.Builder
		fmt.Fprintf(&b, "router bgp %d\n bgp router-id %s\n no bgp default ipv4-unicast\n bgp cluster-id %s\n", ownAS, at.Addr(), at.Addr())
		for _, c := range clients {
			fmt.Fprintf(&b, " neighbor %s remote-as %d\n neighbor %s passive\n neighbor %s update-source %s\n neighbor %s advertisement-interval 0\n", c, ownAS, c, c, at.Addr(), c)
		}
		for _, family := range []string{"ipv6 vpn", "ipv4 vpn"} {
			fmt.Fprintf(&b, " address-family %s\n", family)
			for _, c := range clients {
				fmt.Fprintf(&b, "  neighbor %s activate\n  neighbor %s route-reflector-client\n", c, c)
			}
			fmt.Fprintf(&b, " exit-address-family\n")
		}
		return b.String()
	},
	args: func(at netip.AddrPort, dir, config string) []string {
		// Without zebra no next hop is tracked: SIDs say where packets go.
		return []string{
			"-Z", "-S", "-l", at.Addr().String(), "-p", fmt.Sprint(at.Port()), "-f", config, "-P", "0",
			"-i", filepath.Join(dir, "pid"), "--vty_socket", dir, "--log", "stdout",
		}
	},
}

var bird = daemon{
	name: "bird", binary: "bird",
	config: func(at netip.AddrPort, clients []netip.Addr) string {
		var b strings.Builder
		fmt.Fprintf(&b, "router id %s;\nlog stderr all;\nvpn6 table vpn6s;\nvpn4 table vpn4s;\nprotocol device {}\n", at.Addr())
		for i, c := range clients {
			fmt.Fprintf(&b, "protocol bgp c%d {\n local %s port %d as %d;\n neighbor %s as %d;\n passive on;\n", i, at.Addr(), at.Port(), ownAS, c, ownAS)
			fmt.Fprintf(&b, " rr client;\n rr cluster id %s;\n multihop;\n", at.Addr())
			for _, f := range []string{"vpn6", "vpn4"} {
				fmt.Fprintf(&b, " %s mpls { table %ss; import all; export all; };\n", f, f)
			}
			fmt.Fprintf(&b, "}\n")
		}
		return b.String()
	},
	args: func(_ netip.AddrPort, dir, config string) []string {
		return []string{"-f", "-c", config, "-s", filepath.Join(dir, "ctl")}
	},
}

// start runs the daemon until the test ends, or skips the test without it.
func (d daemon) start(t *testing.T, clients ...netip.Addr) netip.AddrPort {
	t.Helper()
	address := loopback()
	at := netip.AddrPortFrom(address, freePort(t, address))
	d.startAt(t, at, clients...)
	return at
}

// startAt is start on an address, and returns a function that kills the daemon.
func (d daemon) startAt(t *testing.T, at netip.AddrPort, clients ...netip.Addr) (kill func()) {
	t.Helper()
	binary, err := exec.LookPath(d.binary)
	if err != nil {
		t.Skipf("SKIPPED, sessions with %s are not tested: %v", d.name, err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config, []byte(d.config(at, clients)), 0o644); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary, d.args(at, dir, config)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", d.name, err)
	}
	kill = sync.OnceFunc(func() {
		cancel()
		_ = cmd.Wait() // killed on purpose
	})
	t.Cleanup(func() {
		kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", d.name, log.String())
		}
	})
	return kill
}

func TestRestartsOfGoBGPDaemon(t *testing.T) { testReflectorRestarts(t, gobgpd) }

func TestRestartsOfFRR(t *testing.T) { testReflectorRestarts(t, frr) }

func TestRestartsOfBIRD(t *testing.T) { testReflectorRestarts(t, bird) }

// testReflectorRestarts kills the daemon and starts it again, some times. One of two borders
// comes back to it when the server has had its End-of-RIB for long. No path may be lost.
func testReflectorRestarts(t *testing.T, d daemon) {
	if !inNamespace(t) {
		return
	}
	serverAt, soonAt, lateAt, address := loopback(), loopback(), loopback(), loopback()
	at := netip.AddrPortFrom(address, freePort(t, address))
	kill := d.startAt(t, at, serverAt, soonAt, lateAt)
	neighbor := func(local netip.Addr, retry time.Duration) Neighbor {
		return Neighbor{
			Name: "rr", Address: at.Addr(), Port: at.Port(), AS: ownAS, LocalAddress: local,
			Families: []Family{VPNv6, VPNv4}, ConnectRetry: retry,
		}
	}
	const settle = 200 * time.Millisecond
	server := startSpeaker(t, serverAt, Config{StaleTime: time.Minute, SettleTime: settle})
	soon, late := startSpeaker(t, soonAt, Config{}), startSpeaker(t, lateAt, Config{})
	prefixes := bgptest.Prefixes6(1, 50)
	for _, border := range []*testSpeaker{soon, late} {
		id, route := testRoute(t, border.at.Addr(), "transit", srv6.EndDT6, 64601)
		route.Attributes.NextHop = netip.MustParseAddr("2001:db8::1")
		if err := border.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: route, Prefixes: prefixes}); err != nil {
			t.Fatal(err)
		}
		go discardEvents(border)
	}
	server.connect(neighbor(serverAt, 200*time.Millisecond))
	soon.connect(neighbor(soonAt, 200*time.Millisecond))
	late.connect(neighbor(lateAt, 5*time.Second))
	settled := func() {
		t.Helper()
		for seen := map[srv6.RouteDistinguisher]bool{}; len(seen) < 2; {
			switch e := server.next().(type) {
			case VPNSettled:
				seen[e.RD] = true
			case VPNWithdrawn:
				t.Fatalf("%s: %d routes of %s are withdrawn", d.name, len(e.Prefixes), e.RD)
			}
		}
	}
	settled()
	for range 3 {
		kill()
		skipTo[PeerDown](server, nil)
		kill = d.startAt(t, at, serverAt, soonAt, lateAt)
		settled()
	}
}

func discardEvents(s *testSpeaker) {
	for range s.Events() {
	}
}

func TestReflectedByGoBGPDaemon(t *testing.T) { testReflector(t, gobgpd) }

func TestReflectedByFRR(t *testing.T) { testReflector(t, frr) }

func TestLatencyThroughGoBGPDaemon(t *testing.T) { testDaemonLatency(t, gobgpd) }

func TestLatencyThroughFRR(t *testing.T) { testDaemonLatency(t, frr) }

func testDaemonLatency(t *testing.T, d daemon) {
	if !inNamespace(t) {
		return
	}
	borderAt, serverAt := loopback(), loopback()
	measureLatency(t, d.start(t, borderAt, serverAt), borderAt, serverAt, d.name+" as reflector")
}

// testReflector sends VPN routes through the daemon and back, and lets the border
// restart with its routes kept.
func testReflector(t *testing.T, d daemon) {
	if !inNamespace(t) {
		return
	}
	borderAt, serverAt := loopback(), loopback()
	at := d.start(t, borderAt, serverAt)
	neighbor := func(local netip.Addr) Neighbor {
		return Neighbor{Name: "rr", Address: at.Addr(), Port: at.Port(), AS: ownAS, LocalAddress: local, Families: []Family{VPNv6, VPNv4}}
	}
	// again is the border after its restart; until then it has no neighbour.
	server, border, again := startSpeaker(t, serverAt, Config{}), startSpeaker(t, borderAt, Config{}), startSpeaker(t, borderAt, Config{})
	restartable := neighbor(borderAt)
	restartable.GracefulRestart = 60 * time.Second
	server.connect(neighbor(serverAt))
	border.connect(restartable)
	ready(border, "rr", VPNv6)
	skipTo[PeerUp](server, nil)
	for range 2 {
		if e := skipTo[EndOfRIB](server, nil); e.Implied {
			t.Errorf("%s sent no End-of-RIB for %s", d.name, e.Family)
		}
	}
	six, four := bgptest.Prefixes6(1, 300), []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	nextHop := netip.MustParseAddr("2001:db8::1")
	for peer, prefixes := range map[string][]netip.Prefix{"six": six, "four": four} {
		id, route := testRoute(t, borderAt, peer, srv6.EndDT6, 64601, 64700)
		route.Attributes.NextHop = nextHop
		if err := border.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: route, Prefixes: prefixes}); err != nil {
			t.Fatal(err)
		}
		got := collect(server, len(prefixes))
		service := got.Route.Service
		service.Behavior = route.Service.Behavior // FRR 8.4 rewrites it
		if got.RD != id.RD || !got.Route.HasTarget(id.RT) || service != route.Service || got.Route.Attributes.ASPath.Origin() != 64700 {
			t.Errorf("%s: %s came back as RD %s, %+v", d.name, peer, got.RD, got.Route)
		}
	}
	restartBorder(t, border, again, server, restartable, six[:200], 100+len(four))
}

// restartBorder breaks the border off as a crash does and starts it anew with fewer routes.
// The server must lose the rest, and nothing in between.
func restartBorder(t *testing.T, border, again, server *testSpeaker, neighbor Neighbor, keep []netip.Prefix, lost int) {
	t.Helper()
	border.CloseForRestart()
	server.quiet(time.Second)
	id, route := testRoute(t, border.at.Addr(), "six", srv6.EndDT6, 64601, 64700)
	route.Attributes.NextHop = netip.MustParseAddr("2001:db8::1")
	if err := again.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: route, Prefixes: keep}); err != nil {
		t.Fatal(err)
	}
	neighbor.Restarting = true
	if err := again.AddNeighbor(neighbor); err != nil {
		t.Fatal(err)
	}
	skipTo[PeerUp](again, nil)
	server.quiet(time.Second)
	again.AnnouncedAll()
	for lost > 0 {
		gone := expect[VPNWithdrawn](server)
		for _, p := range gone.Prefixes {
			if slices.Contains(keep, p) {
				t.Fatalf("%s was withdrawn although the border announced it again", p)
			}
		}
		lost -= len(gone.Prefixes)
	}
	server.quiet(300 * time.Millisecond)
}

package main_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hikyaku/egress/api"
	"hikyaku/egress/netnstest"
)

// routing is a border's own routing daemon. It has sessions of its own with both transits,
// gives them LOCAL_PREF, and puts the best paths into the main table.
type routing interface {
	// start starts it on a border whose addresses towards the transits end with ::3.
	start(t *testing.T, ns *netnstest.NS, localPref [2]int)
	// prefer changes LOCAL_PREF while it runs.
	prefer(localPref [2]int)
}

// frr is FRR's zebra and bgpd.
type frr struct {
	ns  *netnstest.NS
	dir string
	// bmp: it reports its sessions to the station.
	bmp bool
	// paths: it sends all paths to the agent (ADD-PATH).
	paths bool
}

func (f *frr) start(t *testing.T, ns *netnstest.NS, localPref [2]int) {
	const programs = "/usr/lib/frr/"
	for _, program := range []string{programs + "zebra", programs + "bgpd", "vtysh"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED, borders with FRR are not tested: %v (Debian's package frr)", err)
		}
	}
	// The package makes zebra's user, and zebra starts as no other.
	owner, err := user.Lookup("frr")
	if err != nil {
		t.Fatalf("FRR is installed in part: %v; run `dpkg-reconfigure frr`", err)
	}
	f.ns = ns
	if f.dir, err = os.MkdirTemp("", "hikyaku-frr-"); err != nil { // t.TempDir is closed to zebra's user
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(f.dir) })
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	if err := os.Chown(f.dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "router bgp 64500\n bgp router-id 192.0.2.101\n no bgp default ipv4-unicast\n no bgp ebgp-requires-policy\n")
	for n := range localPref {
		fmt.Fprintf(&b, " neighbor 2001:db8:a%d::1 remote-as %d\n neighbor 2001:db8:a%[1]d::1 update-source 2001:db8:a%[1]d::3\n", n+1, 64601+n)
		fmt.Fprintf(&b, " neighbor 2001:db8:a%d::1 timers connect 1\n", n+1)
	}
	fmt.Fprintf(&b, " address-family ipv6 unicast\n")
	for n := range localPref {
		fmt.Fprintf(&b, "  neighbor 2001:db8:a%d::1 activate\n  neighbor 2001:db8:a%[1]d::1 route-map T%[1]d in\n", n+1)
	}
	fmt.Fprintf(&b, " exit-address-family\n")
	args := []string{"-S", "-p", "0"}
	if f.bmp {
		fmt.Fprintf(&b, " bmp targets hikyaku\n  bmp connect %s port 11019 min-retry 100 max-retry 1000\n", station)
		fmt.Fprintf(&b, "  bmp monitor ipv6 unicast post-policy\n exit\n")
		args = append(args, "-M", "bmp")
	}
	if f.paths {
		fmt.Fprintf(&b, " neighbor AGENT peer-group\n neighbor AGENT remote-as 64500\n bgp listen range %s/128 peer-group AGENT\n", agentAddr)
		fmt.Fprintf(&b, " address-family ipv6 unicast\n  neighbor AGENT activate\n  neighbor AGENT addpath-tx-all-paths\n exit-address-family\n")
		args = []string{"-S", "-p", "179", "-l", daemonAddr}
	}
	for n, preference := range localPref {
		fmt.Fprintf(&b, "route-map T%d permit 10\n set local-preference %d\n", n+1, preference)
		if f.paths {
			fmt.Fprintf(&b, " set large-community 64500:1:%d additive\n", n+1)
		}
	}
	write(t, filepath.Join(f.dir, "zebra.conf"), "")
	write(t, filepath.Join(f.dir, "bgpd.conf"), b.String())
	if err := os.Chmod(filepath.Join(f.dir, "zebra.conf"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(f.dir, "zserv.api")
	run := func(program string, args ...string) {
		args = append(args, "-P", "0", "--log", "stdout", "-z", socket, "--vty_socket", f.dir,
			"-f", filepath.Join(f.dir, program+".conf"), "-i", filepath.Join(f.dir, program+".pid"))
		ns.Start(programs+program, args...)
	}
	run("zebra")
	netnstest.Eventually(t, "zebra has started", func() bool { _, err := os.Stat(socket); return err == nil })
	run("bgpd", args...)
}

func (f *frr) prefer(localPref [2]int) {
	for n, preference := range localPref {
		f.ns.Run("vtysh", "--vty_socket", f.dir, "-c", "configure terminal",
			"-c", fmt.Sprintf("route-map T%d permit 10", n+1), "-c", fmt.Sprintf("set local-preference %d", preference))
	}
}

// bird is BIRD 2.
type bird struct {
	t   *testing.T
	ns  *netnstest.NS
	dir string
	// paths: it sends all paths to the agent (ADD-PATH).
	paths bool
}

func (b *bird) start(t *testing.T, ns *netnstest.NS, localPref [2]int) {
	if _, err := exec.LookPath("bird"); err != nil {
		t.Skipf("SKIPPED, borders with BIRD are not tested: %v (Debian's package bird2)", err)
	}
	b.t, b.ns, b.dir = t, ns, t.TempDir()
	b.configure(localPref)
	ns.Start("bird", "-f", "-c", filepath.Join(b.dir, "bird.conf"), "-s", filepath.Join(b.dir, "bird.ctl"))
}

func (b *bird) configure(localPref [2]int) {
	text := "router id 192.0.2.101;\nprotocol device {}\nprotocol kernel { ipv6 { export where source = RTS_BGP; }; }\n"
	for n, preference := range localPref {
		text += fmt.Sprintf("protocol bgp t%d { local 2001:db8:a%[1]d::3 as 64500; neighbor 2001:db8:a%[1]d::1 as %d;\n"+
			" connect retry time 1; connect delay time 1; ipv6 { import filter { bgp_local_pref = %d; accept; }; export none; }; }\n",
			n+1, 64601+n, preference)
	}
	if b.paths {
		text += fmt.Sprintf("protocol bgp agent { local %s as 64500; neighbor %s as 64500; passive; multihop;\n"+
			" ipv6 { add paths tx; import none; export where source = RTS_BGP; }; }\n", daemonAddr, agentAddr)
	}
	write(b.t, filepath.Join(b.dir, "bird.conf"), text)
}

func (b *bird) prefer(localPref [2]int) {
	b.configure(localPref)
	b.ns.Run("birdc", "-s", filepath.Join(b.dir, "bird.ctl"), "configure")
}

var clientHost = netip.MustParsePrefix(clientAddr + "/128")

// plain is what the server's agent says of plain packets to the client.
func (l *lab) plain() string {
	found, err := api.NewClient(l.serverAPI).Lookup(context.Background(), clientHost)
	if err != nil {
		return err.Error()
	}
	if found.Best == "" {
		return "unknown: " + found.BestUnknown
	}
	return found.Best
}

// TestPlainFollowsTheBordersOwnRouting: transit1 has the longer AS path and the higher
// LOCAL_PREF, which no EPE route shows.
func TestPlainFollowsTheBordersOwnRouting(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]routing{"FRR": &frr{}, "BIRD": &bird{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			for n := range l.transits {
				l.border.IP(fmt.Sprintf("addr add 2001:db8:a%d::3/64 dev t%[1]d nodad preferred_lft 0", n+1))
			}
			l.border.IP("-6 route del " + clientPrefix)
			own.start(t, l.border, [2]int{110, 100})
			l.startBorder()
			l.startServer()
			l.command(0, "prepend "+clientPrefix)
			l.command(1, "announce "+clientPrefix)
			says := func(why, want string) {
				t.Helper()
				netnstest.Eventually(t, why+": "+want, func() bool { return l.plain() == want })
			}
			says("by the higher LOCAL_PREF", path(0))
			own.prefer([2]int{110, 120})
			says("after a change of LOCAL_PREF", path(1))
			l.command(1, "withdraw "+clientPrefix)
			says("after a withdrawal", path(0))

			neighbour := strings.Fields(l.transits[1].ns.IP("-6 -o addr show dev border scope link"))[3]
			linkLocal, _, _ := strings.Cut(neighbour, "/")
			l.command(1, "announce "+clientPrefix)
			l.border.IP("-6 route replace " + clientPrefix + " via " + linkLocal + " dev t2 metric 1")
			says("by a route of the operator's, to the peer's link-local address", path(1))
			l.border.IP("-6 route replace " + clientPrefix + " via 2001:db8:6::2 metric 1")
			says("to a router that is no peer", "unknown: border 192.0.2.1 sends them by none of its paths, or parts of the prefix by something else")
			l.border.IP("-6 route del " + clientPrefix + " metric 1")
			says("without it", path(1))

			l.server.IP("-6 route replace default via fe80::1 dev eth0")
			says("by a router that is no border", "unknown: the next hop of the server's main table, fe80::1 on eth0, is no address of a border; `plain.border` can name one")
			neighbour = strings.Fields(l.border.IP("-6 -o addr show dev srv scope link"))[3]
			linkLocal, _, _ = strings.Cut(neighbour, "/")
			l.server.IP("-6 route replace default via " + linkLocal + " dev eth0")
			says("by the border's link-local address", path(1))
		})
	}
}

package main_test

import (
	"fmt"
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

// reflectorSays has the reflector, which is gobgpd, prefer a next hop for the client's prefix.
func (l *lab) reflectorSays(words ...string) {
	l.t.Helper()
	args := append([]string{"-u", "::1", "-p", "50051", "global", "rib"}, words...)
	l.eventually("gobgpd takes "+strings.Join(words, " "), func() bool {
		return l.reflector.Command(l.t.Context(), "gobgp", args...).Run() == nil
	})
}

// TestPlainByTheReflectorsBestPath: the server's main table leads to a router that is no border,
// and the reflector knows where its packets leave.
func TestPlainByTheReflectorsBestPath(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for n := range l.transits {
		number := fmt.Sprintf("number = %d\n", n+1)
		edit(t, l.serverConfig, number, number+fmt.Sprintf("next_hops = [\"2001:db8:a%d::1\"]\n", n+1))
	}
	l.run()
	says := func(why, want string) {
		t.Helper()
		l.eventually(why+": "+want, func() bool { return strings.HasPrefix(l.plain(), want) })
	}
	l.server.IP("-6 route add " + clientPrefix + " via fe80::1 dev eth0") // the reflector stays within reach
	const unseen = "unknown: the next hop of the server's main table, fe80::1 on eth0, is no address of a border; `plain.border` can name one"
	says("without best paths", unseen)
	edit(t, l.serverConfig, "[srv6]\n", "[plain]\nreflectors = [\"rr\"]\n[srv6]\n")
	changes, err := api.NewClient(l.serverAPI).Reload(t.Context())
	if err != nil || len(changes) != 2 || changes[1] != "reflector rr is connected anew" {
		t.Fatalf("the reload gives %q, %v", changes, err)
	}
	says("the reflector has none", unseen+"; reflector rr has no best path for the client")
	for n := range l.transits {
		l.reflectorSays("add", "-a", "ipv6", clientPrefix, "nexthop", fmt.Sprintf("2001:db8:a%d::1", n+1))
		says("by the peer's address", path(n))
	}
	l.reflectorSays("add", "-a", "ipv6", clientPrefix, "nexthop", "2001:db8:5::1")
	says("with next-hop-self, by the border's main table", path(0))
	l.reflectorSays("add", "-a", "ipv6", clientPrefix, "nexthop", "2001:db8:ffff::1")
	says("a next hop of nobody", unseen+"; the next hop of reflector rr's best path, 2001:db8:ffff::1, is no address of a border")
	l.reflectorSays("del", "-a", "ipv6", clientPrefix)
	says("none any more", unseen+"; reflector rr has no best path for the client")
	for n := range l.transits {
		if !l.ping(epe(n)) {
			t.Errorf("%s does not carry packets beside the best paths", path(n))
		}
	}
}

// The addresses of a further reflector, which gets its routes from the lab's own, and of the border
// on the way.
const (
	furtherAddr   = "2001:db8:7::2"
	furtherBorder = "2001:db8:7::1"
	labReflector  = "2001:db8:6::2"
)

// bestPathReflectors start daemons that reflect best paths to the server, as the guide has them.
var bestPathReflectors = map[string]func(*testing.T, *netnstest.NS){
	"FRR": func(t *testing.T, ns *netnstest.NS) {
		const programs = "/usr/lib/frr/"
		if _, err := exec.LookPath(programs + "bgpd"); err != nil {
			t.Skipf("SKIPPED, FRR as reflector is not tested: %v (Debian's package frr)", err)
		}
		// The package makes zebra's user, and zebra starts as no other.
		owner, err := user.Lookup("frr")
		if err != nil {
			t.Fatalf("FRR is installed in part: %v; run `dpkg-reconfigure frr`", err)
		}
		dir, err := os.MkdirTemp("", "hikyaku-frr-") // t.TempDir is closed to zebra's user
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		text := "router bgp 64500\n bgp router-id 192.0.2.54\n bgp cluster-id 192.0.2.54\n no bgp default ipv4-unicast\n" +
			" neighbor SERVERS peer-group\n neighbor SERVERS remote-as 64500\n bgp listen range " + plainAddr + "/128 peer-group SERVERS\n" +
			" neighbor " + labReflector + " remote-as 64500\n neighbor " + labReflector + " passive\n" +
			" address-family ipv6 vpn\n  neighbor SERVERS activate\n  neighbor SERVERS route-reflector-client\n exit-address-family\n" +
			" address-family ipv6 unicast\n  neighbor SERVERS activate\n  neighbor SERVERS route-reflector-client\n" +
			"  neighbor " + labReflector + " activate\n exit-address-family\n"
		write(t, filepath.Join(dir, "bgpd.conf"), text)
		write(t, filepath.Join(dir, "zebra.conf"), "")
		if err := os.Chmod(filepath.Join(dir, "zebra.conf"), 0o644); err != nil {
			t.Fatal(err)
		}
		socket := filepath.Join(dir, "zserv.api")
		run := func(program string, more ...string) {
			ns.Start(programs+program, append([]string{"-P", "0", "--log", "stdout", "-z", socket, "--vty_socket", dir,
				"-f", filepath.Join(dir, program+".conf"), "-i", filepath.Join(dir, program+".pid")}, more...)...)
		}
		run("zebra")
		netnstest.Eventually(t, "zebra has started", func() bool { _, err := os.Stat(socket); return err == nil })
		run("bgpd", "-S", "-n", "-p", "179", "-l", furtherAddr)
	},
	"BIRD": func(t *testing.T, ns *netnstest.NS) {
		if _, err := exec.LookPath("bird"); err != nil {
			t.Skipf("SKIPPED, BIRD as reflector is not tested: %v (Debian's package bird2)", err)
		}
		dir := t.TempDir()
		write(t, filepath.Join(dir, "bird.conf"), "router id 192.0.2.54;\nprotocol device {}\n"+
			"protocol static { ipv6; route 2001:db8::/32 via \"eth0\"; }\nvpn6 table reflected6;\n"+
			"protocol bgp lab { local "+furtherAddr+" as 64500; neighbor "+labReflector+" as 64500; passive; multihop;\n"+
			" ipv6 { import all; export none; }; }\n"+
			"protocol bgp server { local "+furtherAddr+" as 64500; neighbor "+plainAddr+" as 64500; passive; multihop; rr client; rr cluster id 192.0.2.54;\n"+
			" vpn6 mpls { table reflected6; import all; export all; };\n ipv6 { import none; export where source = RTS_BGP; }; }\n")
		ns.Start("bird", "-f", "-c", filepath.Join(dir, "bird.conf"), "-s", filepath.Join(dir, "bird.ctl"))
	},
}

// TestPlainByTheBestPathOfAnotherReflector has FRR and BIRD reflect the best paths.
func TestPlainByTheBestPathOfAnotherReflector(t *testing.T) {
	for name, start := range bestPathReflectors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := netnstest.New(t, "rr2")
			l := newLab(t)
			for n := range l.transits {
				number := fmt.Sprintf("number = %d\n", n+1)
				edit(t, l.serverConfig, number, number+fmt.Sprintf("next_hops = [\"2001:db8:a%d::1\"]\n", n+1))
			}
			netnstest.Veth(t, netnstest.End{NS: l.border, Device: "rr2", Addresses: netnstest.Addresses(furtherBorder + "/64")},
				netnstest.End{NS: ns, Device: "eth0", Addresses: netnstest.Addresses(furtherAddr + "/64")}, 0)
			ns.IP("-6 route add 2001:db8::/32 via " + furtherBorder)
			edit(t, l.serverConfig, "[[reflector]]\n", fmt.Sprintf("[[reflector]]\nname = \"rr2\"\naddress = %q\nlocal_address = %q\n[[reflector]]\n", furtherAddr, plainAddr),
				"[srv6]\n", "[plain]\nreflectors = [\"rr2\"]\n[srv6]\n")
			start(t, ns)
			l.run()
			l.server.IP("-6 route add " + clientPrefix + " via fe80::1 dev eth0") // the reflectors stay within reach
			l.eventually("gobgpd takes the other reflector", func() bool {
				return l.reflector.Command(t.Context(), "gobgp", "-u", "::1", "-p", "50051", "neighbor", "add", furtherAddr, "as", "64500", "family", "ipv6-unicast").Run() == nil
			})
			says := func(why, want string) {
				t.Helper()
				l.eventually(why+": "+want, func() bool { return strings.HasPrefix(l.plain(), want) })
			}
			const unseen = "unknown: the next hop of the server's main table, fe80::1 on eth0, is no address of a border; `plain.border` can name one"
			says("the reflector has none", unseen+"; reflector rr2 has no best path for the client")
			for n := range l.transits {
				l.reflectorSays("add", "-a", "ipv6", clientPrefix, "nexthop", fmt.Sprintf("2001:db8:a%d::1", n+1))
				says("by the peer's address", path(n))
			}
			l.reflectorSays("add", "-a", "ipv6", clientPrefix, "nexthop", "2001:db8:5::1")
			says("with next-hop-self, by the border's main table", path(0))
			l.reflectorSays("del", "-a", "ipv6", clientPrefix)
			says("none any more", unseen+"; reflector rr2 has no best path for the client")
			for n := range l.transits {
				if !l.ping(epe(n)) {
					t.Errorf("%s does not carry packets beside the best paths", path(n))
				}
			}
		})
	}
}

package main_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hikyaku/egress/netnstest"
)

// ipv4Lab is the network of the guide with IPv4 everywhere but in the AS's tunnels. The border
// has no BGP daemon of its own: its plain way to clients is a static route by transit B.
type ipv4Lab struct {
	*guideLab
	border, server *daemonProcess
}

const ipv4Border = `role = "border"
asn = 64500
router_id = "192.0.2.1"
[bgp]
connect_retry = "1s"
restart_time = "20s"
stale_time = "20s"
[srv6]
locator = "2001:db8:b1::/48"
interfaces = ["eth0"]
vrf = %q
[import]
martians = true
[[reflector]]
name = "rr1"
address = "2001:db8::53"
local_address = "2001:db8::b1"
[[port]]
name = "a"
number = 9
interface = "eth1"
capacity = "1Gbps"
kind = "peering"
[[peer]]
name = "transit-a"
number = 1
address = "10.0.1.1"
asn = 64496
families = ["ipv4"]
[[peer]]
name = "transit-b"
number = 2
address = "10.0.2.1"
asn = 64497
families = ["ipv4"]
`

const ipv4Server = `role = "server"
asn = 64500
router_id = "192.0.2.11"
bgp.connect_retry = "1s"
[srv6]
interface = "eth0"
tunnel_source = "2001:db8:5::1"
locators = ["2001:db8:b1::/48"]
[[reflector]]
name = "rr1"
address = "2001:db8::53"
local_address = "2001:db8:5::1"
[[path]]
name = "transit-a"
number = 1
border = "192.0.2.1"
peer = 1
addresses = ["10.5.0.201"]
[[path]]
name = "transit-b"
number = 2
border = "192.0.2.1"
peer = 2
addresses = ["10.5.0.202"]
`

// transitIPv4 is BIRD with a session over IPv4.
func transitIPv4(l *guideLab, n int) {
	m := l.transits[n]
	m.write("/etc/bird.conf", fmt.Sprintf(`router id 198.51.100.%[1]d;
protocol device { }
protocol static clients { ipv4; route 198.51.100.0/24 unreachable; }
protocol bgp border { local 10.0.%[1]d.1 as %[2]d; neighbor 10.0.%[1]d.2 as 64500; passive; ipv4 { import all; export all; }; }
`, n+1, 64496+n))
	startBIRD(m)
}

// newIPv4Lab builds the network with these bytes for packets inside of the AS.
func newIPv4Lab(t *testing.T, reflector func(*guideLab, guide), inside int) *ipv4Lab {
	l := newGuideLab(t, guideDaemons{transit: func(*guideLab, int) {}})
	for _, m := range []*machine{l.border, l.core, l.transits[0], l.transits[1]} {
		m.ns.Sysctl("net.ipv4.ip_forward", "1")
	}
	for _, line := range []string{"link set dev br0 mtu %d", "link set dev b mtu %d", "link set dev s mtu %d"} {
		l.core.ns.IP(fmt.Sprintf(line, inside))
	}
	for m, lines := range map[*machine][]string{
		l.border: {fmt.Sprintf("link set dev eth0 mtu %d", inside), "addr add 10.0.0.2/24 dev eth0", "addr add 10.0.1.2/24 dev eth1",
			"addr add 10.0.2.2/24 dev eth2", "route add 10.5.0.0/24 via 10.0.0.1", "route add 198.51.100.0/24 via 10.0.2.1"},
		l.core:        {"addr add 10.0.0.1/24 dev br0", "addr add 10.5.0.254/24 dev s", "route add default via 10.0.0.2"},
		l.server:      {fmt.Sprintf("link set dev eth0 mtu %d", inside), "addr add 10.5.0.1/24 dev eth0", "route add default via 10.5.0.254"},
		l.client:      {"addr add 198.51.100.7/32 dev lo", "addr add 10.9.1.2/24 dev t0", "addr add 10.9.2.2/24 dev t1", "route add default via 10.9.2.1"},
		l.transits[0]: {"addr add 10.0.1.1/24 dev eth0", "addr add 10.9.1.1/24 dev eth1", "route add 198.51.100.0/24 via 10.9.1.2", "route add 10.5.0.0/24 via 10.0.1.2"},
		l.transits[1]: {"addr add 10.0.2.1/24 dev eth0", "addr add 10.9.2.1/24 dev eth1", "route add 198.51.100.0/24 via 10.9.2.2", "route add 10.5.0.0/24 via 10.0.2.2"},
	} {
		for _, line := range lines {
			m.ns.IP(line)
		}
	}
	for n, m := range l.transits {
		m.run("nft 'add rule inet count f ip saddr 10.5.0.0/24 counter'; nft delete rule inet count f handle 2")
		transitIPv4(l, n)
	}
	l.core.run("ip -6 route add 2001:db8:b1::/48 via 2001:db8::b1")
	reflector(l, readGuide(t))
	return &ipv4Lab{guideLab: l}
}

func (l *ipv4Lab) startBorder(vrf string) {
	l.guideLab.border.write("/etc/border.toml", fmt.Sprintf(ipv4Border, vrf))
	l.border = l.guideLab.border.start("hikyaku-egress border --config /etc/border.toml")
}

// skipWithout ends the test where agents lack a capability of BGP that the reflector needs.
func (l *ipv4Lab) skipWithout(capability string) {
	l.t.Helper()
	var session string
	l.eventually("the border has its session with the reflector", func() bool {
		out, err := l.reflector.command("birdc -s /run/bird/bird.ctl show protocols all border1").Output()
		session = string(out)
		return err == nil && strings.Contains(session, "Established")
	})
	if _, neighbour, _ := strings.Cut(session, "Neighbor capabilities"); !strings.Contains(neighbour, capability) {
		l.t.Skipf("SKIPPED: the agents do not announce %q, without which BIRD reflects no IPv4 route", capability)
	}
}

func (l *ipv4Lab) startServer() {
	l.guideLab.server.write("/etc/server.toml", ipv4Server)
	l.server = l.guideLab.server.start("hikyaku-egress server --config /etc/server.toml")
	l.serve(ipv4Page, "10.5.0.1:8000", 0)
	for n := range l.transits {
		l.eventually("the server has both paths", func() bool {
			return strings.Contains(l.guideLab.server.run(fmt.Sprintf("ip route get 198.51.100.7 mark %#x || true", 0x680001+n)), "encap seg6")
		})
		l.serve(ipv4Page, fmt.Sprintf("10.5.0.1:%d", 8001+n), 0x680001+n)
		l.serve(ipv4Page, fmt.Sprintf("10.5.0.%d:8000", 201+n), 0)
	}
}

// ipv4Page fills some thousand packets.
var ipv4Page = strings.Repeat("All of a page over one egress route. ", 100_000)

// serve answers HTTP on an address of the server, with packets that have a mark.
func (l *ipv4Lab) serve(text, address string, mark int) {
	l.t.Helper()
	var listener net.Listener
	var err error
	l.guideLab.server.ns.Do(func() {
		if listener, err = net.Listen("tcp4", address); err != nil || mark == 0 {
			return
		}
		raw, _ := listener.(*net.TCPListener).SyscallConn()
		// Accepted sockets inherit it.
		raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark) })
	})
	if err != nil {
		l.t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })}
	l.t.Cleanup(func() { server.Close() })
	go server.Serve(listener)
}

// load is a client of IPv4 that loads the page from an address. It returns whether all of it
// came, and by which transits.
func (l *ipv4Lab) load(address string) (whole bool, by [2]bool) {
	l.t.Helper()
	before := l.through()
	cmd := l.client.command("curl -sS --interface 198.51.100.7 --max-time 10 http://" + address + "/")
	var wrong strings.Builder
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	after := l.through()
	if err != nil || string(out) != ipv4Page {
		l.t.Logf("from %s come %d bytes, %v, over transits A and B %v to %v packets\n%s", address, len(out), err, before, after, wrong.String())
	}
	for n := range by {
		by[n] = after[n]-before[n] > 20 // large ones, by GSO
	}
	return err == nil && string(out) == ipv4Page, by
}

func (l *ipv4Lab) expect(what, address string, transit int) {
	l.t.Helper()
	var want [2]bool
	want[transit] = true
	if whole, by := l.load(address); !whole || by != want {
		l.t.Errorf("%s: from %s the page came whole: %v, by transits A and B: %v; want %v", what, address, whole, by, want)
	}
}

func TestIPv4ClientsThroughFRR(t *testing.T) { testIPv4(t, reflectorFRR, 1600) }

func TestIPv4ClientsThroughGoBGP(t *testing.T) { testIPv4(t, reflectorGoBGP, 1500) }

// BIRD reflects IPv4 with an IPv6 next hop only to neighbours that announce that they take it
// (RFC 8950).
func TestIPv4ClientsThroughBIRD(t *testing.T) {
	testIPv4(t, func(l *guideLab, g guide) {
		reflectorBIRD(l, g)
		l.needsExtendedNextHop = true
	}, 1600)
}

// testIPv4 loads pages over IPv4 by marks and by EPE addresses, through each transit. The border
// has no VRF devices.
func testIPv4(t *testing.T, reflector func(*guideLab, guide), inside int) {
	t.Parallel()
	l := newIPv4Lab(t, reflector, inside)
	l.startBorder("off")
	if l.needsExtendedNextHop {
		l.skipWithout("Extended next hop")
	}
	l.startServer()
	for n, name := range []string{"transit A", "transit B"} {
		l.expect("by the mark of "+name, fmt.Sprintf("10.5.0.1:%d", 8001+n), n)
		l.expect("by the EPE address of "+name, fmt.Sprintf("10.5.0.%d:8000", 201+n), n)
	}
	l.expect("plain", "10.5.0.1:8000", 1)

	// The reflector passes the large communities on that hold the state of transit A's port.
	l.eventually("the server has the state of the port", func() bool {
		text := l.guideLab.server.run("hikyaku-egress paths --json")
		return strings.Count(text, `"admitted"`) == 1 && strings.Contains(text, `"kind": "peering"`) && !strings.Contains(text, "RFC 8092")
	})

	// A crash, and the next start: pages go on in between.
	border := l.guideLab.border
	border.kill(l.border)
	l.expect("after a crash of the border's agent", "10.5.0.201:8000", 0)
	l.startBorder("off")
	l.eventually("the new agent answers", func() bool { return border.try("hikyaku-egress paths | grep -q ' up '") == nil })
	l.expect("after the next start", "10.5.0.201:8000", 0)

	// Transit A has no route to the clients any more: its packets leave by nobody else.
	l.transits[0].run("birdc -s /run/bird/bird.ctl disable clients")
	l.eventually("nothing is sent from the address of a withdrawn path", func() bool {
		whole, by := l.load("10.5.0.201:8000")
		if by[1] {
			t.Error("packets of transit A left by transit B")
		}
		return !whole
	})
	l.expect("plain, without transit A", "10.5.0.1:8000", 1)
	l.expect("marked for a path without route", "10.5.0.1:8001", 1)
	l.transits[0].run("birdc -s /run/bird/bird.ctl enable clients")
	l.eventually("the path is back", func() bool { whole, by := l.load("10.5.0.201:8000"); return whole && by == [2]bool{true, false} })

	// A lost session closes the SID for IPv4, too.
	l.transits[0].run("birdc -s /run/bird/bird.ctl disable border")
	l.eventually("the SID for IPv4 is closed", func() bool {
		return strings.Contains(border.run("ip -6 route get 2001:db8:b1:8001:: 2>&1 || true"), "Invalid argument")
	})
	stopped := border.try("kill -TERM $(cat " + l.border.pidFile + ")")
	l.border.cmd.Wait()
	for _, command := range []string{"ip -6 rule", "ip -4 rule", "ip nexthop", "ip -6 route show table all", "ip -4 route show table all", "ip link"} {
		for line := range strings.Lines(border.run(command)) {
			if stopped != nil || strings.Contains(line, "proto 200") || strings.Contains(line, "hkpair") || strings.Contains(line, "hikyaku") {
				t.Errorf("a stop (%v) leaves in `%s`: %s", stopped, command, line)
			}
		}
	}
}

// rulesRemoved lets IPv4 packets out of the pair of devices meet the main table until the rules
// are back.
const rulesRemoved = "ip -4 rule flush protocol 200"

// TestIPv4SurvivesRemovals removes what takes IPv4 to a peer, as other programs do.
func TestIPv4SurvivesRemovals(t *testing.T) {
	t.Parallel()
	l := newIPv4Lab(t, reflectorFRR, 1600)
	l.startBorder("auto")
	l.startServer()
	border, server := l.guideLab.border, l.guideLab.server
	for _, value := range []string{"1", "2"} {
		server.run("sysctl -w net.ipv4.conf.eth0.rp_filter=" + value)
		l.core.run("ip neigh flush dev s")
		if whole, _ := l.load("10.5.0.201:8000"); whole {
			t.Errorf("a reverse path filter of %s does no harm, and `check` calls it an error", value)
		}
		if out, err := server.command("hikyaku-egress check --config /etc/server.toml").Output(); err == nil || !strings.Contains(string(out), "[reverse-path-filter]") {
			t.Errorf("with a filter of %s `check` ends with %v, and finds\n%s", value, err, out)
		}
	}
	server.run("sysctl -w net.ipv4.conf.eth0.rp_filter=0; hikyaku-egress check --config /etc/server.toml")
	border.run("hikyaku-egress check --config /etc/border.toml")
	for _, removal := range []string{
		rulesRemoved, "ip -6 rule flush protocol 200", "ip nexthop flush protocol 200", "ip -4 route del 198.51.100.0/24 table 10001 proto 200",
		"ip link set hkpair2711 down", "ip -6 route del 2001:db8:b1:8001::/128 proto 200 table main",
	} {
		border.run(removal)
		if removal == "ip link set hkpair2711 down" {
			border.run("ip link set hkpair2711 up")
		}
		netnstest.Eventually(t, "after `"+removal+"` the page comes by transit A", func() bool {
			whole, by := l.load("10.5.0.201:8000")
			if by[1] && removal != rulesRemoved {
				t.Errorf("after `%s` packets of transit A left by transit B", removal)
			}
			return whole
		})
	}
	// The guide's commands remove the state that a killed agent leaves.
	border.kill(l.border)
	script, _, _ := strings.Cut(readGuide(t).sample("Take it out again", "sh", "ip -6 rule flush"), "ip -6 addr del")
	border.run(script)
	for _, command := range []string{"ip -6 rule", "ip -4 rule", "ip nexthop", "ip -6 route show table all", "ip -4 route show table all", "ip link"} {
		for line := range strings.Lines(border.run(command)) {
			if strings.Contains(line, "proto 200") || strings.Contains(line, "hkpair") {
				t.Errorf("the guide's last commands leave in `%s`: %s", command, line)
			}
		}
	}
}

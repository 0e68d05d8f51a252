package main_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/netnstest"
)

// lab is an AS with two egress peers, as in the paper's figure 7, smaller:
//
//	transit1 ─┐                 ┌─ server (EPE addresses 2001:db8:5::a1 and ::a2)
//	   │      ├─ border ────────┤
//	client    │                 └─ reflector
//	   │      │
//	transit2 ─┘
//
// The client's plain way is by transit1.
type lab struct {
	t                                                *testing.T
	client, border, server, reflector                *netnstest.NS
	transits                                         [2]*router
	borderAgent, serverAgent                         *process
	borderConfig, serverConfig, borderAPI, serverAPI string
}

const (
	clientPrefix = "2001:db8:c::/48"
	clientAddr   = "2001:db8:c::1"
	plainAddr    = "2001:db8:5::10"
)

// epe is the server's address of path n, counted from 0.
func epe(n int) string { return fmt.Sprintf("2001:db8:5::a%d", n+1) }

// path is the name of path n at the server, and of peer n at the border.
func path(n int) string { return fmt.Sprintf("transit%d", n+1) }

// newLab builds the network and starts its daemons, but not the agents.
func newLab(t *testing.T) *lab {
	gobgpd, err := exec.LookPath("gobgpd")
	if err != nil {
		t.Skipf("SKIPPED, agents are not tested end to end: %v (Debian's package gobgpd)", err)
	}
	l := &lab{
		t: t, client: netnstest.New(t, "client"), border: netnstest.New(t, "border"),
		server: netnstest.New(t, "server"), reflector: netnstest.New(t, "rr"),
	}
	dir := t.TempDir()
	l.wire()
	l.startEcho()
	l.startReflector(gobgpd, dir)
	for n := range l.transits {
		l.startTransit(n)
	}
	l.borderConfig, l.borderAPI = filepath.Join(dir, "border.toml"), filepath.Join(dir, "b.sock")
	l.serverConfig, l.serverAPI = filepath.Join(dir, "server.toml"), filepath.Join(dir, "s.sock")
	write(t, l.borderConfig, fmt.Sprintf(borderTOML, l.borderAPI, filepath.Join(dir, "border")))
	write(t, l.serverConfig, fmt.Sprintf(serverTOML, l.serverAPI, filepath.Join(dir, "server")))
	return l
}

func (l *lab) wire() {
	end := func(ns *netnstest.NS, device string, addresses ...string) netnstest.End {
		return netnstest.End{NS: ns, Device: device, Addresses: netnstest.Addresses(addresses...)}
	}
	forwarding := func(ns *netnstest.NS) { ns.Sysctl("net.ipv6.conf.all.forwarding", "1") }
	forwarding(l.border)
	netnstest.Veth(l.t, end(l.border, "srv", "2001:db8:5::1/64"), end(l.server, "eth0", plainAddr+"/64"), 1600)
	netnstest.Veth(l.t, end(l.border, "rr", "2001:db8:6::1/64"), end(l.reflector, "eth0", "2001:db8:6::2/64"), 0)
	l.server.IP("-6 route add default via 2001:db8:5::1")
	l.reflector.IP("-6 route add default via 2001:db8:6::1")
	l.client.IP("addr add " + clientAddr + "/128 dev lo")
	for n := range l.transits {
		ns := netnstest.New(l.t, path(n))
		forwarding(ns)
		l.transits[n] = &router{ns: ns}
		up, down := fmt.Sprintf("t%d", n+1), fmt.Sprintf("2001:db8:a%d", n+1)
		access := fmt.Sprintf("2001:db8:e%d", n+1)
		netnstest.Veth(l.t, end(l.border, up, down+"::2/64"), end(ns, "border", down+"::1/64"), 0)
		netnstest.Veth(l.t, end(l.client, up, access+"::2/64"), end(ns, "client", access+"::1/64"), 0)
		ns.IP("-6 route add " + clientPrefix + " via " + access + "::2")
		ns.IP("-6 route add 2001:db8:5::/64 via " + down + "::2")
	}
	l.client.IP("-6 route add default via 2001:db8:e1::1")
	l.border.IP("-6 route add " + clientPrefix + " via 2001:db8:a1::1")
	// Foreign state, which must survive everything.
	l.border.IP("-6 route add 2001:db8:f0::/48 via 2001:db8:a2::1 table 10001 proto 99")
	l.server.IP("-6 route add 2001:db8:f0::/48 via 2001:db8:5::1 table 10001 proto 99")
	l.server.IP("-6 rule add from 2001:db8:f1::/48 lookup 10001 priority 9999")
}

func (l *lab) startReflector(gobgpd, dir string) {
	file := filepath.Join(dir, "gobgpd.toml")
	write(l.t, file, reflectorConfig("2001:db8:6::2", "2001:db8:6::1", plainAddr))
	l.reflector.Start(gobgpd, "-f", file, "--api-hosts", "[::1]:50051", "--pprof-disable", "-p")
}

// reflectorConfig is gobgpd's, at an address, for the sessions that its clients open.
func reflectorConfig(address string, clients ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[global.config]\nas = 64500\nrouter-id = \"192.0.2.53\"\nport = 179\nlocal-address-list = [%q]\n", address)
	for _, client := range clients {
		fmt.Fprintf(&b, "[[neighbors]]\n[neighbors.config]\nneighbor-address = %q\npeer-as = 64500\n", client)
		fmt.Fprintf(&b, "[neighbors.transport.config]\npassive-mode = true\n[neighbors.graceful-restart.config]\nenabled = true\nrestart-time = 30\n")
		fmt.Fprintf(&b, "[neighbors.route-reflector.config]\nroute-reflector-client = true\nroute-reflector-cluster-id = \"192.0.2.53\"\n")
		for _, family := range []string{"l3vpn-ipv6-unicast", "l3vpn-ipv4-unicast", "ipv6-unicast"} {
			fmt.Fprintf(&b, "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = %q\n", family)
			fmt.Fprintf(&b, "[neighbors.afi-safis.mp-graceful-restart.config]\nenabled = true\n")
		}
	}
	return b.String()
}

const borderTOML = `
role = "border"
asn = 64500
router_id = "192.0.2.1"
api.socket = %q
state.dir = %q
[bgp]
connect_retry = "1s"
hold_time = "9s"
stale_time = "20s"
restart_time = "20s"
[srv6]
locator = "2001:db8:b1::/48"
interfaces = ["srv"]
[import]
martians = true
[[reflector]]
name = "rr"
address = "2001:db8:6::2"
local_address = "2001:db8:6::1"
[[peer]]
name = "transit1"
number = 1
address = "2001:db8:a1::1"
asn = 64601
[[peer]]
name = "transit2"
number = 2
address = "2001:db8:a2::1"
asn = 64602
`

const serverTOML = `
role = "server"
asn = 64500
router_id = "192.0.2.11"
api.socket = %q
state.dir = %q
[bgp]
connect_retry = "1s"
hold_time = "9s"
stale_time = "20s"
[srv6]
interface = "eth0"
tunnel_source = "2001:db8:5::10"
locators = ["2001:db8:b1::/48"]
[[reflector]]
name = "rr"
address = "2001:db8:6::2"
local_address = "2001:db8:5::10"
[[path]]
name = "transit1"
number = 1
border = "192.0.2.1"
peer = 1
addresses = ["2001:db8:5::a1"]
[[path]]
name = "transit2"
number = 2
border = "192.0.2.1"
peer = 2
addresses = ["2001:db8:5::a2"]
`

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// router is a transit's.
type router struct {
	ns  *netnstest.NS
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func (l *lab) startTransit(n int) {
	l.t.Helper()
	r := l.transits[n]
	near := fmt.Sprintf("2001:db8:a%d", n+1)
	r.cmd = r.ns.Command(context.Background(), os.Args[0], transitArgument, strconv.Itoa(64601+n),
		fmt.Sprintf("198.51.100.%d", n+1), near+"::1", near+"::2", "64500", near+"::3")
	r.cmd.Stderr = os.Stderr
	in, err := r.cmd.StdinPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	r.in, r.out = in, bufio.NewReader(out)
	if err := r.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	cmd := r.cmd
	l.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

// command has a transit's router do a command and returns when that began.
func (l *lab) command(n int, command string) time.Time {
	l.t.Helper()
	r := l.transits[n]
	if _, err := fmt.Fprintln(r.in, command); err != nil {
		l.t.Fatalf("command to transit %d: %s: %v", n+1, command, err)
	}
	line, err := r.out.ReadString('\n')
	if err != nil {
		l.t.Fatalf("command to transit %d: %s: %v", n+1, command, err)
	}
	nanoseconds, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		l.t.Fatal(err)
	}
	return time.Unix(0, nanoseconds)
}

func (l *lab) startBorder() {
	l.t.Helper()
	l.borderAgent = start(l.t, l.border, "border", binary, "border", "--config", l.borderConfig)
}

func (l *lab) startServer() {
	l.t.Helper()
	l.serverAgent = start(l.t, l.server, "server", binary, "server", "--config", l.serverConfig)
}

func (l *lab) eventually(what string, cond func() bool) {
	l.t.Helper()
	netnstest.Eventually(l.t, what, cond)
}

// state returns a path's state at an agent, or "" where it does not answer.
func (l *lab) state(socket, name string) api.PathState {
	p, err := api.NewClient(socket).Path(context.Background(), name)
	if err != nil {
		return ""
	}
	return p.State
}

// reached counts the prefixes that a path reaches at the server, -1 where its agent
// does not answer.
func (l *lab) reached(n int) int {
	p, err := api.NewClient(l.serverAPI).Path(context.Background(), path(n))
	if err != nil {
		return -1
	}
	return p.Routes.IPv6
}

// hasRoute reports whether a namespace has our route for a prefix in a table.
func hasRoute(ns *netnstest.NS, table uint32, prefix netip.Prefix) bool {
	return strings.Contains(ns.IP(fmt.Sprintf("-6 route show table %d proto 200 %s", table, prefix)), prefix.String())
}

// running starts both agents and waits until the client is reached over both paths.
func running(t *testing.T) *lab {
	l := newLab(t)
	l.run()
	return l
}

// run is the part of running that has a lab already.
func (l *lab) run() {
	l.t.Helper()
	l.startBorder()
	l.startServer()
	for n := range l.transits {
		l.command(n, "announce "+clientPrefix)
		l.eventually(path(n)+" is up", func() bool { return l.state(l.serverAPI, path(n)) == api.Up })
		l.eventually("the client answers over "+path(n), func() bool { return l.ping(epe(n)) })
	}
}

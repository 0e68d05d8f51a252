package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/netnstest"
)

// unprivileged is the user that agents run as in tests of privileges.
const unprivileged = "65534"

// TestPrivilegesOfTheUnit runs both agents with what the systemd unit gives
// them, as a user that is nobody.
func TestPrivilegesOfTheUnit(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("../../../conf/hikyaku-egress@.service")
	if err != nil {
		t.Fatal(err)
	}
	ambient := regexp.MustCompile(`(?m)^AmbientCapabilities=(.*)$`).FindSubmatch(unit)
	bounding := regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.*)$`).FindSubmatch(unit)
	if ambient == nil || bounding == nil || string(ambient[1]) != string(bounding[1]) {
		t.Fatalf("the unit has AmbientCapabilities %q and CapabilityBoundingSet %q", ambient, bounding)
	}
	l := newLab(t)
	if _, err := os.Stat("/proc/sys/net/mptcp/pm_type"); err == nil {
		write(t, l.serverConfig, fmt.Sprintf(serverTOML, l.serverAPI, filepath.Join(filepath.Dir(l.serverAPI), "server"))+"[mptcp]\nmode = \"userspace\"\n")
	}
	l.allowNobody()
	l.borderAgent = start(t, l.border, "border", asNobody(t, string(ambient[1]), binary, "border", "--config", l.borderConfig)...)
	l.serverAgent = start(t, l.server, "server", asNobody(t, string(ambient[1]), binary, "server", "--config", l.serverConfig)...)
	for n := range l.transits {
		l.command(n, "announce "+clientPrefix)
		l.eventually(path(n)+" is up", func() bool { return l.state(l.serverAPI, path(n)) == api.Up })
		l.eventually("the client answers over "+path(n), func() bool { return l.ping(epe(n)) })
	}
	l.probed()
	l.serverAgent.stop()
	l.borderAgent.stop()
	expectNothing(t, "server", l.server)
	expectNothing(t, "border", l.border)
}

// TestPrivilegesOfFlows counts flows with the capabilities that the guide names.
func TestPrivilegesOfFlows(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	write(t, l.serverConfig, fmt.Sprintf(serverTOML, l.serverAPI, t.TempDir())+"[flows]\njson = \"stdout\"\nplain = true\n")
	l.allowNobody()
	counting := start(t, l.server, "flows", asNobody(t, "CAP_NET_ADMIN CAP_BPF CAP_PERFMON", binary, "flows", "--config", l.serverConfig)...)
	select {
	case err := <-counting.done:
		t.Fatalf("flows ended: %v", err)
	case <-time.After(2 * time.Second): // a forbidden step has no event
	}
	counting.stop()
}

// asNobody is a command that runs another one with these capabilities alone, as systemd
// does it.
func asNobody(t *testing.T, capabilities string, command ...string) []string {
	t.Helper()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skipf("SKIPPED, privileges are not tested: %v (Debian's package util-linux)", err)
	}
	set := "-all"
	for _, c := range strings.Fields(strings.ToLower(capabilities)) {
		set += ",+" + strings.TrimPrefix(c, "cap_")
	}
	return append([]string{
		setpriv, "--reuid=" + unprivileged, "--regid=" + unprivileged, "--clear-groups",
		"--inh-caps=" + set, "--ambient-caps=" + set, "--bounding-set=" + set, "--no-new-privs",
	}, command...)
}

// allowNobody lets the unprivileged user read the configuration and make its files, and
// execute the command.
func (l *lab) allowNobody() {
	l.t.Helper()
	dir := filepath.Dir(l.borderConfig)
	for _, open := range []string{dir, filepath.Dir(dir), filepath.Dir(binary)} {
		if err := os.Chmod(open, 0o755); err != nil {
			l.t.Fatal(err)
		}
	}
	if out, err := exec.Command("chown", "-R", unprivileged+":"+unprivileged, dir).CombinedOutput(); err != nil {
		l.t.Fatalf("%v: %s", err, out)
	}
}

// refused starts an agent that must fail, and returns its messages.
func (l *lab) refused(ns *netnstest.NS, role, file string, more ...string) string {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), netnstest.Deadline)
	defer cancel()
	out, err := ns.Command(ctx, binary, append([]string{role, "--config", file}, more...)...).CombinedOutput()
	if ctx.Err() != nil {
		l.t.Errorf("the %s agent runs", role)
	}
	if err == nil {
		l.t.Errorf("the %s agent started, and said:\n%s", role, out)
	}
	return string(out)
}

// with writes a configuration that is another one with something replaced.
func (l *lab) with(file, old, replacement string) string {
	l.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		l.t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		l.t.Fatalf("%s lacks %q", file, old)
	}
	changed := filepath.Join(l.t.TempDir(), filepath.Base(file))
	write(l.t, changed, strings.Replace(string(text), old, replacement, 1))
	return changed
}

// TestSecondAgent starts more agents in the namespace of one that runs.
func TestSecondAgent(t *testing.T) {
	t.Parallel()
	l := running(t)
	routes := l.border.IP("-6 route show table all proto 200")
	text, err := os.ReadFile(l.serverConfig)
	if err != nil {
		t.Fatal(err)
	}
	server := strings.NewReplacer(`"eth0"`, `"srv"`, l.serverAPI, l.serverAPI+".2").Replace(string(text))
	other := filepath.Join(t.TempDir(), "server.toml")
	write(t, other, server)
	for _, args := range [][]string{
		{"border", l.with(l.borderConfig, l.borderAPI, l.borderAPI+".2")}, {"server", other}, {"border", l.borderConfig, "--dry-run"},
	} {
		said := l.refused(l.border, args[0], args[1], args[2:]...)
		for _, want := range []string{"the border agent of process", l.borderAPI, "this network namespace"} {
			if !strings.Contains(said, want) {
				t.Errorf("%q beside a border does not say %q:\n%s", args, want, said)
			}
		}
	}
	if now := l.border.IP("-6 route show table all proto 200"); now != routes {
		t.Errorf("a second agent changed the routes of the first one from\n%s to\n%s", routes, now)
	}
	for n := range l.transits {
		l.expectTransit(epe(n), n)
	}
}

// TestFailedStart lets starts fail, before the kernel is changed and afterwards.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.server.IP("addr add 2001:db8:5::1:a3/128 dev eth0")
	l.border.IP("-6 route add blackhole 2001:db8:b1::/48 proto 99")
	const listen = "listen = [\"2001:db8:99::1\"]\n"
	const third = "\n[[path]]\nname = \"third\"\nnumber = 3\nborder = \"192.0.2.1\"\npeer = 3\naddresses = [\"2001:db8:5::1:a3\"]\n"
	serverTwice := l.with(l.serverConfig, "[bgp]\n", "mptcp.mode = \"userspace\"\n[bgp]\n")
	for _, test := range []struct{ name, role, file, says string }{
		{"a server on a foreign address", "server", l.with(serverTwice, "[bgp]\n", "[bgp]\n"+listen), "no interface of this host has the address"},
		{"a border on a foreign address", "border", l.with(l.borderConfig, "[bgp]\n", "[bgp]\n"+listen), "`bgp.listen`"},
		{"a server whose EPE address is another's", "server", l.with(serverTwice, "\n[[path]]", third+"[[path]]"), "2001:db8:5::1:a3"},
		{"a border whose locator is another's", "border", l.borderConfig, "2001:db8:b1::/48"},
	} {
		ns := map[string]*netnstest.NS{"server": l.server, "border": l.border}[test.role]
		if said := l.refused(ns, test.role, test.file); !strings.Contains(said, test.says) {
			t.Errorf("%s: it does not say %q:\n%s", test.name, test.says, said)
		}
		expectNothing(t, test.role, ns)
		if manager, err := ns.Command(t.Context(), "cat", "/proc/sys/net/mptcp/pm_type").Output(); err == nil && string(manager) != "0\n" {
			t.Errorf("%s: net.mptcp.pm_type is %s", test.name, manager)
		}
	}
}

// TestFailedStartAfterCrash lets a start fail while packets use the state of a former run.
func TestFailedStartAfterCrash(t *testing.T) {
	t.Parallel()
	l := running(t)
	l.serverAgent.kill()
	l.server.IP("addr add 2001:db8:5::1:a3/128 dev eth0")
	third := "\n[[path]]\nname = \"third\"\nnumber = 3\nborder = \"192.0.2.1\"\npeer = 3\naddresses = [\"2001:db8:5::1:a3\"]\n"
	l.refused(l.server, "server", l.with(l.serverConfig, "\n[[path]]", third+"[[path]]"))
	l.refused(l.server, "server", l.with(l.serverConfig, "[bgp]\n", "[bgp]\nlisten = [\"2001:db8:99::1\"]\n"))
	for n := range l.transits {
		l.expectTransit(epe(n), n)
	}
	if strings.Contains(l.server.IP("-6 rule show"), "10003") {
		t.Error("a start that failed left a rule")
	}
	l.server.IP("addr del 2001:db8:5::1:a3/128 dev eth0")
	l.startServer()
	for n := range l.transits {
		l.eventually(path(n)+" is up", func() bool { return l.state(l.serverAPI, path(n)) == api.Up })
		l.expectTransit(epe(n), n)
	}
}

// TestTunnelSource finds the tunnel source of somebody else, and gives it back at the
// stop, also where a crash lies between.
func TestTunnelSource(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const former = "2001:db8:77::1"
	source := func() string { return strings.TrimSpace(l.server.IP("sr tunsrc show")) }
	l.server.IP("sr tunsrc set " + former)
	for _, kill := range []bool{true, false} {
		l.startServer()
		l.eventually("the tunnel source is ours", func() bool {
			return strings.HasSuffix(source(), " "+plainAddr) && l.state(l.serverAPI, path(0)) == api.Down
		})
		if kill {
			l.serverAgent.kill()
		} else {
			l.serverAgent.stop()
		}
	}
	if !strings.HasSuffix(source(), " "+former) {
		t.Errorf("after the stop there is %q, want %s", source(), former)
	}
	l.server.IP("sr tunsrc set ::")
	l.startServer()
	l.eventually("the tunnel source is ours", func() bool {
		return strings.HasSuffix(source(), " "+plainAddr) && l.state(l.serverAPI, path(0)) == api.Down
	})
	l.serverAgent.stop()
	if !strings.HasSuffix(source(), " ::") {
		t.Errorf("after the stop there is %q, want none", source())
	}
}

// TestInterfaces names interfaces with a dot, as VLANs have it, and such that are not there.
func TestInterfaces(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.border.IP("link add in.100 type veth peer name out")
	for _, n := range []string{"in.100", "out"} {
		l.border.IP("link set " + n + " up")
	}
	file := l.with(l.borderConfig, `["srv"]`, `["srv", "in.100"]`)
	l.borderAgent = start(t, l.border, "border", binary, "border", "--config", file)
	l.eventually("the agent answers", func() bool { return l.state(l.borderAPI, path(0)) != "" })
	if got := l.border.Run("cat", "/proc/sys/net/ipv6/conf/in.100/seg6_enabled"); got != "1\n" {
		t.Errorf("seg6_enabled of in.100 is %s", got)
	}
	l.borderAgent.stop()
	for role, file := range map[string]string{
		"border": l.with(l.borderConfig, `["srv"]`, `["nope.7"]`), "server": l.with(l.serverConfig, `interface = "eth0"`, `interface = "nope.7"`),
	} {
		ns := map[string]*netnstest.NS{"server": l.server, "border": l.border}[role]
		if said := l.refused(ns, role, file); !strings.Contains(said, "`srv6.interface") || !strings.Contains(said, `"nope.7"`) || strings.Contains(said, "hint: is the path") {
			t.Errorf("a %s without its interface says:\n%s", role, said)
		}
		expectNothing(t, role, ns)
	}
}

// TestRemovalByHand kills both agents and does what the guide says to remove the rest.
func TestRemovalByHand(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../docs/egress-deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```sh\n(ip -6 rule flush.*?)```").FindSubmatch(guide)
	if found == nil {
		t.Fatal("the guide has no commands that remove what a killed agent has left")
	}
	recipe := strings.Split(strings.TrimSpace(string(found[1])), "\n")
	l := running(t)
	l.withMPTCP("kernel")
	l.eventually("the EPE addresses are announced", func() bool {
		return strings.Contains(l.server.IP("mptcp endpoint show"), epe(1))
	})
	l.serverAgent.kill()
	l.borderAgent.kill()
	for _, line := range recipe {
		l.server.Run("sh", "-c", line)
		if strings.Contains(line, epe(0)) {
			l.server.Run("sh", "-c", strings.Replace(line, epe(0), epe(1), 1))
		}
	}
	for _, line := range recipe[:len(recipe)-4] {
		l.border.Run("sh", "-c", line)
	}
	expectNothing(t, "server", l.server)
	expectNothing(t, "border", l.border)
	if left := l.server.IP("mptcp endpoint show"); left != "" {
		t.Errorf("endpoints are left: %s", left)
	}
	l.expectTransit(plainAddr, 0)
}

// TestPeersWithoutSession checks what an operator sees of peers that get no session.
func TestPeersWithoutSession(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	file := l.with(l.borderConfig, "asn = 64602", "asn = 64999")
	file = l.with(file, "asn = 64601\n", "asn = 64601\nfamilies = [\"ipv4\"]\n")
	l.borderAgent = start(t, l.border, "border", binary, "border", "--config", file)
	l.eventually("the agent answers", func() bool { return l.state(l.borderAPI, path(0)) != "" })
	status, err := api.NewClient(l.borderAPI).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	has := make(map[string]bool)
	for _, f := range status.Features {
		has[f.Name] = f.Available
	}
	for _, name := range []string{"MPTCPUserspace", "EBPF", "BTF"} {
		if _, shown := has[name]; !shown {
			t.Errorf("the status does not show %s", name)
		}
	}
	want := []string{"as number mismatch expected 64999, received 64602", "problem: session transit2: ", "problem: session transit1: "}
	if has["EndDT46"] || has["EndDX4"] && has["Veth"] {
		want = append(want, "it has no family of ours ([ipv4])")
	} else {
		want = append(want, "IPv4 is its only family")
	}
	// Between attempts the neighbour may refuse the connection, which is then the reason.
	missing := want
	l.eventually("`paths` shows "+strings.Join(want, ", "), func() bool {
		text, err := exec.Command(binary, "paths", "--socket", l.borderAPI).CombinedOutput()
		missing = slices.DeleteFunc(missing, func(word string) bool { return strings.Contains(string(text), word) })
		return err == nil && len(missing) == 0
	})
}

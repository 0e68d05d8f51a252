package main_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"hikyaku/egress/api"
	"hikyaku/egress/netnstest"
)

func TestPathsAreTakenAndLeft(t *testing.T) {
	t.Parallel()
	l := running(t)
	for n := range l.transits {
		l.expectTransit(epe(n), n)
	}
	l.expectTransit(plainAddr, 0)

	l.command(1, "withdraw "+clientPrefix)
	l.eventually("nothing is sent from the address of a path that is withdrawn", func() bool { return !l.ping(epe(1)) })
	if hasRoute(l.border, 10002, netip.MustParsePrefix(clientPrefix)) {
		t.Error("the border still has the withdrawn prefix in the peer's table")
	}
	l.expectTransit(epe(0), 0)
	l.command(1, "announce "+clientPrefix)
	l.eventually("the path is back", func() bool { return l.ping(epe(1)) })

	l.command(1, "loop "+clientPrefix)
	l.eventually("an announcement with the own AS in its path counts as withdrawn", func() bool { return !l.ping(epe(1)) })
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	l := running(t)
	l.borderAgent.stop()
	l.eventually("servers leave the paths of a border that stops", func() bool { return l.state(l.serverAPI, path(0)) == api.Down })
	l.serverAgent.stop()
	for name, ns := range map[string]*netnstest.NS{"border": l.border, "server": l.server} {
		expectNothing(t, name, ns)
	}
	l.expectTransit(plainAddr, 0)
}

func TestMetricsThatCannotBeServed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	text, err := os.ReadFile(l.serverConfig)
	if err != nil {
		t.Fatal(err)
	}
	file := l.serverConfig + ".metrics"
	write(t, file, strings.Replace(string(text), "[bgp]", "api.metrics = '203.0.113.77:9464'\n[bgp]", 1))
	out, err := l.server.Command(t.Context(), binary, "server", "--config", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "api.metrics") {
		t.Errorf("an agent that can't serve its metrics ends with %v, and says:\n%s", err, out)
	}
	expectNothing(t, "server", l.server)
}

// expectNothing fails the test if a namespace has anything of ours, or lacks any foreign
// state.
func expectNothing(t *testing.T, name string, ns *netnstest.NS) {
	t.Helper()
	for command, mark := range map[string]string{
		"-6 route show table all": "proto 200", "-4 route show table all": "proto 200",
		"-6 rule show": "proto 200", "-4 rule show": "proto 200", "nexthop show": "proto 200",
		"addr show": "2001:db8:5::a", "link show": "group 200", "sr tunsrc show": plainAddr,
	} {
		for line := range strings.Lines(ns.IP(command)) {
			if strings.Contains(line, mark) {
				t.Errorf("%s: `ip %s` still shows %s", name, command, line)
			}
		}
	}
	if !strings.Contains(ns.IP("-6 route show table 10001"), "2001:db8:f0::/48") {
		t.Errorf("%s: a foreign route in our table range is gone", name)
	}
	if name == "server" && !strings.Contains(ns.IP("-6 rule show"), "2001:db8:f1::/48") {
		t.Errorf("%s: a foreign rule is gone", name)
	}
}

func TestLostPeer(t *testing.T) {
	t.Parallel()
	l := running(t)
	l.transits[1].cmd.Process.Kill()
	l.eventually("the server leaves the path of a lost peer", func() bool { return l.state(l.serverAPI, path(1)) == api.Down })
	if l.ping(epe(1)) {
		t.Error("a packet got through by the path of a lost peer")
	}
	l.expectTransit(epe(0), 0)
	l.eventually("the lost peer's table is cleared", func() bool {
		return !hasRoute(l.border, 10002, netip.MustParsePrefix(clientPrefix))
	})
	l.startTransit(1)
	l.command(1, "announce "+clientPrefix)
	l.eventually("the path of a peer that is back works", func() bool { return l.ping(epe(1)) })
}

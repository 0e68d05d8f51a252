package main_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"hikyaku/egress/api"
)

// withMPTCP makes the server manage MPTCP in a mode. It skips the test, with the
// reason, where the kernel has no MPTCP.
func (l *lab) withMPTCP(mode string) {
	l.t.Helper()
	if _, err := os.Stat("/proc/sys/net/mptcp/pm_type"); err != nil {
		l.t.Skipf("SKIPPED, MPTCP is not tested with agents: %v", err)
	}
	text, err := os.ReadFile(l.serverConfig)
	if err != nil {
		l.t.Fatal(err)
	}
	write(l.t, l.serverConfig, string(text)+"[mptcp]\nmode = \""+mode+"\"\n")
	l.serverAgent.stop()
	l.startServer()
	for n := range l.transits {
		l.eventually("the path is up", func() bool { return l.state(l.serverAPI, path(n)) == api.Up })
	}
}

// TestEndpoints follows the paths with the endpoints of the in-kernel path manager.
func TestEndpoints(t *testing.T) {
	l := running(t)
	l.withMPTCP("kernel")
	endpoint := func(n int) string {
		for line := range strings.Lines(l.server.IP("mptcp endpoint show")) {
			if strings.HasPrefix(line, epe(n)+" ") {
				return line
			}
		}
		return ""
	}
	l.eventually("both EPE addresses are announced", func() bool {
		return strings.Contains(endpoint(0), "signal") && strings.Contains(endpoint(1), "signal")
	})
	if _, err := api.NewClient(l.serverAPI).Drain(context.Background(), path(0), ""); err != nil {
		t.Fatal(err)
	}
	l.eventually("a drained path becomes backup", func() bool { return strings.Contains(endpoint(0), "backup") })
	l.tell(1, "withdraw "+clientPrefix)
	l.eventually("the address of a path that is down is taken back", func() bool { return endpoint(1) == "" })
	l.tell(1, "announce "+clientPrefix)
	l.eventually("and announced anew", func() bool { return strings.Contains(endpoint(1), "signal") })
	l.serverAgent.stop()
	if left := strings.TrimSpace(l.server.IP("mptcp endpoint show")); left != "" {
		t.Errorf("after the stop endpoints are left: %s", left)
	}
}

// TestUserspacePathManager switches the namespace's path manager over and back.
func TestUserspacePathManager(t *testing.T) {
	l := running(t)
	l.withMPTCP("userspace")
	manager := func() string { return strings.TrimSpace(l.server.Run("cat", "/proc/sys/net/mptcp/pm_type")) }
	if got := manager(); got != "1" {
		t.Errorf("net.mptcp.pm_type is %s, want 1", got)
	}
	err := api.NewClient(l.serverAPI).SetConnection(context.Background(), api.Connection{Token: 12345, Class: "bulk"})
	if err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("the class of a connection that is not there: %v, want not found", err)
	}
	l.serverAgent.stop()
	if got := manager(); got != "0" {
		t.Errorf("after the stop net.mptcp.pm_type is %s, want 0", got)
	}
}

// TestDryRunOfMPTCP prints what would be set, and sets nothing.
func TestDryRunOfMPTCP(t *testing.T) {
	l := running(t)
	l.withMPTCP("kernel")
	l.serverAgent.stop()
	l.server.IP("mptcp limits set subflows 3")
	dry := func() string { return l.server.Run(binary, "server", "--config", l.serverConfig, "--dry-run") }
	out := dry()
	for _, want := range []string{
		"ip mptcp limits set subflows 4\n",
		"ip mptcp endpoint add " + epe(0) + " id 1 signal\n", "ip mptcp endpoint add " + epe(1) + " id 2 signal\n",
	} {
		if strings.Count(out, want) != 1 {
			t.Errorf("a dry run with the in-kernel path manager lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "pm_type") {
		t.Errorf("a dry run sets the path manager that is set:\n%s", out)
	}
	text, err := os.ReadFile(l.serverConfig)
	if err != nil {
		t.Fatal(err)
	}
	write(t, l.serverConfig, strings.Replace(string(text), `mode = "kernel"`, `mode = "userspace"`, 1))
	if out := dry(); !strings.Contains(out, "sysctl -w net.mptcp.pm_type=1\n") {
		t.Errorf("a dry run with the path manager in user space does not set it:\n%s", out)
	}
	if got := strings.TrimSpace(l.server.Run("cat", "/proc/sys/net/mptcp/pm_type")); got != "0" {
		t.Errorf("a dry run left net.mptcp.pm_type at %s", got)
	}
	if left := l.server.IP("mptcp endpoint show") + l.server.IP("mptcp limits show"); !strings.Contains(left, "subflows 3") || strings.Contains(left, "signal") {
		t.Errorf("after dry runs there are %s", left)
	}
}

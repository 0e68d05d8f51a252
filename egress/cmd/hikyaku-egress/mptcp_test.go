package main_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
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
	t.Parallel()
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
	l.command(1, "withdraw "+clientPrefix)
	l.eventually("the address of a path that is down is taken back", func() bool { return endpoint(1) == "" })
	l.command(1, "announce "+clientPrefix)
	l.eventually("and announced anew", func() bool { return strings.Contains(endpoint(1), "signal") })
	l.serverAgent.stop()
	if left := strings.TrimSpace(l.server.IP("mptcp endpoint show")); left != "" {
		t.Errorf("after the stop endpoints are left: %s", left)
	}
}

// TestUserspacePathManager switches the namespace's path manager over and back.
func TestUserspacePathManager(t *testing.T) {
	t.Parallel()
	l := running(t)
	sysctl := func(name string) string { return strings.TrimSpace(l.server.Run("cat", "/proc/sys/net/mptcp/"+name)) }
	manager := func() string { return sysctl("pm_type") }
	timeout := sysctl("add_addr_timeout")
	l.withMPTCP("userspace")
	if got := sysctl("add_addr_timeout"); got != "1" {
		t.Errorf("net.mptcp.add_addr_timeout is %s, want 1", got)
	}
	if got := manager(); got != "1" {
		t.Errorf("net.mptcp.pm_type is %s, want 1", got)
	}
	err := api.NewClient(l.serverAPI).SetConnection(context.Background(), api.Connection{Token: 12345, Class: "bulk"})
	if err != nil {
		t.Errorf("the class of a connection that the kernel may still report: %v", err)
	}
	list, err := api.NewClient(l.serverAPI).Connections(context.Background(), netip.Prefix{}, 10)
	if err != nil || list.Total != 0 {
		t.Errorf("connections: %+v, %v", list, err)
	}
	_, err = api.NewClient(l.borderAPI).Connections(context.Background(), netip.Prefix{}, 10)
	if !errors.Is(err, api.ErrUnsupported) {
		t.Errorf("connections of a border: %v, want %v", err, api.ErrUnsupported)
	}
	l.serverAgent.stop()
	if got := manager(); got != "0" {
		t.Errorf("after the stop net.mptcp.pm_type is %s, want 0", got)
	}
	if got := sysctl("add_addr_timeout"); got != timeout {
		t.Errorf("after the stop net.mptcp.add_addr_timeout is %s, want %s as before", got, timeout)
	}
}

// TestEndpointsAfterACrash starts the server again with another configuration, which
// must not leave clients with addresses that are the host's no more.
func TestEndpointsAfterACrash(t *testing.T) {
	t.Parallel()
	l := running(t)
	endpoints := func() string { return l.server.IP("mptcp endpoint show") }
	limits := l.server.IP("mptcp limits show")
	l.withMPTCP("kernel")
	l.eventually("both EPE addresses are announced", func() bool {
		return strings.Contains(endpoints(), epe(0)+" ") && strings.Contains(endpoints(), epe(1)+" ")
	})
	l.serverAgent.kill()
	l.reconfigure(epe(1)+`"`, epe(8)+`"`)
	l.startServer()
	l.eventually("the new EPE address is announced, and the old one no more", func() bool {
		return strings.Contains(endpoints(), epe(8)+" ") && !strings.Contains(endpoints(), epe(1)+" ")
	})
	l.serverAgent.kill()
	l.reconfigure(`mode = "kernel"`, `mode = "off"`)
	l.startServer()
	l.eventually("the path is up", func() bool { return l.state(l.serverAPI, path(0)) == api.Up })
	if left := strings.TrimSpace(endpoints()); left != "" {
		t.Errorf("with mptcp.mode \"off\" there are endpoints: %s", left)
	}
	if got := l.server.IP("mptcp limits show"); got != limits {
		t.Errorf("then the limits are %q, want %q as before", got, limits)
	}
}

// TestPathManagerAfterACrash starts the server again with MPTCP left alone.
func TestPathManagerAfterACrash(t *testing.T) {
	t.Parallel()
	l := running(t)
	l.withMPTCP("userspace")
	l.serverAgent.kill()
	l.reconfigure(`mode = "userspace"`, `mode = "off"`)
	l.startServer()
	l.eventually("the path is up", func() bool { return l.state(l.serverAPI, path(0)) == api.Up })
	if got := strings.TrimSpace(l.server.Run("cat", "/proc/sys/net/mptcp/pm_type")); got != "0" {
		t.Errorf("net.mptcp.pm_type is %s while nobody manages connections, want 0", got)
	}
}

// reconfigure replaces a part of the server's configuration.
func (l *lab) reconfigure(old, now string) {
	l.t.Helper()
	text, err := os.ReadFile(l.serverConfig)
	if err != nil {
		l.t.Fatal(err)
	}
	changed := strings.ReplaceAll(string(text), old, now)
	if changed == string(text) {
		l.t.Fatalf("the configuration has no %s", old)
	}
	write(l.t, l.serverConfig, changed)
}

// TestDryRunOfMPTCP prints the settings, and sets nothing.
func TestDryRunOfMPTCP(t *testing.T) {
	t.Parallel()
	l := running(t)
	l.withMPTCP("kernel")
	l.serverAgent.stop()
	l.server.IP("mptcp limits set subflows 3")
	dry := func() string { return l.server.Run(binary, "server", "--config", l.serverConfig, "--dry-run") }
	out := dry()
	add := func(path, id int) string {
		return fmt.Sprintf("ip mptcp endpoint add %s id %d signal\n", epe(path), id)
	}
	// Ids are given in the order in which the routes come.
	ids := [2]int{1, 2}
	if strings.Contains(out, add(0, 2)) {
		ids = [2]int{2, 1}
	}
	for _, want := range []string{
		"ip mptcp limits set subflows 4\n", "sysctl -w net.mptcp.add_addr_timeout=1\n",
		add(0, ids[0]), add(1, ids[1]),
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

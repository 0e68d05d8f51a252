package main_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hikyaku/egress/netnstest"
)

// refusing is a network namespace with the interfaces of both roles and nothing else, for
// agents that must not start there.
func refusing(t *testing.T) *lab {
	dir := t.TempDir()
	l := &lab{
		t: t, border: netnstest.New(t, "refusing"),
		borderConfig: filepath.Join(dir, "border.toml"), borderAPI: filepath.Join(dir, "b.sock"),
		serverConfig: filepath.Join(dir, "server.toml"), serverAPI: filepath.Join(dir, "s.sock"),
	}
	l.server = l.border
	netnstest.Veth(t, netnstest.End{NS: l.border, Device: "srv"}, netnstest.End{NS: l.border, Device: "eth0"}, 1600)
	write(t, l.borderConfig, fmt.Sprintf(borderTOML, l.borderAPI, filepath.Join(dir, "border")))
	write(t, l.serverConfig, fmt.Sprintf(serverTOML, l.serverAPI, filepath.Join(dir, "server"))+"[flows]\njson = \"stdout\"\n")
	return l
}

// says fails the test unless what a command starts ends with an error that has all of
// these words, and leaves nothing.
func (l *lab) says(name string, command []string, want ...string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), netnstest.Deadline)
	defer cancel()
	out, err := l.border.Command(ctx, command[0], command[1:]...).CombinedOutput()
	if err == nil || ctx.Err() != nil {
		l.t.Errorf("%s: it runs", name)
	}
	for _, word := range want {
		if !strings.Contains(string(out), word) {
			l.t.Errorf("%s: it does not say %q:\n%s", name, word, out)
		}
	}
	if left := l.border.IP("-6 route show table all proto 200") + l.border.IP("link show group 200"); left != "" {
		l.t.Errorf("%s: it leaves %s", name, left)
	}
}

// TestVRFThatTheKernelLacks demands VRF devices where there are none.
func TestVRFThatTheKernelLacks(t *testing.T) {
	t.Parallel()
	l := refusing(t)
	if out, err := l.border.Command(t.Context(), "ip", "link", "add", "probe", "type", "vrf", "table", "100").CombinedOutput(); err == nil {
		t.Skip("SKIPPED, what is said of a kernel without VRF is not tested: this one has it")
	} else if !strings.Contains(string(out), "Unknown device type") && !strings.Contains(string(out), "not supported") {
		t.Fatalf("asking for a VRF device: %v: %s", err, out)
	}
	file := l.with(l.borderConfig, "[srv6]\n", "[srv6]\nvrf = \"on\"\n")
	l.says("a border with srv6.vrf", []string{binary, "border", "--config", file},
		`srv6.vrf is "on" ("auto" does without)`, "VRF: a border gives IPv4 SIDs of its own", "CONFIG_NET_VRF", "EndDT46: ")
}

// TestWithoutPrivileges starts everything as a user without capabilities, and as root that
// has lost the one.
func TestWithoutPrivileges(t *testing.T) {
	t.Parallel()
	l := refusing(t)
	l.allowNobody()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skipf("SKIPPED, privileges are not tested: %v (Debian's package util-linux)", err)
	}
	agent := []string{"probing the kernel's features", "needs CAP_NET_ADMIN", "not permitted", "hint: run as root, or with CAP_NET_ADMIN"}
	counter := []string{"error: counting flows on eth0: loading the flows program", "needs CAP_BPF, CAP_PERFMON", "hint: run as root, or with"}
	root := []string{setpriv, "--inh-caps=-net_admin", "--ambient-caps=-net_admin", "--bounding-set=-net_admin"}
	for _, test := range []struct {
		name string
		as   []string
		role string
		file string
		want []string
	}{
		{"a border of nobody", asNobody(t, ""), "border", l.borderConfig, agent},
		{"a server of nobody", asNobody(t, ""), "server", l.serverConfig, agent},
		{"flows of nobody", asNobody(t, ""), "flows", l.serverConfig, counter},
		{"a border of a root without CAP_NET_ADMIN", root, "border", l.borderConfig, agent},
		{"a server of a root without CAP_NET_ADMIN", root, "server", l.serverConfig, agent},
	} {
		l.says(test.name, append(test.as, binary, test.role, "--config", test.file), test.want...)
	}
}

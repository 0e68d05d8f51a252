package main

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hikyaku/egress/agent"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.toml"), filepath.Join(dir, "bad.toml")
	write(t, good, `
role = "server"
asn = 64500
router_id = "192.0.2.11"
api.socket = "`+filepath.Join(dir, "none.sock")+`"
[srv6]
interface = "eth0"
tunnel_source = "2001:db8:5::10"
[[reflector]]
name = "rr"
address = "2001:db8::53"
[[path]]
name = "a"
number = 1
border = "192.0.2.1"
peer = 1
addresses = ["2001:db8:5::a1"]
`)
	write(t, bad, "role = \"server\"\nasnn = 1\n")
	border, counted := filepath.Join(dir, "border.toml"), filepath.Join(dir, "counted.toml")
	const borderTOML = `
role = "border"
asn = 64500
router_id = "192.0.2.1"
[srv6]
locator = "2001:db8:b1::/48"
interfaces = ["eth0"]
[[reflector]]
name = "rr"
address = "2001:db8::53"
[[peer]]
name = "a"
number = 1
address = "2001:db8:a::1"
asn = 64496
`
	write(t, border, borderTOML)
	write(t, counted, borderTOML+"[flows]\ninterfaces = [\"eth1\"]\nplain = true\n")
	for _, test := range []struct {
		name string
		args []string
		code int
		out  string
		errs string
	}{
		{"nothing", nil, exitUsage, "", "Usage: hikyaku-egress COMMAND"},
		{"help", []string{"--help"}, 0, "Commands:", ""},
		{"an unknown command", []string{"boarder"}, exitUsage, "", `there is no command "boarder"`},
		{"help of border", []string{"border", "--help"}, 0, "--dry-run", ""},
		{"help of server", []string{"server", "-h"}, 0, "conf/egress-server.toml", ""},
		{"help of flows", []string{"flows", "--help"}, 0, "FlowStats", ""},
		{"help of paths", []string{"paths", "--help"}, 0, "undrain PATH", ""},
		{"version", []string{"version"}, 0, "hikyaku-egress ", ""},
		{"version as elsewhere", []string{"--version"}, 0, "hikyaku-egress ", ""},
		{"no configuration", []string{"server"}, exitUsage, "", "--config FILE is missing"},
		{"an unknown option", []string{"server", "--confg", "x"}, exitUsage, "", "hint: hikyaku-egress server --help"},
		{"an argument too many", []string{"server", "--config", good, "more"}, exitUsage, "", `unexpected argument "more"`},
		{"a file that is not there", []string{"server", "--config", dir + "/none"}, exitFailure, "", "error: "},
		{"a wrong file", []string{"server", "--config", bad}, exitFailure, "", "hint: conf/egress-border.toml"},
		{"the caret below an unknown key", []string{"server", "--config", bad}, exitFailure, "", "^"},
		{"a file of the other role", []string{"border", "--config", good}, exitUsage, "", "is for a server, not for a border"},
		{"a right file", []string{"server", "--config", good, "--check"}, 0, "the configuration is right", ""},
		{"flows: a right file", []string{"flows", "--config", good, "--check"}, 0, "the configuration is right", ""},
		{"flows of a border", []string{"flows", "--config", border}, exitFailure, "", "count on the servers, or set `flows.interfaces`"},
		{"flows of a border, checked", []string{"flows", "--config", border, "--check"}, exitFailure, "", "border.toml says: a border takes SRv6 off"},
		{"flows of a border's egress interfaces", []string{"flows", "--config", counted, "--check"}, 0, "the configuration is right", ""},
		{"a border without interfaces for flows", []string{"border", "--config", border, "--check"}, 0, "the configuration is right", ""},
		{"paths without an agent", []string{"paths", "--config", good}, exitFailure, "", "is the agent running"},
		{"paths of nonsense", []string{"paths", "--config", good, "nonsense"}, exitUsage, "", "neither drain"},
		{"drain of nothing", []string{"paths", "--config", good, "undrain"}, exitUsage, "", "undrain"},
	} {
		var out, errs strings.Builder
		code := run(context.Background(), test.args, &out, &errs)
		if code != test.code || !strings.Contains(out.String(), test.out) || !strings.Contains(errs.String(), test.errs) {
			t.Errorf("%s: code %d, want %d; output %q, want %q; errors %q, want %q",
				test.name, code, test.code, out.String(), test.out, errs.String(), test.errs)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestHintsFit(t *testing.T) {
	t.Parallel()
	listening := func(key string, errno unix.Errno) error {
		return fmt.Errorf("x: %w", &agent.ListenError{Key: key, Err: &net.OpError{Op: "listen", Err: errno}})
	}
	file := func(path string, errno unix.Errno) error {
		return fmt.Errorf("x: %w", &fs.PathError{Op: "open", Path: path, Err: errno})
	}
	for _, test := range []struct {
		name string
		err  error
		hint string
	}{
		{"the port of BGP is taken", listening("bgp.listen", unix.EADDRINUSE), "another BGP daemon"},
		{"the port of metrics is taken", listening("api.metrics", unix.EADDRINUSE), "another program has the port: give `api.metrics`"},
		{"the port of flows is taken", unix.EADDRINUSE, "another program"},
		{"an address of nobody", listening("bgp.listen", unix.EADDRNOTAVAIL), "no interface of this host"},
		{"a port below 1024", listening("bgp.listen", unix.EACCES), "CAP_NET_BIND_SERVICE"},
		{"a sysctl that is not there", file("/proc/sys/net/vrf/strict_mode", unix.ENOENT), "this kernel does not have it"},
		{"a sysctl that is read-only", file("/proc/sys/net/vrf/strict_mode", unix.EROFS), "ProtectKernelTunables"},
		{"a file that is not there", file("/etc/x.toml", unix.ENOENT), "is the path /etc/x.toml right?"},
		{"a directory of others", file("/var/lib/x", unix.EACCES), "may not use /var/lib/x"},
		{"a refused message of netlink", unix.EPERM, "CAP_NET_ADMIN"},
		{"nothing known", unix.EINVAL, ""},
	} {
		if got := hintFor(test.err); !strings.Contains(got, test.hint) || (test.hint == "") != (got == "") {
			t.Errorf("%s: the hint is %q, want %q", test.name, got, test.hint)
		}
	}
}

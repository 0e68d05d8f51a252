package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
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
		{"no configuration", []string{"server"}, exitUsage, "", "--config FILE is missing"},
		{"an unknown option", []string{"server", "--confg", "x"}, exitUsage, "", "hint: hikyaku-egress server --help"},
		{"an argument too many", []string{"server", "--config", good, "more"}, exitUsage, "", `unexpected argument "more"`},
		{"a file that is not there", []string{"server", "--config", dir + "/none"}, exitFailure, "", "error: "},
		{"a wrong file", []string{"server", "--config", bad}, exitFailure, "", "hint: conf/egress-border.toml"},
		{"the caret below an unknown key", []string{"server", "--config", bad}, exitFailure, "", "^"},
		{"a file of the other role", []string{"border", "--config", good}, exitUsage, "", "is for a server, not for a border"},
		{"a right file", []string{"server", "--config", good, "--check"}, 0, "the configuration is right", ""},
		{"flows: a right file", []string{"flows", "--config", good, "--check"}, 0, "the configuration is right", ""},
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

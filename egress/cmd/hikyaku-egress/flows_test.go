package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// TestFlowsTellWhichOutputCannotBeOpened: the error is for the operator, whichever of the
// outputs it is and whatever was opened before it.
func TestFlowsTellWhichOutputCannotBeOpened(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "flows"), filepath.Join(dir, "none", "flows")
	for _, test := range []struct {
		name, flows, want string
	}{
		{"json", fmt.Sprintf("json = %q", bad), bad},
		{"csv", fmt.Sprintf("csv = %q", bad), bad},
		{"csv after json", fmt.Sprintf("json = %q\ncsv = %q", good, bad), bad},
		{"metrics", fmt.Sprintf("metrics = %q", taken.Addr()), taken.Addr().String()},
		{"metrics after json and csv", fmt.Sprintf("json = %q\ncsv = %q\nmetrics = %q", good, good+".csv", taken.Addr()),
			taken.Addr().String()},
	} {
		file := filepath.Join(dir, "server.toml")
		write(t, file, fmt.Sprintf(`
role = "server"
asn = 64500
router_id = "192.0.2.11"
[srv6]
interface = "lo"
tunnel_source = "2001:db8:5::10"
[flows]
%s
[[reflector]]
name = "rr"
address = "2001:db8::53"
[[path]]
name = "a"
number = 1
border = "192.0.2.1"
peer = 1
addresses = ["2001:db8:5::a1"]
`, test.flows))
		var out, errs strings.Builder
		code := run(context.Background(), []string{"flows", "--config", file}, &out, &errs)
		if code != exitFailure || !strings.Contains(errs.String(), test.want) {
			t.Errorf("%s: code %d, want %d; errors %q, want %q", test.name, code, exitFailure, errs.String(), test.want)
		}
	}
}

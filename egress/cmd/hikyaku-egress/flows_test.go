package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hikyaku/egress/config"
	"hikyaku/egress/flows"
)

// TestFlowsNameTheOutputThatCannotBeOpened: the error is for the operator, whichever of the
// outputs it is and whatever was opened before it.
func TestFlowsNameTheOutputThatCannotBeOpened(t *testing.T) {
	t.Parallel()
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

// TestEachFileOfRowsHasOneHeader: whoever reads a file knows the columns by its first line,
// and takes every other line for a row.
func TestEachFileOfRowsHasOneHeader(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "flows.csv")
	const row = "2026-01-02T03:04:05.000Z,eth0,unknown-sid,,,,,,,1,100,1,100\n"
	start := func() (write, end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		sinks, closeSinks, err := flowSinks(ctx, config.Flows{JSON: config.OutputOff, CSV: config.Output(file)}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		write = func() {
			t.Helper()
			err := sinks[0].Write(&flows.Sample{
				Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Interface: "eth0",
				Records: []flows.Record{{Kind: flows.UnknownSID, Delta: flows.Counts{Packets: 1, Bytes: 100}, Total: flows.Counts{Packets: 1, Bytes: 100}}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return write, func() { cancel(); closeSinks() }
	}
	expect := func(what, file, want string) {
		t.Helper()
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s: got %q, error %v; want %q", what, got, err, want)
		}
	}
	write, end := start()
	write()
	write()
	expect("a new file", file, flows.CSVHeader+row+row)
	end()

	write, end = start()
	defer func() { end() }()
	write()
	expect("a file of a former run", file, flows.CSVHeader+row+row+row)

	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	write()
	expect("a file that was emptied", file, flows.CSVHeader+row)

	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("SIGHUP opens no new file")
		}
	}
	// The new file is there a moment before it is in use.
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		write()
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			break
		}
	}
	expect("a file after SIGHUP", file, flows.CSVHeader+row)
}

// TestPipesHaveOneHeader: a pipe looks empty however much was written to it.
func TestPipesHaveOneHeader(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // both, so that neither open waits
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	o, err := openOutput(t.Context(), pipe, "header\n")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := o.Write([]byte("row\n")); n != 4 || err != nil {
			t.Fatalf("writing a row of 4 bytes: %d, %v", n, err)
		}
	}
	o.close()
	const want = "header\nrow\nrow\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(reader, got); err != nil || string(got) != want {
		t.Errorf("got %q, error %v; want %q", got, err, want)
	}
}

// Values that a configuration may have can be had.
func TestLimitsOfFlows(t *testing.T) {
	t.Parallel()
	if config.LargestMaxFlows != flows.LargestMaxFlows || config.ShortestIdle != flows.ShortestIdle {
		t.Errorf("configured: %d flows, %v; FlowStats can: %d, %v",
			config.LargestMaxFlows, config.ShortestIdle, flows.LargestMaxFlows, flows.ShortestIdle)
	}
}

package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hikyaku/egress/netnstest"
)

// binary is the real command, built once for all tests of this package. They are
// beside the command, so that go test knows what their result depends on.
var binary string

// raceVariable builds the command with the race detector.
const raceVariable = "HIKYAKU_EGRESS_RACE"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == transitArgument {
		os.Exit(runTransit(os.Args[2:], os.Stdin, os.Stdout))
	}
	if len(os.Args) == 3 && os.Args[1] == muteArgument {
		os.Exit(runMute(os.Args[2]))
	}
	os.Exit(build(m))
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hikyaku-egress-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "hikyaku-egress")
	args := []string{"build", "-o", binary}
	if os.Getenv(raceVariable) != "" {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "hikyaku/egress/cmd/hikyaku-egress")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building hikyaku-egress: %v\n%s", err, out)
		return 1
	}
	netnstest.AllowParallel()
	return m.Run()
}

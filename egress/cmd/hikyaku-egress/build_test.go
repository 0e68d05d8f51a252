package main_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
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
	allowParallel()
	return m.Run()
}

// allowParallel lets more tests run at once than there are CPUs, unless -parallel says how many:
// most of the time they wait for daemons. Each has namespaces of its own.
func allowParallel() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", strconv.Itoa(testsEach*runtime.GOMAXPROCS(0)))
	}
}

// testsEach is the number of tests at once for each CPU.
const testsEach = 3

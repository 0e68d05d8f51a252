package netnstest

import (
	"flag"
	"runtime"
	"strconv"
)

// AllowParallel lets more tests run at once than there are CPUs, unless -parallel says how many:
// most of the time they wait for daemons. It is for a TestMain, before it runs the tests.
func AllowParallel() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", strconv.Itoa(testsEach*runtime.GOMAXPROCS(0)))
	}
}

// testsEach is the number of tests at once for each CPU.
const testsEach = 3

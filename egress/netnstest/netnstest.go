// Package netnstest makes network namespaces for tests and removes them again.
//
// Without root a test skips and says so. Names hold the process number, so that
// test processes do not meet; namespaces of a killed one are removed by the next.
package netnstest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hikyaku/egress/osthread"
)

// NS is a network namespace with its loopback up.
type NS struct {
	// Name is its name for ip(8): `ip -n NAME`, `ip netns exec NAME`.
	Name string
	tb   testing.TB
}

const (
	namePrefix = "hkt"
	directory  = "/run/netns"
)

var (
	made  atomic.Uint32
	sweep sync.Once
)

// RequireRoot skips the test, with the reason, where namespaces cannot be made.
func RequireRoot(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("SKIPPED: network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		tb.Skip("SKIPPED: ip(8) is not installed (package iproute2)")
	}
	// Root of a container may lack the capability; a thread of its own tries.
	var refused error
	osthread.Own(func() { refused = unix.Unshare(unix.CLONE_NEWNET) })
	if refused != nil {
		tb.Skipf("SKIPPED: network namespaces cannot be made here (needs CAP_SYS_ADMIN): %s", refused)
	}
}

// New makes a namespace that lives until the test ends. role is the readable part of
// its name, as in "border" or "server". It skips the test as RequireRoot does.
func New(tb testing.TB, role string) *NS {
	tb.Helper()
	RequireRoot(tb)
	sweep.Do(removeAbandoned)
	n := &NS{Name: fmt.Sprintf("%s%d-%d-%s", namePrefix, os.Getpid(), made.Add(1), role), tb: tb}
	run(tb, "ip", "netns", "add", n.Name)
	tb.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "del", n.Name).CombinedOutput(); err != nil {
			tb.Errorf("removing namespace %s: %s: %s", n.Name, err, out)
		}
	})
	n.IP("link set lo up")
	return n
}

// removeAbandoned removes the namespaces of test processes that are no more.
func removeAbandoned() {
	paths, _ := filepath.Glob(filepath.Join(directory, namePrefix+"*"))
	for _, path := range paths {
		name := filepath.Base(path)
		number, _, _ := strings.Cut(strings.TrimPrefix(name, namePrefix), "-")
		pid, err := strconv.Atoi(number)
		if err != nil || unix.Kill(pid, 0) != unix.ESRCH {
			continue
		}
		_ = exec.Command("ip", "netns", "del", name).Run() // another process may be first
	}
}

// Path is the file that stands for the namespace, for setns(2).
func (n *NS) Path() string { return filepath.Join(directory, n.Name) }

// Do runs fn with the calling goroutine's thread inside the namespace. Sockets that fn
// opens stay there; goroutines that fn starts are not in it.
func (n *NS) Do(fn func()) {
	n.tb.Helper()
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		n.tb.Fatalf("opening this thread's namespace: %s", err)
	}
	defer home.Close()
	there, err := os.Open(n.Path())
	if err != nil {
		n.tb.Fatalf("opening namespace %s: %s", n.Name, err)
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		n.tb.Fatalf("entering namespace %s: %s", n.Name, err)
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			// The thread stays locked, so that it ends with the goroutine and no
			// other code runs in the wrong namespace.
			n.tb.Errorf("leaving namespace %s: %s", n.Name, err)
			return
		}
		runtime.UnlockOSThread()
	}()
	fn()
}

// Sysctl sets a key of this namespace, written as in sysctl(8). A device name with a
// dot in it needs slashes as separators.
func (n *NS) Sysctl(key, value string) {
	n.tb.Helper()
	if !strings.Contains(key, "/") {
		key = strings.ReplaceAll(key, ".", "/")
	}
	n.Do(func() {
		if err := os.WriteFile(filepath.Join("/proc/sys", key), []byte(value), 0); err != nil {
			n.tb.Fatalf("setting %s in namespace %s: %s", key, n.Name, err)
		}
	})
}

// Deadline is how long [Eventually] waits. It is generous: a loaded machine is slow,
// and a test that passes does not wait.
const Deadline = 30 * time.Second

// Eventually waits until cond holds and fails the test with what if it never does.
func Eventually(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	const pause = 5 * time.Millisecond
	for end := time.Now().Add(Deadline); !cond(); time.Sleep(pause) {
		if time.Now().After(end) {
			tb.Fatalf("waited %s in vain for: %s", Deadline, what)
		}
	}
}

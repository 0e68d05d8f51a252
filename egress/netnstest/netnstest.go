// Package netnstest makes network namespaces for tests and removes them again.
//
// Without root a test skips and says so. Names hold the process number, so that
// test processes do not meet; what a killed process left is removed by the next.
package netnstest

import (
	"context"
	"net/netip"
	"os/exec"
	"testing"
	"time"
)

// NS is a network namespace with its loopback up.
type NS struct {
	// Name is its name for ip(8): `ip -n NAME`, `ip netns exec NAME`.
	Name string
	tb   testing.TB
}

// Deadline is how long [Eventually] waits. It is generous: a loaded machine is slow,
// and a test that passes does not wait.
const Deadline = 30 * time.Second

// RequireRoot skips the test, with the reason, where namespaces cannot be made.
func RequireRoot(tb testing.TB) { panic("todo") }

// New makes a namespace that lives until the test ends. role makes up the readable
// part of its name, as in "border" or "server".
func New(tb testing.TB, role string) *NS { panic("todo") }

// Path is the file that stands for the namespace, for setns(2).
func (n *NS) Path() string { panic("todo") }

// Do runs fn with the calling goroutine's thread inside the namespace. Sockets opened
// by fn stay there; goroutines that fn starts are not in it.
func (n *NS) Do(fn func()) { panic("todo") }

// Command returns a command that runs inside. It is killed when ctx is done.
func (n *NS) Command(ctx context.Context, name string, args ...string) *exec.Cmd { panic("todo") }

// Start starts a command inside and kills it when the test ends. Its output goes to
// the test's log if the test fails.
func (n *NS) Start(name string, args ...string) *exec.Cmd { panic("todo") }

// Run runs a command inside to its end, gives its output, and fails the test if the
// command does.
func (n *NS) Run(name string, args ...string) string { panic("todo") }

// IP runs ip(8) inside: line is split at spaces. It fails the test if ip does.
func (n *NS) IP(line string) string { panic("todo") }

// Sysctl sets a key of this namespace, written as in sysctl(8).
func (n *NS) Sysctl(key, value string) { panic("todo") }

// End is one end of a link.
type End struct {
	NS *NS
	// Device is the interface's name, at most 15 bytes.
	Device string
	// Addresses are set without duplicate address detection.
	Addresses []netip.Prefix
}

// Veth joins two ends by a veth pair that is up, offloads on. mtu 0 is 1500 bytes.
func Veth(tb testing.TB, a, b End, mtu int) { panic("todo") }

// Eventually waits until cond holds and fails the test with what if it never does.
func Eventually(tb testing.TB, what string, cond func() bool) { panic("todo") }

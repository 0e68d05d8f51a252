package netnstest

import (
	"bytes"
	"context"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Command returns a command that runs inside. It is killed when ctx is done.
func (n *NS) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	// ip(8) replaces itself by the command, so that a signal reaches it.
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.Name, name}, args...)...)
}

// Start starts a command inside and kills it when the test ends. Its output goes to
// the test's log if the test fails.
func (n *NS) Start(name string, args ...string) *exec.Cmd {
	n.tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := n.Command(ctx, name, args...)
	// No test leaves a process behind, even when it is killed itself.
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := startForLife(cmd); err != nil {
		cancel()
		n.tb.Fatalf("starting %s in namespace %s: %s", name, n.Name, err)
	}
	n.tb.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		if n.tb.Failed() {
			n.tb.Logf("%s in %s:\n%s", strings.Join(append([]string{name}, args...), " "), n.Name, &out)
		}
	})
	return cmd
}

// startForLife starts a command on a thread that lives as long as this process. The kernel sends
// the signal of Pdeathsig when that thread ends, and Go ends threads that are left locked.
func startForLife(cmd *exec.Cmd) error {
	starting.Do(func() {
		go func() {
			runtime.LockOSThread()
			for start := range starts {
				start()
			}
		}()
	})
	result := make(chan error)
	starts <- func() { result <- cmd.Start() }
	return <-result
}

var (
	starting sync.Once
	starts   = make(chan func())
)

// Run runs a command inside to its end, gives its output, and fails the test if the
// command does.
func (n *NS) Run(name string, args ...string) string {
	n.tb.Helper()
	return run(n.tb, "ip", append([]string{"netns", "exec", n.Name, name}, args...)...)
}

// IP runs ip(8) inside: line is split at spaces. It fails the test if ip does.
func (n *NS) IP(line string) string {
	n.tb.Helper()
	return run(n.tb, "ip", append([]string{"-n", n.Name}, strings.Fields(line)...)...)
}

func run(tb testing.TB, name string, args ...string) string {
	tb.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		tb.Fatalf("%s %s: %s: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return string(out)
}

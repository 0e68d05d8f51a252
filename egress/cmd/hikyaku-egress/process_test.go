package main_test

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"hikyaku/egress/netnstest"
)

// process is a program in a namespace that a test may kill.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan error
}

func start(t *testing.T, ns *netnstest.NS, what string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: ns.Command(context.Background(), args[0], args[1:]...), done: make(chan error, 1)}
	log := &strings.Builder{}
	p.cmd.Stderr = log
	if p.cmd.Stdout == nil {
		p.cmd.Stdout = log
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", what, err)
	}
	exited := make(chan struct{})
	go func() { p.done <- p.cmd.Wait(); close(exited) }()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-exited
		for _, bad := range []string{"DATA RACE", "panic:"} {
			if strings.Contains(log.String(), bad) {
				t.Errorf("%s: %s", what, bad)
			}
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", what, tail(log.String(), 60))
		}
	})
	return p
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// kill is kill -9.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// stop asks the program to end, and fails the test if it does not do so cleanly.
func (p *process) stop() {
	p.t.Helper()
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.done:
		if err != nil {
			p.t.Errorf("%s did not end cleanly: %v", p.cmd.Args, err)
		}
	case <-time.After(netnstest.Deadline):
		p.t.Fatalf("%s did not end", p.cmd.Args)
	}
}

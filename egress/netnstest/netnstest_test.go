package netnstest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// current names the namespace of the calling thread.
func current(t *testing.T) string {
	t.Helper()
	link, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func TestDoEntersAndComesBack(t *testing.T) {
	ns := New(t, "do")
	before := current(t)
	var inside string
	ns.Do(func() { inside = current(t) })
	if inside == before {
		t.Errorf("Do ran in the namespace of the test, %s", inside)
	}
	if after := current(t); after != before {
		t.Errorf("after Do the thread is in %s, before it was in %s", after, before)
	}
}

func TestDoComesBackFromAFailedTest(t *testing.T) {
	ns := New(t, "goexit")
	done := make(chan bool)
	go func() {
		before := current(t)
		defer func() { done <- before == current(t) }()
		ns.Do(runtime.Goexit) // as t.FailNow does
	}()
	if !<-done {
		t.Error("Goexit inside Do left the thread in the namespace")
	}
}

func TestVethCarriesPackets(t *testing.T) {
	a, b := New(t, "a"), New(t, "b")
	Veth(t,
		End{NS: a, Device: "left", Addresses: Addresses("2001:db8::1/64", "192.0.2.1/24")},
		End{NS: b, Device: "right", Addresses: Addresses("2001:db8::2/64", "192.0.2.2/24")}, 1600)
	for _, address := range []string{"[2001:db8::2]:7000", "192.0.2.2:7000"} {
		var listener, conn net.PacketConn
		var err error
		b.Do(func() { listener, err = net.ListenPacket("udp", address) })
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		a.Do(func() { conn, err = net.ListenPacket("udp", ":0") })
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.WriteTo([]byte("hello"), listener.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 16)
		n, _, err := listener.ReadFrom(buf)
		if err != nil || string(buf[:n]) != "hello" {
			t.Errorf("over %s came %q, %v", address, buf[:n], err)
		}
	}
	if link := a.IP("link show left"); !strings.Contains(link, "mtu 1600") {
		t.Errorf("link is %s, want mtu 1600", link)
	}
}

func TestSysctlIsOfTheNamespace(t *testing.T) {
	ns := New(t, "sysctl")
	const file = "/proc/sys/net/ipv6/conf/all/forwarding"
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ns.Sysctl("net.ipv6.conf.all.forwarding", "1")
	if got := strings.TrimSpace(ns.Run("cat", file)); got != "1" {
		t.Errorf("inside, forwarding is %s, want 1", got)
	}
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Errorf("outside, forwarding changed from %s to %s", before, after)
	}
}

func TestNamespaceAndProcessesAreGoneAfterTheTest(t *testing.T) {
	RequireRoot(t)
	var name string
	var sleep *exec.Cmd
	t.Run("inner", func(t *testing.T) {
		ns := New(t, "gone")
		name = ns.Path()
		sleep = ns.Start("sleep", "1000")
	})
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", name, err)
	}
	if sleep.ProcessState == nil {
		t.Error("the process that Start started has not ended")
	}
}

// A process must not end with the thread on which its start was asked for.
func TestProcessesOutliveThreads(t *testing.T) {
	RequireRoot(t)
	ns := New(t, "thread")
	var sleep *exec.Cmd
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		sleep = ns.Start("sleep", "1000")
	}()
	<-ended
	exited := make(chan struct{})
	go func() { sleep.Process.Wait(); close(exited) }()
	select {
	case <-exited:
		t.Error("the process has ended with the thread")
	case <-time.After(time.Second / 2): // nothing says that a thread is gone
	}
}

func TestAbandonedNamespacesAreRemoved(t *testing.T) {
	RequireRoot(t)
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%s%d-1-left", namePrefix, dead.Process.Pid)
	run(t, "ip", "netns", "add", name)
	mine := New(t, "alive")
	removeAbandoned()
	if list := run(t, "ip", "netns", "list"); strings.Contains(list, name) {
		run(t, "ip", "netns", "del", name)
		t.Errorf("namespace %s of a dead process was not removed", name)
	}
	if _, err := os.Stat(mine.Path()); err != nil {
		t.Errorf("the namespace of this process was removed: %s", err)
	}
}

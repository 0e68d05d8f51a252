package flows

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// netns is a network namespace of one test.
type netns struct {
	tb   testing.TB
	name string
}

func newNetns(tb testing.TB, role string) *netns {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("SKIPPED: making network namespaces needs root")
	}
	n := &netns{tb: tb, name: fmt.Sprintf("hkflows-%d-%s", os.Getpid(), role)}
	n.run("ip", "netns", "add", n.name)
	tb.Cleanup(func() { n.run("ip", "netns", "del", n.name) })
	n.ip("link set lo up")
	return n
}

func (n *netns) run(name string, args ...string) {
	n.tb.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		n.tb.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

func (n *netns) ip(line string) {
	n.tb.Helper()
	n.run("ip", append([]string{"-n", n.name}, strings.Fields(line)...)...)
}

func (n *netns) sysctl(key, value string) {
	n.tb.Helper()
	n.do(func() {
		if err := os.WriteFile("/proc/sys/"+strings.ReplaceAll(key, ".", "/"), []byte(value), 0o644); err != nil {
			n.tb.Fatal(err)
		}
	})
}

// do runs fn on a thread inside the namespace.
func (n *netns) do(fn func()) {
	n.tb.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with its namespace
		file, err := os.Open("/var/run/netns/" + n.name)
		if err != nil {
			n.tb.Error(err)
			return
		}
		defer file.Close()
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			n.tb.Error(err)
			return
		}
		fn()
	}()
	<-done
}

// sentCounts reads the interface's own counters of what it sent.
func (n *netns) sentCounts(device string) Counts {
	n.tb.Helper()
	var counts Counts
	n.do(func() {
		for file, value := range map[string]*uint64{"tx_packets": &counts.Packets, "tx_bytes": &counts.Bytes} {
			*value = n.counter(device, file)
		}
	})
	return counts
}

// setFeature switches an offload by SIOCETHTOOL.
func (n *netns) setFeature(device string, command uint32, value uint32) {
	n.tb.Helper()
	n.do(func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			n.tb.Error(err)
			return
		}
		defer unix.Close(fd)
		request := [2]uint32{command, value}
		ifreq := struct {
			name [16]byte
			data unsafe.Pointer
			_    [16]byte
		}{data: unsafe.Pointer(&request)}
		copy(ifreq.name[:15], device)
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifreq))); errno != 0 {
			n.tb.Errorf("setting a feature of %s: %v", device, errno)
		}
	})
}

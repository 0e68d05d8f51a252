package main_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/netnstest"
)

// probed waits until all paths answer probes.
func (l *lab) probed() {
	l.t.Helper()
	for n := range l.transits {
		l.eventually(path(n)+" answers probes", func() bool { return l.probe(n) == "up" })
	}
}

// probe is the state of a path by probes.
func (l *lab) probe(n int) string {
	p, err := api.NewClient(l.serverAPI).Path(context.Background(), path(n))
	if err != nil {
		return ""
	}
	return p.Probe.State
}

// dialMarked connects to the client's echo from the server's plain address, by a path's mark.
func (l *lab) dialMarked(n int) net.Conn {
	l.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(plainAddr)}, Control: func(_, _ string, c syscall.RawConn) (err error) {
		controlled := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_MARK, 0x680001+n)
		})
		if controlled != nil {
			return controlled
		}
		return err
	}}
	var conn net.Conn
	var err error
	l.server.Do(func() { conn, err = dialer.Dial("tcp", net.JoinHostPort(clientAddr, strconv.Itoa(echoPort))) })
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { conn.Close() })
	return conn
}

// exchange sends bytes through an echo and waits for them.
func exchange(t *testing.T, conn net.Conn, size int) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(netnstest.Deadline))
	go conn.Write(make([]byte, size))
	if _, err := io.ReadFull(conn, make([]byte, size)); err != nil {
		t.Fatalf("echoing %d bytes: %v", size, err)
	}
}

// TestDeadBorder has a border lose all packets to its SIDs, while its BGP session stays up.
func TestDeadBorder(t *testing.T) {
	t.Parallel()
	l := running(t)
	l.probed()
	conn := l.dialMarked(1)
	exchange(t, conn, 1000)
	const lossy = "pref 1 iif srv to 2001:db8:b1::/48 blackhole"
	l.border.IP("-6 rule add " + lossy)
	began := time.Now()
	for n := range l.transits {
		l.eventually("a dead border's "+path(n)+" is down", func() bool { return l.state(l.serverAPI, path(n)) == api.Down })
	}
	t.Logf("found dead after %s", time.Since(began))
	exchange(t, conn, 100_000) // goes plain
	sessions, err := api.NewClient(l.serverAPI).Sessions(t.Context())
	if err != nil || !sessions[0].Up {
		t.Errorf("the reflector's session has ended, too: %+v, %v", sessions, err)
	}
	status, err := api.NewClient(l.serverAPI).Status(t.Context())
	if err != nil || !strings.Contains(fmt.Sprint(status.Problems), "does not answer probes") {
		t.Errorf("problems %q, %v", status.Problems, err)
	}
	if !hasRoute(l.server, 10002, netip.MustParsePrefix(clientPrefix)) {
		t.Error("the table of a dead path was cleared: its return would take long")
	}
	l.border.IP("-6 rule del " + lossy)
	for n := range l.transits {
		l.eventually(path(n)+" is back", func() bool { return l.state(l.serverAPI, path(n)) == api.Up })
		l.expectTransit(epe(n), n)
	}
	exchange(t, conn, 100_000)
}

// TestSmallHop has a link on the way to the border lose packets that the server's own link
// takes. It does so without a message, before the start and while a connection is open.
func TestSmallHop(t *testing.T) {
	t.Parallel()
	const room = 4 // more than its MTU, for a VLAN tag, does a veth device take
	l := newLab(t)
	l.border.IP("link set srv mtu 1550")
	l.run()
	mtu := func(want uint32) func() bool {
		return func() bool {
			p, err := api.NewClient(l.serverAPI).Path(context.Background(), path(1))
			return err == nil && p.MTU == want
		}
	}
	l.eventually("the path MTU at the start is found", mtu(1550+room-64))
	conn := l.dialMarked(1)
	exchange(t, conn, 1_000_000)
	status, err := api.NewClient(l.serverAPI).Status(t.Context())
	if err != nil || !strings.Contains(fmt.Sprint(status.Problems), "more than 1554 bytes do not get there") {
		t.Errorf("problems %q, %v", status.Problems, err)
	}
	l.border.IP("link set srv mtu 1400")
	exchange(t, conn, 1_000_000)
	l.eventually("a smaller path MTU is found", mtu(1400+room-64))
	l.server.IP("link set eth0 mtu 1380")
	l.eventually("a smaller link is followed", mtu(1380-64))
	exchange(t, conn, 1_000_000)
	l.border.IP("link set srv mtu 1600")
	l.server.IP("link set eth0 mtu 1600")
	l.eventually("a larger link is followed", mtu(1600-64))
	exchange(t, conn, 1_000_000)
}

// problem reports whether an agent's status has a problem with this text.
func problem(socket, text string) func() bool {
	return func() bool {
		status, err := api.NewClient(socket).Status(context.Background())
		return err == nil && strings.Contains(strings.Join(status.Problems, "\n"), text)
	}
}

// TestOthersChangeTheHost changes, beneath the agents, sysctls and links that they need.
func TestOthersChangeTheHost(t *testing.T) {
	t.Parallel()
	l := running(t)
	l.probed()
	const file = "/proc/sys/net/ipv6/conf/srv/seg6_enabled"
	l.border.Sysctl("net.ipv6.conf.srv.seg6_enabled", "0")
	l.eventually("the border sets seg6_enabled back", func() bool { return strings.TrimSpace(l.border.Run("cat", file)) == "1" })

	l.server.IP("link set eth0 down")
	l.eventually("the server reports its link", problem(l.serverAPI, "the interface eth0 (srv6.interface) is down"))
	l.eventually("so does the border", problem(l.borderAPI, "the interface srv (srv6.interfaces) is down"))
	l.eventually("the paths are down", func() bool { return l.state(l.serverAPI, path(0)) == api.Down })
	l.serverAgent.kill()
	l.startServer()
	l.eventually("a server that starts reports its link", problem(l.serverAPI, "the interface eth0 (srv6.interface) is down"))
	l.server.IP("link set eth0 up")
	l.server.IP("addr replace " + plainAddr + "/64 dev eth0 nodad")
	l.server.IP("-6 route replace default via 2001:db8:5::1")
	for n := range l.transits {
		l.eventually("the paths are back", func() bool { return l.ping(epe(n)) })
	}
	l.eventually("the problem is over", func() bool { return !problem(l.serverAPI, "is down")() })

	l.server.IP("-6 route add unreachable 2001:db8:b1::/48")
	l.eventually("a SID without a route is not used", func() bool { return l.state(l.serverAPI, path(1)) == api.Down })
	l.eventually("the operator learns why", problem(l.serverAPI, "there is no route to its SID 2001:db8:b1:2::"))
	l.server.IP("-6 route del unreachable 2001:db8:b1::/48")
	l.eventually("and is used with one", func() bool { return l.state(l.serverAPI, path(1)) == api.Up })
}

// TestSilentPathOfAFormerRun starts a server again while no reflector is there. A path that
// nobody announces is used as long as its SID answers.
func TestSilentPathOfAFormerRun(t *testing.T) {
	t.Parallel()
	l := running(t)
	l.serverAgent.kill()
	l.reflector.IP("link set eth0 down")
	l.startServer()
	l.probed()
	for n := range l.transits {
		l.expectTransit(epe(n), n)
	}
	l.serverAgent.kill()
	l.border.IP("-6 rule add pref 1 iif srv to 2001:db8:b1::/48 blackhole")
	l.startServer()
	l.eventually("its silence is the reason why it is left", func() bool {
		p, err := api.NewClient(l.serverAPI).Path(context.Background(), path(1))
		return err == nil && p.State == api.Down && strings.Contains(p.Reason, "does not answer probes")
	})
}

// TestStartBesideADeadBorder starts a server whose border lost all packets to its SIDs meanwhile,
// and still announces them. In a former run they have answered.
func TestStartBesideADeadBorder(t *testing.T) {
	t.Parallel()
	l := running(t)
	l.probed()
	remembers := func(text string) {
		t.Helper()
		l.eventually("the state directory has "+text, func() bool {
			file, _ := os.ReadFile(filepath.Join(filepath.Dir(l.serverAPI), "server", "probes.json"))
			return strings.Contains(string(file), text)
		})
	}
	const border = `{"border":"192.0.2.1","sid":"2001:db8:b1:`
	remembers(`"answering":[` + border + `1::"},` + border + `2::"}]`)
	l.serverAgent.kill()
	const lossy = "pref 1 iif srv to 2001:db8:b1::/48 blackhole"
	l.border.IP("-6 rule add " + lossy)
	l.startServer()
	for n := range l.transits {
		l.eventually("a dead border's "+path(n)+" is down", func() bool {
			p, err := api.NewClient(l.serverAPI).Path(context.Background(), path(n))
			return err == nil && p.State == api.Down && p.Probe.State == "down" && p.Routes.IPv6 > 0
		})
	}
	remembers(`"dead":["2001:db8:b1:1::","2001:db8:b1:2::"]`)
	l.serverAgent.kill()
	l.startServer()
	l.eventually("the routes are there again", func() bool {
		p, err := api.NewClient(l.serverAPI).Path(context.Background(), path(0))
		if err == nil && p.State != api.Down {
			t.Fatalf("a path that was dead is %s after a crash: %s", p.State, p.Reason)
		}
		return err == nil && p.Routes.IPv6 > 0
	})
	l.border.IP("-6 rule del " + lossy)
	for n := range l.transits {
		l.eventually(path(n)+" is back", func() bool { return l.state(l.serverAPI, path(n)) == api.Up })
		l.expectTransit(epe(n), n)
	}
}

// TestNightlyBusyMachine keeps all CPUs of the server busy. That must not pass for a border's
// death.
func TestNightlyBusyMachine(t *testing.T) {
	l := running(t)
	l.probed()
	for range 4 * runtime.NumCPU() {
		l.server.Start("sh", "-c", "while :; do :; done")
	}
	const length = 20 * time.Second
	used := func() string { return l.server.Run("cat", fmt.Sprintf("/proc/%d/stat", l.serverAgent.cmd.Process.Pid)) }
	before := used()
	time.Sleep(length) // the time that is observed
	t.Logf("the agent's /proc/stat before and after %s:\n%s%s", length, before, used())
	metrics := l.server.Run("curl", "-s", "--unix-socket", l.serverAPI, "http://egress/metrics")
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "hikyaku_egress_border_") {
			t.Log(strings.TrimSpace(line))
		}
		if strings.HasPrefix(line, "hikyaku_egress_border_failures_total") && !strings.HasSuffix(line, " 0\n") {
			t.Errorf("a border that lives was found dead: %s", line)
		}
	}
}

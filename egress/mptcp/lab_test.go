package mptcp

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lab is a content server and a client, joined by links which stand for the
// ways through different transits:
//
//	server  2001:db8:5::1 (default), 2001:db8:5::a, ::b, ::c (EPE)
//	        link a, b, c
//	client  2001:db8:c::1 (and ::2, for another client of another policy)
//
// The default address leaves over link a, each EPE address over its own link,
// and likewise for IPv4 (198.51.100.x, 203.0.113.x).
type lab struct {
	t              *testing.T
	server, client string
}

var labCount atomic.Int32

var links = []string{"a", "b", "c"}

func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: MPTCP tests need root for network namespaces")
	}
	if _, err := ReadSettings(); err != nil {
		t.Skipf("SKIP: %v", err)
	}
	n := labCount.Add(1)
	l := &lab{t: t,
		server: fmt.Sprintf("egmp%d-%ds", os.Getpid(), n),
		client: fmt.Sprintf("egmp%d-%dc", os.Getpid(), n),
	}
	for _, ns := range []string{l.server, l.client} {
		run(t, "ip", "netns", "add", ns)
		t.Cleanup(func() { run(t, "ip", "netns", "del", ns) })
		run(t, "ip", "-n", ns, "link", "set", "lo", "up")
		// Duplicate address detection would hold up each test by two seconds.
		l.in(ns, func() { must(t, os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0)) })
	}
	l.ip(l.server, "addr add 2001:db8:5::1/128 dev lo", "addr add 198.51.100.1/32 dev lo")
	l.ip(l.client, "addr add 2001:db8:c::1/128 dev lo", "addr add 2001:db8:c::2/128 dev lo", "addr add 203.0.113.1/32 dev lo")
	// With delays of microseconds BBR takes bursts for the path's rate.
	l.in(l.server, func() {
		must(t, os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte("cubic"), 0))
	})
	for i, link := range links {
		l.addLink(i, link)
	}
	l.in(l.client, func() {
		must(t, Settings{PathManager: InKernel, AddAddrTimeout: 1, StaleLossCount: 4}.Apply())
		limits(t, Limits{AddAddrAccepted: 4, Subflows: 4})
	})
	return l
}

func (l *lab) addLink(i int, link string) {
	table := strconv.Itoa(100 + i)
	run(l.t, "ip", "link", "add", "eg"+link, "netns", l.server, "type", "veth", "peer", "name", "eg"+link, "netns", l.client)
	l.ip(l.server,
		"link set eg"+link+" up",
		"addr add fd00:"+link+"::1/64 dev eg"+link+" nodad",
		"addr add 2001:db8:5::"+link+"/128 dev lo nodad preferred_lft 0",
		"-6 rule add from 2001:db8:5::"+link+" lookup "+table,
		"addr add 10.0."+table+".1/24 dev eg"+link,
		"addr add 198.51.100."+table+"/32 dev lo",
		"rule add from 198.51.100."+table+" lookup "+table)
	l.ip(l.client,
		"link set eg"+link+" up",
		"addr add fd00:"+link+"::2/64 dev eg"+link+" nodad",
		"-6 route add 2001:db8:5::"+link+"/128 via fd00:"+link+"::1 src 2001:db8:c::1",
		"addr add 10.0."+table+".2/24 dev eg"+link,
		"route add 198.51.100."+table+"/32 via 10.0."+table+".1 src 203.0.113.1")
	l.route(link, true)
	if i == 0 {
		l.ip(l.server,
			"-6 route add 2001:db8:c::/64 via fd00:a::2 src 2001:db8:5::1",
			"route add 203.0.113.1/32 via 10.0.100.2 src 198.51.100.1")
		l.ip(l.client,
			"-6 route add 2001:db8:5::1/128 via fd00:a::1 src 2001:db8:c::1",
			"route add 198.51.100.1/32 via 10.0.100.1 src 203.0.113.1")
	}
}

// route gives or takes the EPE address's way to the client.
func (l *lab) route(link string, present bool) {
	verb := "replace"
	via6, via4 := " via fd00:"+link+"::2", " via 10.0."+epeTable(link)+".2"
	kind := ""
	if !present {
		kind, via6, via4 = "unreachable ", "", ""
	}
	l.ip(l.server,
		"-6 route "+verb+" "+kind+"2001:db8:c::/64"+via6+" table "+epeTable(link),
		"route "+verb+" "+kind+"203.0.113.1/32"+via4+" table "+epeTable(link))
}

func epeTable(link string) string { return strconv.Itoa(100 + int(link[0]-'a')) }

// limit holds a link's rate towards the client.
func (l *lab) limit(link string, mbit int) {
	run(l.t, "tc", "-n", l.server, "qdisc", "replace", "dev", "eg"+link, "root", "tbf",
		"rate", strconv.Itoa(mbit)+"mbit", "burst", "20kb", "latency", "60ms")
}

// blackhole makes a link lose everything towards the client, silently: frames
// go to a station that does not exist.
func (l *lab) blackhole(link string) {
	l.ip(l.server,
		"neigh replace fd00:"+link+"::2 lladdr 02:00:00:00:00:99 dev eg"+link,
		"neigh replace 10.0."+epeTable(link)+".2 lladdr 02:00:00:00:00:99 dev eg"+link)
}

func (l *lab) ip(ns string, commands ...string) {
	l.t.Helper()
	for _, c := range commands {
		run(l.t, "ip", append([]string{"-n", ns}, strings.Fields(c)...)...)
	}
}

// sent reads how many bytes the server has sent over a link.
func (l *lab) sent(link string) uint64 {
	var bytes uint64
	l.in(l.server, func() {
		text, err := os.ReadFile("/proc/thread-self/net/dev")
		must(l.t, err)
		for line := range strings.Lines(string(text)) {
			name, counters, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name == "eg"+link {
				bytes, err = strconv.ParseUint(strings.Fields(counters)[8], 10, 64)
				must(l.t, err)
			}
		}
	})
	return bytes
}

// in runs a function inside a namespace, on a thread of its own.
func (l *lab) in(ns string, f func()) {
	l.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		fd, err := unix.Open("/run/netns/"+ns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			_ = unix.Close(fd)
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	must(l.t, <-done)
}

// manage starts a Manager in the server's namespace and runs it until stop is
// called or the test ends.
func (l *lab) manage(cfg Config) (m *Manager, stop func()) {
	l.t.Helper()
	var err error
	l.in(l.server, func() {
		err = Settings{PathManager: UserSpace, AddAddrTimeout: 1, StaleLossCount: 1}.Apply()
		if err == nil {
			m, err = Start(cfg)
		}
	})
	must(l.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			must(l.t, <-ended)
		}
	}
	l.t.Cleanup(stop)
	return m, stop
}

// observe records the events of a namespace until the test ends. It makes a
// namespace with the user-space path manager accept joins.
func (l *lab) observe(ns string) *record {
	l.t.Helper()
	var listener *Listener
	var err error
	l.in(ns, func() { listener, err = Listen() })
	must(l.t, err)
	r := &record{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			events, err := listener.Receive(ctx)
			if err != nil {
				return
			}
			for _, e := range events {
				r.event(e)
			}
		}
	}()
	l.t.Cleanup(func() {
		cancel()
		<-ended
		must(l.t, listener.Close())
	})
	return r
}

// stream is one MPTCP connection over which the server sends all it can.
type stream struct {
	server, client net.Conn
	received       atomic.Uint64
	last           atomic.Int64 // Unix nanoseconds of the latest data
	gap            atomic.Int64 // longest pause in nanoseconds since mark
}

// listen accepts on all addresses, as the edge server does.
func (l *lab) listen() net.Listener {
	l.t.Helper()
	var listener net.Listener
	l.in(l.server, func() {
		var lc net.ListenConfig
		lc.SetMultipathTCP(true)
		var err error
		listener, err = lc.Listen(context.Background(), "tcp", "[::]:8080")
		must(l.t, err)
	})
	l.t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// connect opens a connection from one of the client's addresses.
func (l *lab) connect(listener net.Listener, from, to string) *stream {
	l.t.Helper()
	s := &stream{}
	var err error
	l.in(l.client, func() {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 30 * time.Second}
		d.SetMultipathTCP(true)
		s.client, err = d.Dial("tcp", net.JoinHostPort(to, "8080"))
	})
	must(l.t, err)
	s.server, err = listener.Accept()
	must(l.t, err)
	// The first data complete the handshake (RFC 8684 §3.1).
	_, err = s.client.Write([]byte("GET"))
	must(l.t, err)
	_, err = io.ReadFull(s.server, make([]byte, 3))
	must(l.t, err)
	l.t.Cleanup(func() { _, _ = s.client.Close(), s.server.Close() })
	return s
}

// flow sends until the connection closes.
func (s *stream) flow() {
	s.mark()
	go func() {
		chunk := make([]byte, 64<<10)
		for {
			if _, err := s.server.Write(chunk); err != nil {
				return
			}
		}
	}()
	go func() {
		buffer := make([]byte, 256<<10)
		for {
			n, err := s.client.Read(buffer)
			if err != nil {
				return
			}
			now := time.Now().UnixNano()
			if pause := now - s.last.Swap(now); pause > s.gap.Load() {
				s.gap.Store(pause)
			}
			s.received.Add(uint64(n))
		}
	}()
}

// mark begins a new measurement of the longest pause.
func (s *stream) mark() {
	s.last.Store(time.Now().UnixNano())
	s.gap.Store(0)
}

func (s *stream) longestGap() time.Duration { return time.Duration(s.gap.Load()) }

func (s *stream) remote() netip.AddrPort {
	return unmap(s.server.RemoteAddr().(*net.TCPAddr).AddrPort())
}

func (s *stream) local() netip.AddrPort {
	return unmap(s.server.LocalAddr().(*net.TCPAddr).AddrPort())
}

// eventually waits for a condition; the machine may be slow.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30 s in vain until %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func limits(t *testing.T, want Limits) {
	t.Helper()
	c, err := Dial()
	must(t, err)
	must(t, c.SetLimits(want))
	must(t, c.Close())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package flows

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"hikyaku/egress/bpf"
)

// BenchmarkThroughput sends through SRv6 over a veth pair in slices of some milliseconds.
// It does so in turns without a program, with an empty one, which shows the cost of the
// hook alone, and counting. A share is made of two slices of one round; reported are the
// median and quartiles.
//
// Attaching and detaching disturbs the CPU for longer than a slice takes: it changes code of
// the kernel. So the arm without a program attaches and detaches one before its slice, and
// each slice begins with datagrams that are not measured.
//
// Rates are by the CPU time of one thread, which other load disturbs less than the
// clock. TCP, counted once for many packets, is written and read by it in turn. UDP
// datagrams, each a packet of its own, are the worst case; the way to the
// receiver's socket is in their time. The table is read in all arms: what that
// takes is BenchmarkRead's.
func BenchmarkThroughput(b *testing.B) {
	b.Run("TCP", func(b *testing.B) {
		l := newLab(b, 1600, func(*lab) {})
		s := l.newStream()
		inTurns(b, l, 1, "Gbit/CPU-s", func() float64 { s.send(100); return s.send(500) })
	})
	for _, flows := range []int{1, 100, 10_000, 100_000, 500_000} {
		for _, t := range traffics() {
			if flows != 1 && flows != 100_000 && t != traffics()[0] {
				continue
			}
			b.Run(fmt.Sprintf("%s, flows=%d", t.name, flows), func(b *testing.B) {
				l := newLab(b, 1600, func(*lab) {})
				s := l.newSender(t, flows)
				inTurns(b, l, flows, "Mpkt/CPU-s", func() float64 { s.send(t.slice / 4); return 1e3 / s.send(t.slice) })
			})
		}
	}
}

// traffic describes the calls of a sender.
type traffic struct {
	name    string
	manner  int // of manners
	size    int // of the payload of a call, in bytes
	segment int // the size of the datagrams that the kernel cuts it into; 0 for one datagram
	slice   int // calls in a measurement
}

func traffics() []traffic {
	return []traffic{
		{"UDP datagrams", 0, 1200, 0, 4000},
		{"UDP datagrams over IPv4", 2, 1200, 0, 4000},
		{"UDP datagrams of 60 bytes", 0, 60, 0, 4000},
		{"UDP by GSO", 0, 40 * 1200, 1200, 300},
	}
}

// BenchmarkLive measures what the program takes of each datagram of that traffic,
// by the kernel's own statistics, less what these take of an empty one. The table
// is read each 100 ms meanwhile.
func BenchmarkLive(b *testing.B) {
	for _, flows := range liveFlows {
		b.Run(fmt.Sprintf("flows=%d", flows), func(b *testing.B) {
			l := newLab(b, 1600, func(*lab) {})
			s := l.newSender(traffics()[0], flows)
			empty, counting := emptyCollection(b), l.counting(flows)
			stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
			if err != nil {
				b.Fatal(err)
			}
			defer stats.Close()
			l.with(counting, func() { s.send(flows) }) // insert all
			var cost measured
			for b.Loop() {
				cost.add(-l.runTime(empty, s))
				cost[len(cost)-1] += l.runTime(counting, s)
			}
			b.ReportMetric(0, "ns/op")
			cost.report(b, "ns/packet")
		})
	}
}

// Of 100,000 flows, each sends again only after all others.
var liveFlows = []int{1, 100_000}

// runTime returns the program's mean time in nanoseconds while s sends.
func (l *lab) runTime(coll *ebpf.Collection, s *sender) float64 {
	l.tb.Helper()
	stats := func() *ebpf.ProgramStats {
		stats, err := coll.Programs[bpf.Program].Stats()
		if err != nil {
			l.tb.Fatal(err)
		}
		return stats
	}
	before := stats()
	l.with(coll, func() { s.send(4000) })
	after := stats()
	return float64(after.Runtime-before.Runtime) / float64(after.RunCount-before.RunCount)
}

// inTurns measures a rate in each of the three arms, in an order that turns.
func inTurns(b *testing.B, l *lab, flows int, unit string, rate func() float64) {
	b.Helper()
	arms := []*ebpf.Collection{nil, emptyCollection(b), l.counting(flows)}
	var without, hook, counting measured
	rates := make([]float64, len(arms))
	rate()
	for first := 0; b.Loop(); first++ {
		for i := range arms {
			arm := (first + i) % len(arms)
			if arms[arm] == nil {
				l.with(arms[1], func() {})
			}
			l.with(arms[arm], func() { rates[arm] = rate() })
		}
		without.add(rates[0])
		hook.add(rates[1] / rates[0] * 100)
		counting.add(rates[2] / rates[0] * 100)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(without.median(), unit+"-without")
	hook.report(b, "%-hook")
	counting.report(b, "%-counting")
}

// report reports median and quartiles.
func (m measured) report(b *testing.B, unit string) {
	b.ReportMetric(m.median(), unit)
	b.ReportMetric(m[len(m)/4], unit+"-q1")
	b.ReportMetric(m[len(m)*3/4], unit+"-q3")
}

func emptyCollection(b *testing.B) *ebpf.Collection {
	return &ebpf.Collection{Programs: map[string]*ebpf.Program{bpf.Program: emptyProgram(b)}}
}

// counting loads the program, with room for the flows, without attaching it, and reads its table as [Run]
// does until the test ends.
func (l *lab) counting(flows int) *ebpf.Collection {
	l.tb.Helper()
	counter := l.attach(Options{MaxFlows: max(DefaultMaxFlows, flows)})
	if err := counter.Detach(); err != nil {
		l.tb.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	l.tb.Cleanup(func() { close(stop); <-stopped })
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(DefaultInterval)
		defer ticker.Stop()
		for sample := new(Sample); ; {
			select {
			case <-stop:
				return
			case now := <-ticker.C:
				if err := counter.Read(now, sample); err != nil {
					l.tb.Error(err)
				}
			}
		}
	}()
	return counter.program.coll
}

// with does something while a program, if any, is attached.
func (l *lab) with(coll *ebpf.Collection, do func()) {
	l.tb.Helper()
	if coll == nil {
		do()
		return
	}
	var attached attachment
	var err error
	l.server.Do(func() {
		var on netlink.Link
		if on, err = netlink.LinkByName(device); err == nil {
			attached, _, err = attachProgram(on, coll, HookAuto)
		}
	})
	if err != nil {
		l.tb.Fatal(err)
	}
	do()
	if err := attached.detach(); err != nil {
		l.tb.Fatal(err)
	}
}

// sender sends datagrams to many clients in turns, in shuffled order.
type sender struct {
	tb      testing.TB
	fd      int
	payload []byte
	clients []unix.Sockaddr
	next    int
}

// newSender makes a sender of that many flows. A single one has a connected
// socket, which costs the least, so that counting shows the most.
func (l *lab) newSender(t traffic, flows int) *sender {
	l.tb.Helper()
	const port = 5000
	m := manners()[t.manner]
	family, clients, wildcard := unix.AF_INET6, netip.MustParsePrefix("2001:db8:5::/48"), netip.IPv6Unspecified()
	if m.client.Is4() {
		family, clients, wildcard = unix.AF_INET, netip.MustParsePrefix("100.64.0.0/10"), netip.IPv4Unspecified()
	}
	l.client.IP(fmt.Sprintf("-%d route add local %s dev lo", ipVersion(m.client), clients))
	l.server.IP(fmt.Sprintf("-%d route add %s encap seg6 mode %s segs %s dev eth0 src %s",
		ipVersion(m.client), clients, m.mode, m.sid, m.source))
	receiver, _ := l.listen("udp", netip.AddrPortFrom(wildcard, port))
	l.tb.Cleanup(func() { receiver.Close() })
	s := &sender{tb: l.tb, payload: make([]byte, t.size)}
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(flows) {
		s.clients = append(s.clients, sockaddr(nth(clients, i), port))
	}
	var err error
	l.server.Do(func() { s.fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) })
	if err != nil {
		l.tb.Fatal(err)
	}
	l.tb.Cleanup(func() { unix.Close(s.fd) })
	if err := unix.Bind(s.fd, sockaddr(m.source, int(m.port))); err != nil {
		l.tb.Fatal(err)
	}
	if t.segment != 0 {
		if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, t.segment); err != nil {
			l.tb.Fatal(err)
		}
	}
	if flows == 1 {
		if err := unix.Connect(s.fd, s.clients[0]); err != nil {
			l.tb.Fatal(err)
		}
		s.clients[0] = nil
	}
	return s
}

func ipVersion(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

// nth returns an address of the prefix, another one for each i.
func nth(prefix netip.Prefix, i int) netip.Addr {
	raw := prefix.Addr().AsSlice()
	for at := len(raw) - 3; at < len(raw); at++ {
		raw[at] |= byte(i >> (8 * (len(raw) - 1 - at)))
	}
	a, _ := netip.AddrFromSlice(raw)
	return a
}

func sockaddr(a netip.Addr, port int) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Port: port, Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Port: port, Addr: a.As16()}
}

// send sends that many times, and returns the CPU time of one in nanoseconds.
func (s *sender) send(times int) float64 {
	s.tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := cpuTime(s.tb, unix.CLOCK_THREAD_CPUTIME_ID)
	for range times {
		var err error
		if to := s.clients[s.next]; to == nil {
			_, err = unix.Write(s.fd, s.payload)
		} else {
			err = unix.Sendto(s.fd, s.payload, 0, to)
		}
		if err != nil {
			s.tb.Fatal(err)
		}
		s.next = (s.next + 1) % len(s.clients)
	}
	return float64(cpuTime(s.tb, unix.CLOCK_THREAD_CPUTIME_ID)-began) / float64(times)
}

// cpuTime reads a clock of CPU time in nanoseconds. What the kernel does in soft
// interrupts on its way out of a system call is in it.
func cpuTime(tb testing.TB, clock int32) int64 {
	tb.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		tb.Fatal(err)
	}
	return t.Nano()
}

// stream is a TCP connection with both ends in this process.
type stream struct {
	tb           testing.TB
	server, peer *os.File
}

func (l *lab) newStream() *stream {
	l.tb.Helper()
	m := manners()[0]
	_, listener := l.listen("tcp", netip.AddrPortFrom(m.client, clientPort))
	defer listener.Close()
	conn := l.dial("tcp", netip.AddrPortFrom(m.source, m.port), netip.AddrPortFrom(m.client, clientPort))
	peer, err := listener.Accept()
	if err != nil {
		l.tb.Fatal(err)
	}
	defer peer.Close()
	return &stream{tb: l.tb, server: l.blocking(conn), peer: l.blocking(peer)}
}

// blocking gives the connection's socket outside of Go's scheduler.
func (l *lab) blocking(conn net.Conn) *os.File {
	l.tb.Helper()
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		l.tb.Fatal(err)
	}
	l.tb.Cleanup(func() { file.Close() })
	if err := unix.SetNonblock(int(file.Fd()), false); err != nil {
		l.tb.Fatal(err)
	}
	return file
}

// send writes and reads that many pieces of 64 KiB, and returns the rate in bits
// by nanosecond of CPU time.
func (s *stream) send(pieces int) float64 {
	s.tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	piece := make([]byte, 1<<16)
	began := cpuTime(s.tb, unix.CLOCK_THREAD_CPUTIME_ID)
	for range pieces {
		if _, err := s.server.Write(piece); err != nil {
			s.tb.Fatal(err)
		}
		if _, err := io.ReadFull(s.peer, piece); err != nil {
			s.tb.Fatal(err)
		}
	}
	bits := float64(pieces * len(piece) * 8)
	return bits / float64(cpuTime(s.tb, unix.CLOCK_THREAD_CPUTIME_ID)-began)
}

package speaker

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"golang.org/x/sys/unix"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

// The load of the egress plane's goal: a full IPv6 table from four peers.
const (
	loadPeers  = 4
	loadPerMsg = 50 // prefixes with the same attributes, a little more than in real tables
)

// loadRoutes is how many routes each peer has; -short takes a tenth.
func loadRoutes() int {
	if testing.Short() {
		return 20_000
	}
	return 200_000
}

func loadTotal() int64 { return int64(loadRoutes() * loadPeers) }

// BenchmarkBorderLoad is a border that takes full tables from its peers and
// announces each to a reflector. Peers and reflector are fakes in the same
// process, so time and memory include what they need to write and parse.
// Then one peer is lost.
func BenchmarkBorderLoad(b *testing.B) {
	for b.Loop() {
		down := make(chan time.Time, 1)
		config := Config{OnPeerDown: func(PeerDown) { down <- time.Now() }, EndOfRIBTime: time.Hour}
		reflector := listenAsReflector(b)
		config.Neighbors = []Neighbor{reflector.neighbor("rr", VPNv6)}
		var transits []*fakeReflector
		for i := range loadPeers {
			transits = append(transits, listenAs(b, uint32(64601+i)))
			config.Neighbors = append(config.Neighbors, transits[i].neighbor(fmt.Sprint("t", i), IPv6Unicast))
		}
		s := startSpeaker(b, loopback(), config)
		before := liveHeap()
		var reflected, gone atomic.Int64
		reflector.accept(func(u *bgp.BGPUpdate) {
			reflected.Add(int64(len(bgptest.Announced(u))))
			for _, a := range u.PathAttributes {
				if mp, ok := a.(*bgp.PathAttributeMpUnreachNLRI); ok {
					gone.Add(int64(len(mp.Value)))
				}
			}
		}, bgp.RF_IPv6_VPN)
		var learned atomic.Int64
		go announceAll(b, s, &learned)

		begin, beginCPU := time.Now(), cpuTime(b)
		var peers []*fakePeer
		for _, r := range transits {
			p := r.accept(nil, bgp.RF_IPv6_UC)
			peers = append(peers, p)
			go sendTable(p, r.as)
		}
		await(b, "routes learned", &learned, loadTotal())
		b.ReportMetric(time.Since(begin).Seconds(), "s/learned")
		await(b, "routes announced to the reflector", &reflected, loadTotal())
		b.ReportMetric(time.Since(begin).Seconds(), "s/announced")
		b.ReportMetric((cpuTime(b) - beginCPU).Seconds(), "cpu-s/announced")
		reportMemory(b, before)

		lost := time.Now()
		peers[0].conn.Close()
		b.ReportMetric(float64((<-down).Sub(lost).Microseconds())/1000, "ms/down")
		await(b, "routes of the lost peer withdrawn", &gone, int64(loadRoutes()))
		b.ReportMetric(time.Since(lost).Seconds(), "s/withdrawn")
		s.Close()
	}
}

// announceAll does the work of a border's planner, without a kernel. It keeps each
// peer's prefixes, announces them, and withdraws them when the peer is lost.
func announceAll(b *testing.B, s *testSpeaker, learned *atomic.Int64) {
	kept := make(map[string][]Learned)
	for e := range s.Events() {
		switch e := e.(type) {
		case Learned:
			id, route := testRoute(b, s.at.Addr(), e.Peer, srv6.EndDT6)
			route.Attributes = *e.Attributes
			kept[e.Peer] = append(kept[e.Peer], e)
			if err := s.AnnounceVPN(VPNAnnouncement{RD: id.RD, Route: route, Prefixes: e.Prefixes}); err != nil {
				b.Error(err)
			}
			learned.Add(int64(len(e.Prefixes)))
		case PeerDown:
			id := bgptest.Identity(b, s.at.Addr(), e.Peer)
			for _, l := range kept[e.Peer] {
				if err := s.WithdrawVPN(id.RD, l.Prefixes); err != nil {
					return // the speaker was closed
				}
			}
			delete(kept, e.Peer)
		}
	}
}

// BenchmarkServerLoad is a server that takes all peers' VPN routes from two
// reflectors, which say the same.
func BenchmarkServerLoad(b *testing.B) {
	for b.Loop() {
		config := Config{StaleTime: time.Hour, EndOfRIBTime: time.Hour}
		var reflectors []*fakeReflector
		for i := range 2 {
			reflectors = append(reflectors, listenAsReflector(b))
			config.Neighbors = append(config.Neighbors, reflectors[i].neighbor(fmt.Sprint("rr", i), VPNv6))
		}
		s := startSpeaker(b, loopback(), config)
		before := liveHeap()
		var learned, synced atomic.Int64
		go func() {
			for e := range s.Events() {
				switch e := e.(type) {
				case VPNLearned:
					learned.Add(int64(len(e.Prefixes)))
				case EndOfRIB:
					synced.Add(1)
				}
			}
		}()
		begin, beginCPU := time.Now(), cpuTime(b)
		for _, r := range reflectors {
			go sendVPNTables(r.accept(nil, bgp.RF_IPv6_VPN), b, s)
		}
		await(b, "VPN routes learned", &learned, loadTotal())
		b.ReportMetric(time.Since(begin).Seconds(), "s/learned")
		await(b, "reflectors in sync", &synced, 2)
		b.ReportMetric(time.Since(begin).Seconds(), "s/synced")
		b.ReportMetric((cpuTime(b) - beginCPU).Seconds(), "cpu-s/synced")
		reportMemory(b, before)
		if n := learned.Load(); n != loadTotal() {
			b.Errorf("%d routes were reported, want each of %d once", n, loadTotal())
		}
		s.Close()
	}
}

// BenchmarkReflectedToBorder is a border's session on which a reflector sends it the VPN
// routes of other borders. The routes are taken as a server that wants them takes them, and
// as the border does.
func BenchmarkReflectedToBorder(b *testing.B) {
	table := encodeVPNTables(b)
	for _, c := range []struct {
		name         string
		announceOnly bool
	}{{"taken", false}, {"skipped", true}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				r := listenAsReflector(b)
				s := startSpeaker(b, loopback(), Config{
					Neighbors: []Neighbor{r.neighbor("rr", VPNv6)}, EndOfRIBTime: time.Hour, AnnounceOnly: c.announceOnly,
				})
				p := r.accept(nil, bgp.RF_IPv6_VPN)
				beginCPU := cpuTime(b)
				go func() {
					if _, err := p.conn.Write(table); err != nil {
						b.Error(err)
					}
				}()
				skipTo[EndOfRIB](s, nil)
				b.ReportMetric((cpuTime(b) - beginCPU).Seconds(), "cpu-s/synced")
				s.Close()
			}
		})
	}
}

// encodeVPNTables returns the messages of sendVPNTables, in bytes.
func encodeVPNTables(b *testing.B) (table []byte) {
	for peer := range loadPeers {
		id := bgptest.Identity(b, loopback(), fmt.Sprint("t", peer))
		for first := 0; first < loadRoutes(); first += loadPerMsg {
			attributes := Attributes{ASPath: NewASPath(uint32(64601+peer), uint32(100_000+first), 64700)}
			encoded, err := NewVPNRoute(bgptest.Service(id, srv6.EndDT6), attributes, id.RT).Encode()
			if err != nil {
				b.Fatal(err)
			}
			u := wire.Announcement(encoded, netip.MustParseAddr("2001:db8::1"), VPNv6, wire.MaxMessage)
			table = u.Append(table, id.RD, bgptest.Prefixes6(first, loadPerMsg))
		}
	}
	return wire.AppendEndOfRIB(table, VPNv6)
}

func sendTable(p *fakePeer, as uint32) {
	for first := 0; first < loadRoutes(); first += loadPerMsg {
		p.send(bgptest.Announce6(p.t, []uint32{as, uint32(100_000 + first), 64700}, bgptest.Prefixes6(first, loadPerMsg)))
	}
}

func sendVPNTables(p *fakePeer, b *testing.B, s *testSpeaker) {
	for peer := range loadPeers {
		id := bgptest.Identity(b, s.at.Addr(), fmt.Sprint("t", peer))
		for first := 0; first < loadRoutes(); first += loadPerMsg {
			attributes := Attributes{ASPath: NewASPath(uint32(64601+peer), uint32(100_000+first), 64700)}
			route := NewVPNRoute(bgptest.Service(id, srv6.EndDT6), attributes, id.RT)
			p.send(vpnMessage(b, id.RD, route, bgptest.Prefixes6(first, loadPerMsg)))
		}
	}
	p.send(bgp.NewEndOfRib(bgp.RF_IPv6_VPN))
}

// await waits until n has been counted; the time limit only ends a hung run.
func await(b *testing.B, what string, count *atomic.Int64, n int64) {
	b.Helper()
	for deadline := time.Now().Add(10 * time.Minute); count.Load() < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%s: %d of %d after 10 minutes", what, count.Load(), n)
		}
	}
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// reportMemory reports the greatest resident size of the process so far, and
// what lives on the heap.
func reportMemory(b *testing.B, before uint64) {
	b.ReportMetric(float64(residentPeak(b))/1e6, "MB/peak")
	live := liveHeap() - before
	b.ReportMetric(float64(live)/1e6, "MB/live")
	b.ReportMetric(float64(live)/float64(loadTotal()), "B/route")
}

// cpuTime is the time that the process has used on all cores. On a machine with other work
// it says more than the time that passed.
func cpuTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func residentPeak(b *testing.B) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range bytes.Lines(status) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == "VmHWM:" {
			kib, err := strconv.ParseInt(string(fields[1]), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib << 10
		}
	}
	b.Fatal("the kernel does not report the resident size")
	return 0
}

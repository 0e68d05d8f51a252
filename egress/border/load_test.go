package border_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"hikyaku/egress/border"
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/rpki"
	"hikyaku/egress/speaker"
)

const (
	loadPeers  = 8
	loadRoutes = 200_000 // a peer
	loadShared = 4       // routes that have the same attributes, about as in real tables
)

// loadPrefix is one of the Internet's size: a /48 of its own /32 of four.
func loadPrefix(n int) netip.Prefix {
	a := [16]byte{0x2a}
	binary.BigEndian.PutUint32(a[2:], uint32(n))
	return netip.PrefixFrom(netip.AddrFrom16(a), 48)
}

// loadWorld is a planner with full tables of all peers, whose steps nobody executes.
func loadWorld(b *testing.B) *border.Planner {
	b.Helper()
	text := borderTOML[:strings.Index(borderTOML, "[[peer]]")]
	for n := range loadPeers {
		text += fmt.Sprintf("[[peer]]\nname = \"p%d\"\nnumber = %d\naddress = \"2001:db8:a%d::1\"\nasn = 64601\n", n, n+1, n)
	}
	file, err := config.Parse("border.toml", []byte(text))
	if err != nil {
		b.Fatal(err)
	}
	p := border.New(file.Border, border.Options{
		Anchor: "anchor", Lookup: func(*config.Peer) border.Lookup { return border.ByTable },
		Resolve: func(_ *config.Peer, hop netip.Addr) (border.Hop, error) {
			return border.Hop{Device: "eth1", Gateway: hop}, nil
		},
	}, kernel.State{})
	for n := range loadPeers {
		name := fmt.Sprint("p", n)
		p.PeerUp(name)
		for i := 0; i < loadRoutes; i += loadShared {
			a := attributes(0)
			a.ASPath = speaker.NewASPath(64601, uint32(1000+i/16), uint32(i))
			var prefixes []netip.Prefix
			for j := range loadShared {
				prefixes = append(prefixes, loadPrefix(i+j))
			}
			p.Learned(speaker.Learned{Peer: name, Prefixes: prefixes, Attributes: &a})
		}
		flushAll(p, name)
	}
	return p
}

func flushAll(p *border.Planner, name string) {
	for p.Pending(name) {
		p.Flush(name, 1024)
	}
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkLoad is the planner of a border with full tables of eight peers.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		before, begin := liveHeap(), time.Now()
		p := loadWorld(b)
		b.ReportMetric(float64(time.Since(begin).Nanoseconds())/(loadPeers*loadRoutes), "ns/route")
		b.ReportMetric(float64(liveHeap()-before)/(loadPeers*loadRoutes), "B/route")
		runtime.KeepAlive(p)
	}
}

// BenchmarkVRPs judges full tables anew: when the first VRPs come, and after a small change.
func BenchmarkVRPs(b *testing.B) {
	p := loadWorld(b)
	var list []rpki.VRP
	for i := range loadRoutes {
		v, err := rpki.NewVRP(loadPrefix(i), 48, uint32(i/loadShared*loadShared))
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, v)
	}
	first, second := rpki.NewTable(list), rpki.NewTable(list[:len(list)-100])
	for b.Loop() {
		for what, vrps := range map[string]*rpki.Table{"first": first, "changed": second} {
			p.SetVRPs(nil)
			if what == "changed" {
				p.SetVRPs(first)
			}
			for n := range loadPeers {
				flushAll(p, fmt.Sprint("p", n))
			}
			begin := time.Now()
			p.SetVRPs(vrps)
			for n := range loadPeers {
				flushAll(p, fmt.Sprint("p", n))
			}
			b.ReportMetric(float64(time.Since(begin).Milliseconds())/loadPeers, "ms/peer-"+what)
		}
	}
}

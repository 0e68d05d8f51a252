package flows

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"hikyaku/egress/bpf"
)

// BenchmarkPacket measures the program alone, by the kernel's own statistics. Each packet
// is of another flow than the one before, flows in shuffled order. "swept" also sweeps a
// buffer once each 1,000 packets, so that no flow's place is cached near the CPU. The
// buffer is many times as large as the second-level cache.
//
// clock-ns is what the statistics themselves add (those of an empty program).
func BenchmarkPacket(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("SKIPPED: running an eBPF program needs root")
	}
	cases := []struct {
		name  string
		flows int
		sweep int // bytes
	}{
		{"one flow", 1, 0},
		{"100,000 flows", 100_000, 0},
		{"100,000 flows, swept", 100_000, 64 << 20},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			p, _ := loaded(b, Options{}, 14)
			clock := newRunner(b, emptyProgram(b), c.flows)
			runner := newRunner(b, p.coll.Programs[bpf.Program], c.flows)
			runner.run(b, c.flows, 0) // insert all
			run, base := measured{}, measured{}
			const batch = 10_000
			for b.Loop() {
				// In turns: a busy machine then disturbs both alike.
				base.add(clock.run(b, batch, c.sweep))
				run.add(runner.run(b, batch, c.sweep))
			}
			b.ReportMetric(run.median(), "ns/packet")
			b.ReportMetric(base.median(), "clock-ns")
		})
	}
}

// measured holds nanoseconds per packet of several batches.
type measured []float64

func (m *measured) add(v float64) { *m = append(*m, v) }

func (m measured) median() float64 {
	slices.Sort(m)
	return m[len(m)/2]
}

func emptyProgram(b *testing.B) *ebpf.Program {
	b.Helper()
	empty, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "MIT",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { empty.Close() })
	return empty
}

// runner runs a program on packets of many flows.
type runner struct {
	program *ebpf.Program
	order   []int
	next    int
	frame   []byte
	buffer  []byte
}

func newRunner(b *testing.B, program *ebpf.Program, flows int) *runner {
	b.Helper()
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stats.Close() })
	return &runner{
		program: program,
		order:   rand.New(rand.NewPCG(1, 2)).Perm(flows),
		frame:   encapsulated(sidA, protoIPv6, ipv6(host, client, protoTCP, tcp(443, 1, 1200))),
	}
}

// run sends that many packets and returns the mean time of one.
func (r *runner) run(b *testing.B, packets, sweep int) float64 {
	b.Helper()
	if len(r.buffer) != sweep {
		r.buffer = make([]byte, sweep)
	}
	before, err := r.program.Stats()
	if err != nil {
		b.Fatal(err)
	}
	for i := range packets {
		if i%1000 == 0 {
			for at := 0; at < len(r.buffer); at += 64 {
				r.buffer[at]++
			}
		}
		setFlow(r.frame, r.order[r.next])
		r.next = (r.next + 1) % len(r.order)
		if _, err := r.program.Run(&ebpf.RunOptions{Data: r.frame}); err != nil {
			b.Fatal(err)
		}
	}
	after, err := r.program.Stats()
	if err != nil {
		b.Fatal(err)
	}
	return float64(after.Runtime-before.Runtime) / float64(after.RunCount-before.RunCount)
}

// setFlow gives the frame, which is of the form of encapsulated, the addresses
// and ports of one of many clients.
func setFlow(frame []byte, flow int) {
	const inner = 14 + 40 + 24
	client := netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 2, byte(flow >> 14), byte(flow >> 6), 15: byte(flow)})
	copy(frame[inner+24:], client.AsSlice())
	binary.BigEndian.PutUint16(frame[inner+42:], uint16(1024+flow%64*7))
}

// BenchmarkRead reads a table of 100,000 flows, of which some grew in between. It reads as
// often as each 100 ms, and with the look at all places that comes each second.
func BenchmarkRead(b *testing.B) {
	for _, c := range []struct {
		name string
		grow int
		all  bool
	}{
		{"all of 100,000 flows grew", 100_000, false},
		{"1,000 of 100,000 flows grew", 1000, false},
		{"none of 100,000 flows grew", 0, false},
		{"none of 100,000 flows grew, all places", 0, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			places := 2 * DefaultMaxFlows
			table := newTable(make([]bpf.Flow, places), make([]bpf.Marks, places/placesOfMarks), make([]bpf.SID, bpf.SIDSlots), DefaultIdle, fakeKernel{})
			order := rand.New(rand.NewPCG(1, 2)).Perm(places)[:100_000]
			for _, i := range order {
				table.flows[i] = bpf.Flow{Key: [5]uint64{uint64(i), 2, 3, 4, 6<<56 | 6<<48}, State: bpf.StateLive, Packets: 1, Bytes: 100}
			}
			records, err := table.read(start, nil)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				b.StopTimer()
				for _, i := range order[:c.grow] {
					table.flows[i].Packets++
					group := i / bpf.GroupPlaces
					table.marks[group/groupsOfMarks][group%groupsOfMarks/8] |= 1 << (group % 8 * 8)
				}
				if c.all {
					table.lookAtAll()
				}
				b.StartTimer()
				if records, err = table.read(start, records[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

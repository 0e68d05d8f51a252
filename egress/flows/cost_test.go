package flows

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// BenchmarkPacket measures the program alone, by the kernel's own statistics:
// each packet is of another flow than the one before, flows in shuffled order.
// "swept" also sweeps the caches between rounds of 1,000 packets with a buffer
// larger than the second-level cache, so that no flow's line is still there.
// The cost of the kernel's clock itself is in "nothing".
func BenchmarkPacket(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("SKIPPED: running an eBPF program needs root")
	}
	cases := []struct {
		name  string
		flows int
		sweep int // bytes
	}{
		{"hot flow", 1, 0},
		{"100,000 flows", 100_000, 0},
		{"100,000 flows, swept", 100_000, 64 << 20},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			p, err := load(Options{MaxFlows: DefaultMaxFlows}, 14)
			if err != nil {
				b.Fatal(err)
			}
			defer p.close()
			benchmarkRuns(b, p.coll.Programs["count_flows"], c.flows, c.sweep)
		})
	}
	b.Run("nothing", func(b *testing.B) {
		empty, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.SchedCLS, License: "MIT",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
		})
		if err != nil {
			b.Fatal(err)
		}
		defer empty.Close()
		benchmarkRuns(b, empty, 100_000, 0)
	})
}

func benchmarkRuns(b *testing.B, program *ebpf.Program, flows, sweep int) {
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		b.Fatal(err)
	}
	defer stats.Close()
	order := rand.New(rand.NewPCG(1, 2)).Perm(flows)
	buffer := make([]byte, sweep)
	frame := encapsulated(sidA, protoIPv6, ipv6(host, client, protoTCP, tcp(443, 1, 1200)))
	run := func(flow int) {
		setFlow(frame, flow)
		if _, err := program.Run(&ebpf.RunOptions{Data: frame, Repeat: 1}); err != nil {
			b.Fatal(err)
		}
	}
	for _, flow := range order {
		run(flow)
	}
	before, err := program.Stats()
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		if sweep > 0 && i%1000 == 0 {
			for at := 0; at < len(buffer); at += 64 {
				buffer[at]++
			}
		}
		run(order[i%flows])
	}
	after, err := program.Stats()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(after.Runtime-before.Runtime)/float64(after.RunCount-before.RunCount), "ns/packet")
}

// setFlow gives the frame the addresses and ports of one of many clients.
func setFlow(frame []byte, flow int) {
	inner := 14 + 40 + 24
	client := netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 2, byte(flow >> 14), byte(flow >> 6), 15: byte(flow)})
	copy(frame[inner+24:], client.AsSlice())
	binary.BigEndian.PutUint16(frame[inner+42:], uint16(1024+flow%64*7))
}

package flows

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

func TestDesigns(t *testing.T) {
	files, _ := filepath.Glob("/tmp/eg-F/designs/*.o")
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		t.Fatal(err)
	}
	defer stats.Close()
	type dut struct {
		name string
		p    *ebpf.Program
	}
	var duts []dut
	for _, f := range files {
		for _, n := range []uint32{1 << 17, 1 << 18} {
			spec, err := ebpf.LoadCollectionSpec(f)
			if err != nil {
				t.Fatal(err)
			}
			spec.Maps["flows"].MaxEntries = n
			if spec.Maps["slots"] != nil {
				spec.Maps["slots"].MaxEntries = n
			}
			if spec.Maps["hmap"] != nil {
				spec.Maps["hmap"].MaxEntries = n
			}
			spec.Variables["flow_mask"].Set(n - 1)
			keys := make([]uint64, spec.Variables["hash_keys"].Size()/8)
			r := rand.New(rand.NewPCG(3, 4))
			for i := range keys {
				keys[i] = r.Uint64()
			}
			spec.Variables["hash_keys"].Set(keys)
			c, err := ebpf.NewCollection(spec)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			duts = append(duts, dut{strings.TrimSuffix(filepath.Base(f), ".o") + fmt.Sprintf("/%d", n), c.Programs["count_flows"]})
		}
	}
	const flows = 100_000
	order := rand.New(rand.NewPCG(1, 2)).Perm(flows)
	frame := encapsulated(sidA, protoIPv6, ipv6(host, client, protoTCP, tcp(443, 1, 1200)))
	buffer := make([]byte, 64<<20)
	measure := func(p *ebpf.Program, n, sweepEvery, at int, one bool) float64 {
		b, _ := p.Stats()
		for i := range n {
			if sweepEvery > 0 && i%sweepEvery == 0 {
				for a := 0; a < len(buffer); a += 64 {
					buffer[a]++
				}
			}
			fl := order[(at+i)%flows]
			if one {
				fl = 7
			}
			setFlow(frame, fl)
			if _, err := p.Run(&ebpf.RunOptions{Data: frame, Repeat: 1}); err != nil {
				t.Fatal(err)
			}
		}
		a, _ := p.Stats()
		return float64(a.Runtime-b.Runtime) / float64(a.RunCount-b.RunCount)
	}
	for _, d := range duts {
		measure(d.p, flows, 0, 0, false)
	}
	for round := range 3 {
		for _, d := range duts {
			t.Logf("round %d %-20s hot %6.1f  shuffled %6.1f  swept %6.1f", round, d.name,
				measure(d.p, 50000, 0, 0, true), measure(d.p, flows, 0, 0, false), measure(d.p, 20000, 1000, 0, false))
		}
	}
	_ = os.Stdout
}

package flows

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// total sums records by kind.
func total(records []Record) map[Kind]Counts {
	sums := make(map[Kind]Counts)
	for _, r := range records {
		sums[r.Kind] = sums[r.Kind].Plus(r.Delta)
	}
	return sums
}

func numbered(flow int) []byte {
	frame := encapsulated(sidA, protoIPv6, ipv6(host, client, protoTCP, tcp(443, 1, 100)))
	setFlow(frame, flow)
	return frame
}

func TestFullTableKeepsTotalsExact(t *testing.T) {
	const sent = 3000
	p, table := loaded(t, Options{MaxFlows: 100}, 14) // 256 places
	for flow := range sent {
		send(t, p, numbered(flow), offload{})
	}
	sums := total(readAll(t, table))
	size := uint64(len(numbered(0)))
	if sums[Flow].Packets+sums[Overflow].Packets != sent || sums[Flow].Bytes+sums[Overflow].Bytes != sent*size {
		t.Errorf("sent %d packets of %d bytes, counted %+v", sent, size, sums)
	}
	if sums[Flow].Packets < 200 || sums[Overflow].Packets == 0 {
		t.Errorf("of 256 places %d were used, and %d packets overflowed", sums[Flow].Packets, sums[Overflow].Packets)
	}
}

// As many flows as promised fit, each by itself.
func TestPromisedFlowsAreKeptApart(t *testing.T) {
	const flows = 20_000
	p, table := loaded(t, Options{MaxFlows: flows}, 14)
	for flow := range flows {
		send(t, p, numbered(flow), offload{})
	}
	records := readAll(t, table)
	if sums := total(records); sums[Overflow].Packets != 0 || len(records) != flows {
		t.Errorf("%d flows made %d records, %d overflowed", flows, len(records), sums[Overflow].Packets)
	}
}

func TestMoreSIDsThanRoomKeepTotalsExact(t *testing.T) {
	const sent = 1500 // the table has 1024 places
	p, table := loaded(t, Options{MaxFlows: 10_000}, 14)
	for i := range sent {
		sid := sidA.As16()
		binary.BigEndian.PutUint16(sid[8:], uint16(i))
		send(t, p, encapsulated(netip.AddrFrom16(sid), protoIPv6, ipv6(host, client, protoTCP, tcp(1, 2, 3))), offload{})
	}
	sums := total(readAll(t, table))
	if sums[Flow].Packets+sums[UnknownSID].Packets != sent || sums[UnknownSID].Packets < sent-1024 || sums[Flow].Packets < 900 {
		t.Errorf("sent to %d SIDs, counted %+v", sent, sums)
	}
}

// Packets of a batch are counted when they are read, not when it is full.
func TestWaitingPacketsAreRead(t *testing.T) {
	p, table := loaded(t, Options{MaxFlows: 100}, 14)
	for sent := range 40 {
		send(t, p, numbered(1), offload{})
		if got := total(readAll(t, table))[Flow].Packets; got != 1 {
			t.Fatalf("packet %d: read %d packets", sent, got)
		}
	}
}

// hugeFrame returns a frame that counts 29 MB as a super-packet of the most segments, and what
// it counts.
func hugeFrame() ([]byte, offload, Counts) {
	list := make([]netip.Addr, 20)
	for i := range list {
		list[i] = sidA
	}
	const segments, headers = 65535, 14 + 40 + 8 + 20*16 + 40 + 20
	inner := ipv6(host, client, protoTCP, tcp(443, 1, 1000))
	frame := ethernet(etherIPv6, ipv6(tunnel, sidA, protoRouting, srh(protoIPv6, 0, list, inner)))
	return frame, offload{size: 1, segments: segments}, Counts{Packets: segments, Bytes: segments*headers + 1000}
}

func TestHugeSuperPacketIsCounted(t *testing.T) {
	p, table := loaded(t, Options{MaxFlows: 100}, 14)
	frame, gso, want := hugeFrame()
	send(t, p, frame, gso)
	if got := total(readAll(t, table))[Flow]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Packets of one flow in a row wait as one, until their bytes would not fit in it any more.
func TestLongTrainIsCounted(t *testing.T) {
	p, table := loaded(t, Options{MaxFlows: 100}, 14)
	frame, gso, one := hugeFrame()
	const packets = 500
	for range packets {
		send(t, p, frame, gso)
	}
	want := Counts{Packets: packets * one.Packets, Bytes: packets * one.Bytes}
	if want.Bytes < 3<<32 {
		t.Fatalf("%+v fit few waiting entries", want)
	}
	if got := total(readAll(t, table))[Flow]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Packets with one 5-tuple that go to several SIDs in turns are of several flows.
func TestSIDsInTurnsAreKeptApart(t *testing.T) {
	p, table := loaded(t, Options{MaxFlows: 100, Plain: true}, 14)
	inner := ipv6(host, client, protoTCP, tcp(443, 1, 100))
	other := netip.MustParseAddr("2001:db8:a:2::")
	frames := map[netip.Addr][]byte{
		{}:    ethernet(etherIPv6, inner),
		sidA:  encapsulated(sidA, protoIPv6, inner),
		other: encapsulated(other, protoIPv6, inner),
	}
	const rounds = 100
	for range rounds {
		for _, sid := range []netip.Addr{sidA, {}, other} {
			send(t, p, frames[sid], offload{})
		}
	}
	records := readAll(t, table)
	for _, r := range records {
		if want := (Counts{rounds, rounds * uint64(len(frames[r.Key.SID]))}); r.Delta != want {
			t.Errorf("%v: got %+v, want %+v", r.Key, r.Delta, want)
		}
	}
	if len(records) != len(frames) {
		t.Errorf("%d records, want %d", len(records), len(frames))
	}
}

// An interrupt that meets its CPU counting a packet must not touch that CPU's batch.
func TestDrainKeepsOffABusyCPU(t *testing.T) {
	p, table := loaded(t, Options{MaxFlows: 100}, 14)
	send(t, p, numbered(1), offload{})
	setBusy := func(busy uint32) {
		for cpu := range p.batches {
			atomic.StoreUint32(&p.batches[cpu].Busy, busy)
		}
	}
	setBusy(1)
	records, err := table.read(time.Now(), nil)
	if err == nil || !strings.Contains(err.Error(), "the next reading has them") || len(records) != 0 {
		t.Errorf("busy: read %d records, error %v", len(records), err)
	}
	setBusy(0)
	if got := total(readAll(t, table))[Flow].Packets; got != 1 {
		t.Errorf("no longer busy: read %d packets, want 1", got)
	}
}

// After the last packet, the batch of a CPU that is offline is added by another one.
func TestAnyCPUDrainsAnother(t *testing.T) {
	p, table := loaded(t, Options{MaxFlows: 100}, 14)
	send(t, p, numbered(1), offload{})
	for cpu := range p.batches {
		if err := p.drainCPU(cpu, 0); err != nil {
			t.Fatal(err)
		}
		if waiting := atomic.LoadUint32(&p.batches[cpu].Waiting); waiting != 0 {
			t.Errorf("%d packets still wait on CPU %d", waiting, cpu)
		}
	}
	if got := total(readAll(t, table))[Flow].Packets; got != 1 {
		t.Errorf("read %d packets, want 1", got)
	}
}

// Two CPUs send the same new flows at once, while a third party reads, drains
// and ages. Every packet is counted exactly once, for its flow.
func TestConcurrentInsertReadAndAgeingIsExact(t *testing.T) {
	const rounds, flows = 30, 500
	// While CPUs settle a flow may have more than one place.
	p, table := loaded(t, Options{MaxFlows: rounds * flows, Idle: time.Second}, 14)
	var senders sync.WaitGroup
	for cpu := range min(runtime.NumCPU(), 2) {
		senders.Go(func() { sendFrom(t, p, cpu, rounds, flows) })
	}
	done := make(chan struct{})
	go func() { senders.Wait(); close(done) }()
	counted := make(map[Key]Counts)
	var records []Record
	clock := time.Now()
	for reads, running := 0, true; running; reads++ {
		clock = clock.Add(600 * time.Millisecond)
		if reads%4 == 0 {
			awaitSettled(table) // or a flow's many places leave it no room on a busy machine
		}
		select {
		case <-done:
			running = false
			table.finish()
		default:
		}
		var err error
		if records, err = table.read(clock, records[:0]); err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.Kind != Flow {
				t.Fatalf("counted as %s", r.Kind)
			}
			counted[r.Key] = counted[r.Key].Plus(r.Delta)
		}
	}
	want := Counts{Packets: uint64(rounds * train * min(runtime.NumCPU(), 2))}
	want.Bytes = want.Packets * uint64(len(numbered(0)))
	for key, got := range counted {
		if got != want {
			t.Errorf("%v: got %+v, want %+v", key, got, want)
		}
	}
	if len(counted) != flows {
		t.Errorf("%d flows counted, %d sent", len(counted), flows)
	}
}

// Waiting trains are taken away while they grow, as often as possible.
func TestDrainingWhileTrainsGrowIsExact(t *testing.T) {
	const rounds, flows = 1000, 10
	p, table := loaded(t, Options{MaxFlows: 100}, 14)
	done := make(chan struct{})
	go func() {
		defer close(done)
		sendFrom(t, p, 0, rounds, flows)
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		if err := p.drain(false); err != nil {
			t.Fatal(err)
		}
	}
	want := Counts{Packets: rounds * train, Bytes: rounds * train * uint64(len(numbered(0)))}
	records := readAll(t, table)
	for _, r := range records {
		if r.Delta != want {
			t.Errorf("%v: got %+v, want %+v", r.Key, r.Delta, want)
		}
	}
	if len(records) != flows {
		t.Errorf("%d records, want %d", len(records), flows)
	}
}

// train is how many packets of a flow are sent in a row.
const train = 3

// sendFrom sends a train of each flow in each round, from one CPU.
func sendFrom(t *testing.T, p *program, cpu, rounds, flows int) {
	runtime.LockOSThread() // and never unlocked: the thread ends, its affinity with it
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Error(err)
		return
	}
	order := rand.New(rand.NewPCG(7, uint64(cpu)))
	for range rounds {
		for _, flow := range order.Perm(flows) {
			for range train {
				send(t, p, numbered(flow), offload{})
			}
		}
	}
}

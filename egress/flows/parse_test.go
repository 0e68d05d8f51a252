package flows

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"hikyaku/egress/bpf"
)

// loaded loads the program without attaching it, and the table to read it by.
func loaded(tb testing.TB, opts Options, linkHeader uint32) (*program, *table) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("SKIPPED: running an eBPF program needs root")
	}
	opts, err := opts.withDefaults()
	if err != nil {
		tb.Fatal(err)
	}
	p, err := load(opts, linkHeader)
	if err != nil {
		tb.Fatal(err)
	}
	table := newTable(p.flows, p.marks, p.sids, opts.Idle, p)
	tb.Cleanup(func() {
		table.close()
		if err := p.close(); err != nil {
			tb.Error(err)
		}
	})
	return p, table
}

// offload is the kernel's knowledge of a GSO super-packet.
type offload struct{ size, segments uint32 }

// send runs the program on a frame as if it were leaving.
func send(tb testing.TB, p *program, frame []byte, gso offload) {
	tb.Helper()
	var context [192]byte // struct __sk_buff
	put := func(at int, v uint32) {
		*(*[4]byte)(context[at:]) = [4]byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)}
	}
	put(164, gso.segments)
	put(176, gso.size)
	ret, err := p.coll.Programs[bpf.Program].Run(&ebpf.RunOptions{Data: frame, Context: context[:]})
	if err != nil {
		tb.Errorf("running the program: %v", err)
	} else if int32(ret) != -1 {
		tb.Errorf("the program returned %d: only TC_ACT_UNSPEC leaves the packet to others", int32(ret))
	}
}

func readAll(tb testing.TB, t *table) []Record {
	tb.Helper()
	records, err := t.read(time.Now(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return records
}

func flow6(sid netip.Addr, proto uint8, sport, dport uint16) Key {
	return Key{SID: sid, Src: host, Dst: client, Proto: proto, SrcPort: sport, DstPort: dport}
}

func flow4(sid netip.Addr, proto uint8, sport, dport uint16) Key {
	return Key{SID: sid, Src: host4, Dst: client4, Proto: proto, SrcPort: sport, DstPort: dport}
}

type frameCase struct {
	name  string
	frame []byte
	kind  Kind
	key   Key
}

func readableFrames() []frameCase {
	inner6 := ipv6(host, client, protoTCP, tcp(443, 5000, 100))
	inner4 := ipv4(host4, client4, protoUDP, udp(443, 5001, 100))
	two := []netip.Addr{sidB, sidA} // to sidA first, then sidB
	return []frameCase{
		{"IPv6 in SRv6", encapsulated(sidA, protoIPv6, inner6), Flow, flow6(sidA, 6, 443, 5000)},
		{"IPv4 in SRv6", encapsulated(sidA, protoIPv4, inner4), Flow, flow4(sidA, 17, 443, 5001)},
		{"IPv6 without SRH", ethernet(etherIPv6, ipv6(tunnel, sidA, protoIPv6, inner6)), Flow, flow6(sidA, 6, 443, 5000)},
		{"IPv4 without SRH", ethernet(etherIPv6, ipv6(tunnel, sidA, protoIPv4, inner4)), Flow, flow4(sidA, 17, 443, 5001)},
		{"two segments: the last counts", ethernet(etherIPv6, ipv6(tunnel, sidA, protoRouting, srh(protoIPv6, 1, two, inner6))),
			Flow, flow6(sidB, 6, 443, 5000)},
		{"reduced SRH: the first segment is not in the list",
			ethernet(etherIPv6, ipv6(tunnel, sidA, protoRouting, srh(protoIPv6, 1, two[:1], inner6))), Flow, flow6(sidB, 6, 443, 5000)},
		{"destination options before the SRH", ethernet(etherIPv6, ipv6(tunnel, sidA, protoDstOpts,
			extension(protoRouting, 0, srh(protoIPv6, 0, two[1:], inner6)))), Flow, flow6(sidA, 6, 443, 5000)},
		{"VLAN tag in the frame", ethernet(etherVLAN, append([]byte{0, 5, 0x86, 0xdd},
			encapsulated(sidA, protoIPv6, inner6)[14:]...)), Flow, flow6(sidA, 6, 443, 5000)},
		{"inner extension header", encapsulated(sidA, protoIPv6, ipv6(host, client, protoDstOpts,
			extension(protoUDP, 0, udp(7, 8, 9)))), Flow, flow6(sidA, 17, 7, 8)},
		{"ICMP: type and code", encapsulated(sidA, protoIPv4, ipv4(host4, client4, protoICMP, []byte{8, 1, 0, 0, 0, 0, 0, 0})),
			Flow, flow4(sidA, 1, 0, 8<<8|1)},
		{"protocol without ports", encapsulated(sidA, protoIPv4, ipv4(host4, client4, 47, make([]byte, 40))), Flow, flow4(sidA, 47, 0, 0)},
		{"no next header", encapsulated(sidA, protoIPv6, ipv6(host, client, protoNone, nil)), Flow, flow6(sidA, 59, 0, 0)},
		{"IPv6 fragment", encapsulated(sidA, protoIPv6, ipv6(host, client, protoFragment, extension(protoUDP, 1, udp(7, 8, 9)))),
			Flow, flow6(sidA, 17, 0, 0)},
		{"IPv6 atomic fragment (RFC 6946)", encapsulated(sidA, protoIPv6, ipv6(host, client, protoFragment,
			extension(protoUDP, 0, udp(7, 8, 9)))), Flow, flow6(sidA, 17, 7, 8)},
		{"IPv4 fragment", encapsulated(sidA, protoIPv4, fragment4(inner4)), Flow, flow4(sidA, 17, 0, 0)},
		{"IPv6 without SRv6", ethernet(etherIPv6, inner6), Flow, flow6(netip.Addr{}, 6, 443, 5000)},
		{"IPv4 without SRv6", ethernet(etherIPv4, inner4), Flow, flow4(netip.Addr{}, 17, 443, 5001)},
	}
}

func fragment4(packet []byte) []byte {
	packet = slices.Clone(packet)
	packet[6] = 0x20 // more fragments
	return packet
}

// changed returns the frame with one byte set.
func changed(frame []byte, at int, value byte) []byte {
	frame = slices.Clone(frame)
	frame[at] = value
	return frame
}

func unreadableFrames() []frameCase {
	inner := ipv6(host, client, protoTCP, tcp(443, 5000, 100))
	good := encapsulated(sidA, protoIPv6, inner)
	inSID, plain := Key{SID: sidA}, Key{}
	long := tcp(1, 2, 3)
	next := byte(protoTCP)
	for range 5 {
		long, next = extension(next, 0, long), protoDstOpts
	}
	return []frameCase{
		{"ARP", ethernet(etherARP, make([]byte, 28)), Opaque, plain},
		{"SRH shorter than its list", changed(good, 54+1, 1), Opaque, inSID},
		{"SRH's last entry beyond its end", changed(good, 54+4, 1), Opaque, inSID},
		{"SRH with too many segments left", changed(good, 54+3, 2), Opaque, inSID},
		{"SRH longer than the frame", changed(good, 54+1, 255), Opaque, inSID},
		{"outer version is not 6", changed(good, 14, 4<<4), Opaque, plain},
		{"inner version is not 6", changed(good, 78, 4<<4), Opaque, inSID},
		{"IPv4 version is not 4", encapsulated(sidA, protoIPv4, inner), Opaque, inSID},
		{"IPv4 header of 16 bytes", encapsulated(sidA, protoIPv4, changed(ipv4(host4, client4, 17, udp(1, 2, 3)), 0, 0x44)), Opaque, inSID},
		{"TCP header of 16 bytes", changed(good, 118+12, 4<<4), Opaque, inSID},
		{"TCP options beyond the frame", encapsulated(sidA, protoIPv6, ipv6(host, client, protoTCP, changed(tcp(1, 2, 3), 12, 15<<4))), Opaque, inSID},
		{"Ethernet in SRv6", encapsulated(sidA, 143, make([]byte, 60)), Opaque, inSID},
		{"outer fragment", ethernet(etherIPv6, ipv6(tunnel, sidA, protoFragment, extension(protoIPv6, 8, inner))), Opaque, inSID},
		{"chain of extension headers too long", encapsulated(sidA, protoIPv6, ipv6(host, client, next, long)), Opaque, inSID},
	}
}

func TestFramesCountForTheirFlow(t *testing.T) {
	p, table := loaded(t, Options{Plain: true, MaxFlows: 1000}, 14)
	for _, c := range append(readableFrames(), unreadableFrames()...) {
		send(t, p, c.frame, offload{})
		records := readAll(t, table)
		want := Counts{Packets: 1, Bytes: uint64(len(c.frame))}
		if len(records) != 1 || records[0].Kind != c.kind || records[0].Key != c.key || records[0].Delta != want {
			t.Errorf("%s: got %+v, want %s %+v %+v", c.name, records, c.kind, c.key, want)
		}
	}
}

// shortest is the least that BPF_PROG_TEST_RUN takes: it wants the IP header.
// TestMalformedFramesOnTheWire sends shorter frames.
func shortest(frame []byte) int {
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherIPv6:
		return 14 + 40
	case etherIPv4:
		return 14 + 20
	}
	return 15
}

// A frame that ends anywhere is counted all the same, once, with its length.
func TestFramesCutOffAnywhereAreCounted(t *testing.T) {
	p, table := loaded(t, Options{Plain: true, MaxFlows: 10_000}, 14)
	for _, c := range append(readableFrames(), unreadableFrames()...) {
		for length := shortest(c.frame); length < len(c.frame); length++ {
			send(t, p, c.frame[:length], offload{})
			records := readAll(t, table)
			if len(records) != 1 || records[0].Delta != (Counts{Packets: 1, Bytes: uint64(length)}) {
				t.Fatalf("%s, first %d bytes: got %+v", c.name, length, records)
			}
			if kind := records[0].Kind; kind != Flow && kind != Opaque {
				t.Fatalf("%s, first %d bytes: counted as %s", c.name, length, kind)
			}
		}
	}
}

// Common frames are read by code of their own, a fast path. Frames with a VLAN tag never
// are. Both must see the same in whatever headers.
func TestUsualFramesAreReadAsAllOthers(t *testing.T) {
	p, table := loaded(t, Options{Plain: true, MaxFlows: 10_000}, 14)
	frames := append(readableFrames(), unreadableFrames()...)
	random := rand.New(rand.NewPCG(3, 4))
	gso := offload{size: 10, segments: 3}
	for range 5_000 {
		frame := slices.Clone(frames[random.IntN(len(frames))].frame)
		kind := binary.BigEndian.Uint16(frame[12:])
		if kind != etherIPv6 && kind != etherIPv4 {
			continue
		}
		for range random.IntN(3) {
			frame[14+random.IntN(len(frame)-14)] = byte(random.Uint32() >> random.IntN(32))
		}
		frame = frame[:max(len(frame)-random.IntN(2)*random.IntN(140), shortest(frame))]
		send(t, p, frame, gso)
		got := readAll(t, table)
		send(t, p, slices.Concat(frame[:12], []byte{0x81, 0, 0, 5}, frame[12:]), gso)
		want := readAll(t, table)
		if len(got) != 1 || len(want) != 1 || got[0].Key != want[0].Key || got[0].Kind != want[0].Kind ||
			got[0].Delta.Plus(Counts{Bytes: 3 * 4}) != want[0].Delta {
			t.Fatalf("%x: got %+v, with a VLAN tag %+v", frame, got, want)
		}
	}
}

func TestWithoutPlainOnlySRv6Counts(t *testing.T) {
	p, table := loaded(t, Options{MaxFlows: 1000}, 14)
	for _, c := range append(readableFrames(), unreadableFrames()...) {
		send(t, p, c.frame, offload{})
		if got, want := len(readAll(t, table)), c.key.SID.IsValid(); (got == 1) != want {
			t.Errorf("%s: %d records, sent to a SID: %t", c.name, got, want)
		}
	}
}

func TestSuperPacketsCountAsTheirSegments(t *testing.T) {
	const headers = 14 + 40 + 24 + 40 + 20
	p, table := loaded(t, Options{MaxFlows: 1000, Plain: true}, 14)
	segments := func(payload int) []byte {
		return encapsulated(sidA, protoIPv6, ipv6(host, client, protoTCP, tcp(443, 5000, payload)))
	}
	cases := []struct {
		name  string
		frame []byte
		gso   offload
		want  Counts
	}{
		{"no GSO", segments(1000), offload{}, Counts{1, headers + 1000}},
		{"three full segments", segments(3000), offload{1000, 3}, Counts{3, 3*headers + 3000}},
		{"last segment shorter", segments(2001), offload{1000, 3}, Counts{3, 3*headers + 2001}},
		{"segments not yet counted by the kernel", segments(2001), offload{1000, 0}, Counts{3, 3*headers + 2001}},
		{"a single segment, not yet counted", segments(1000), offload{1000, 0}, Counts{1, headers + 1000}},
		{"UDP in IPv4", encapsulated(sidA, protoIPv4, ipv4(host4, client4, protoUDP, udp(1, 2, 2500))),
			offload{1200, 3}, Counts{3, 3*(14+40+24+20+8) + 2500}},
		{"without SRv6", ethernet(etherIPv6, ipv6(host, client, protoTCP, tcp(1, 2, 2000))), offload{1000, 2}, Counts{2, 2*74 + 2000}},
	}
	for _, c := range cases {
		send(t, p, c.frame, c.gso)
		records := readAll(t, table)
		if len(records) != 1 || records[0].Delta != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, records, c.want)
		}
	}
}

package oam

import (
	"encoding/binary"
	"net/netip"
	"testing"
)

var (
	source = netip.MustParseAddr("2001:db8:5::10")
	sid    = netip.MustParseAddr("2001:db8:b1:1::")
)

func TestProbeComesBackAsReply(t *testing.T) {
	for _, size := range []uint32{0, MinSize, 1344, 1500, 9001} {
		token := Token{Cookie: 0x0102030405060708, Sequence: 77, Size: size}
		packet := AppendProbe(nil, source, sid, token)
		if want := max(int(size), MinSize); len(packet) != want {
			t.Errorf("a probe of %d bytes has %d", size, len(packet))
		}
		inner := packet[Overhead:]
		if got := int(binary.BigEndian.Uint16(packet[4:])) + ipv6Size; got != len(packet) {
			t.Errorf("the outer header says %d bytes of %d", got, len(packet))
		}
		if got := int(binary.BigEndian.Uint16(inner[4:])) + ipv6Size; got != len(inner) {
			t.Errorf("the inner header says %d bytes of %d", got, len(inner))
		}
		message := inner[ipv6Size:]
		if sum := checksum(source, sid, message); sum != 0 {
			t.Errorf("size %d: the checksum leaves %#x", size, sum)
		}
		if _, ok := ParseReply(message); ok {
			t.Error("a request is taken for a reply")
		}
		message[0] = echoReply
		if got, ok := ParseReply(message); !ok || got != token {
			t.Errorf("the reply reads %+v, %t", got, ok)
		}
	}
}

func tooBigOf(packet []byte, mtu uint32) []byte {
	message := binary.BigEndian.AppendUint32([]byte{packetTooBig, 0, 0, 0}, mtu)
	return append(message, packet...)
}

func TestTooBigNamesTheSID(t *testing.T) {
	packet := AppendProbe(nil, source, sid, Token{Size: 1600})
	b, ok := ParseTooBig(tooBigOf(packet[:1232], 1500))
	if want := (TooBig{Source: source, SID: sid, MTU: 1500}); !ok || b != want {
		t.Errorf("it reads %+v, %t, want %+v", b, ok, want)
	}
	if _, ok := ParseTooBig(tooBigOf(packet[Overhead:], 1500)); ok {
		t.Error("a packet without SRv6 is taken")
	}
}

// FuzzParse reads messages of anybody.
func FuzzParse(f *testing.F) {
	packet := AppendProbe(nil, source, sid, Token{Cookie: 1, Sequence: 2, Size: 200})
	f.Add(tooBigOf(packet, 1500))
	reply := append([]byte(nil), packet[Overhead+ipv6Size:]...)
	reply[0] = echoReply
	f.Add(reply)
	f.Fuzz(func(t *testing.T, message []byte) {
		_, isReply := ParseReply(message)
		b, isTooBig := ParseTooBig(message)
		if isReply && isTooBig {
			t.Fatal("a message is both")
		}
		if isTooBig && (!b.SID.IsValid() || !b.Source.IsValid()) {
			t.Fatalf("%+v", b)
		}
	})
}

// Package oam sends probes through SRv6 SIDs, as data packets go, and reads the answers
// (RFC 9259).
//
// A probe is an ICMPv6 echo request (RFC 4443 §4.1) from this machine to the SID, put into
// SRv6 towards the same SID. The border takes SRv6 off and looks the SID up in the table of
// its peer, as it does for the packets of clients. There it is an address of the border's
// own, so that its kernel answers. So a probe tests the way to the border, its endpoint
// behaviour and the table behind. It needs no program on the border.
package oam

import (
	"encoding/binary"
	"net/netip"
)

const (
	ipv6Size = 40
	srhSize  = 24 // of one segment, RFC 8754 §2
	echoSize = 8
	// tokenSize is the length of [Token] in a probe.
	tokenSize = 16
	// Overhead is the room that SRv6 takes of a probe, and MinSize the shortest probe, in
	// bytes.
	Overhead = ipv6Size + srhSize
	MinSize  = Overhead + ipv6Size + echoSize + tokenSize

	protoRouting  = 43
	protoICMPv6   = 58
	protoIPv6     = 41
	routingSRH    = 4
	hopLimit      = 64
	echoRequest   = 128
	echoReply     = 129
	packetTooBig  = 2
	trafficCS6    = 48 << 2 // network control, so that queues drop it last (RFC 4594 §3.1)
	maxPacketSize = 65535
)

// Token is the part of a probe that comes back.
type Token struct {
	// Cookie is a secret of the sender: answers with another one are somebody else's.
	Cookie uint64
	// Sequence names the probe.
	Sequence uint32
	// Size of the probe in bytes, SRv6 included.
	Size uint32
}

// AppendProbe appends a probe of the token's size, at least [MinSize], with its outer header.
func AppendProbe(b []byte, source, sid netip.Addr, t Token) []byte {
	size := min(max(int(t.Size), MinSize), maxPacketSize)
	inner := size - Overhead
	b = appendIPv6(b, source, sid, protoRouting, size-ipv6Size)
	b = append(b, protoIPv6, (srhSize-8)/8, routingSRH, 0, 0, 0, 0, 0)
	b = append(b, sid.AsSlice()...)
	return appendEcho(b, source, sid, inner, t)
}

// appendEcho appends an echo request with its IPv6 header, size bytes in all.
func appendEcho(b []byte, source, to netip.Addr, size int, t Token) []byte {
	b = appendIPv6(b, source, to, protoICMPv6, size-ipv6Size)
	start := len(b)
	b = append(b, echoRequest, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(t.Cookie))
	b = binary.BigEndian.AppendUint16(b, uint16(t.Sequence))
	b = binary.BigEndian.AppendUint64(b, t.Cookie)
	b = binary.BigEndian.AppendUint32(b, t.Sequence)
	b = binary.BigEndian.AppendUint32(b, t.Size)
	b = append(b, make([]byte, size-ipv6Size-(len(b)-start))...)
	binary.BigEndian.PutUint16(b[start+2:], checksum(source, to, b[start:]))
	return b
}

func appendIPv6(b []byte, source, to netip.Addr, next uint8, length int) []byte {
	b = binary.BigEndian.AppendUint32(b, 6<<28|trafficCS6<<20)
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	b = append(b, next, hopLimit)
	b = append(b, source.AsSlice()...)
	return append(b, to.AsSlice()...)
}

// checksum is that of an ICMPv6 message, with the pseudo-header (RFC 8200 §8.1).
func checksum(source, to netip.Addr, message []byte) uint16 {
	sum := uint32(len(message)) + protoICMPv6
	add := func(b []byte) {
		for ; len(b) >= 2; b = b[2:] {
			sum += uint32(b[0])<<8 | uint32(b[1])
		}
		if len(b) > 0 {
			sum += uint32(b[0]) << 8
		}
	}
	add(source.AsSlice())
	add(to.AsSlice())
	add(message)
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// ParseReply reads an ICMPv6 message as the echo reply to a probe.
func ParseReply(message []byte) (t Token, ok bool) {
	if len(message) < echoSize+tokenSize || message[0] != echoReply || message[1] != 0 {
		return t, false
	}
	body := message[echoSize:]
	return Token{
		Cookie:   binary.BigEndian.Uint64(body),
		Sequence: binary.BigEndian.Uint32(body[8:]),
		Size:     binary.BigEndian.Uint32(body[12:]),
	}, true
}

// TooBig is a router's message that a packet to a SID did not fit (RFC 4443 §3.2).
type TooBig struct {
	// Source is that of the packet.
	Source netip.Addr
	SID    netip.Addr
	// MTU of the next link in bytes.
	MTU uint32
}

// ParseTooBig reads an ICMPv6 message as a Packet Too Big about a packet in SRv6.
func ParseTooBig(message []byte) (b TooBig, ok bool) {
	const quote = 8 // offset of the packet
	if len(message) < quote+ipv6Size+4 || message[0] != packetTooBig {
		return b, false
	}
	packet := message[quote:]
	if packet[0]>>4 != 6 || packet[6] != protoRouting || packet[ipv6Size+2] != routingSRH {
		return b, false
	}
	return TooBig{
		Source: netip.AddrFrom16([16]byte(packet[8:24])),
		SID:    netip.AddrFrom16([16]byte(packet[24:40])),
		MTU:    binary.BigEndian.Uint32(message[4:]),
	}, true
}

package flows

import (
	"encoding/binary"
	"net/netip"
)

// Frames are put together from the inside out: each function prepends a header.

const (
	protoICMP     = 1
	protoIPv4     = 4
	protoTCP      = 6
	protoUDP      = 17
	protoIPv6     = 41
	protoRouting  = 43
	protoFragment = 44
	protoNone     = 59
	protoDstOpts  = 60
)

func tcp(src, dst uint16, payload int) []byte {
	h := make([]byte, 20+payload)
	binary.BigEndian.PutUint16(h[0:], src)
	binary.BigEndian.PutUint16(h[2:], dst)
	h[12] = 5 << 4
	return h
}

func udp(src, dst uint16, payload int) []byte {
	h := make([]byte, 8+payload)
	binary.BigEndian.PutUint16(h[0:], src)
	binary.BigEndian.PutUint16(h[2:], dst)
	binary.BigEndian.PutUint16(h[4:], uint16(len(h)))
	return h
}

func ipv6(src, dst netip.Addr, next byte, payload []byte) []byte {
	h := make([]byte, 40, 40+len(payload))
	h[0] = 6 << 4
	binary.BigEndian.PutUint16(h[4:], uint16(len(payload)))
	h[6], h[7] = next, 64
	copy(h[8:], src.AsSlice())
	copy(h[24:], dst.AsSlice())
	return append(h, payload...)
}

func ipv4(src, dst netip.Addr, proto byte, payload []byte) []byte {
	h := make([]byte, 20, 20+len(payload))
	h[0] = 4<<4 | 5
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(payload)))
	h[8], h[9] = 64, proto
	copy(h[12:], src.AsSlice())
	copy(h[16:], dst.AsSlice())
	return append(h, payload...)
}

// srh prepends a segment routing header (RFC 8754 §2) with the segments in the
// order of the list, the last to visit first.
func srh(next byte, left int, segments []netip.Addr, payload []byte) []byte {
	h := []byte{next, byte(2 * len(segments)), 4, byte(left), byte(len(segments) - 1), 0, 0, 0}
	for _, segment := range segments {
		h = append(h, segment.AsSlice()...)
	}
	return append(h, payload...)
}

// extension prepends an extension header of 8 bytes.
func extension(next byte, detail uint16, payload []byte) []byte {
	h := make([]byte, 8, 8+len(payload))
	h[0] = next
	binary.BigEndian.PutUint16(h[2:], detail)
	return append(h, payload...)
}

func ethernet(kind uint16, payload []byte) []byte {
	h := make([]byte, 14, 14+len(payload))
	h[0], h[6] = 2, 2
	binary.BigEndian.PutUint16(h[12:], kind)
	return append(h, payload...)
}

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100
	etherARP  = 0x0806
)

var (
	host    = netip.MustParseAddr("2001:db8:1::1")
	client  = netip.MustParseAddr("2001:db8:2::2")
	host4   = netip.MustParseAddr("192.0.2.1")
	client4 = netip.MustParseAddr("198.51.100.2")
	tunnel  = netip.MustParseAddr("2001:db8:ff::1")
	sidA    = netip.MustParseAddr("2001:db8:a:1::")
	sidB    = netip.MustParseAddr("2001:db8:b:1::")
)

// encapsulated is a frame as seg6 "mode encap" sends it through one SID.
func encapsulated(sid netip.Addr, next byte, inner []byte) []byte {
	return ethernet(etherIPv6, ipv6(tunnel, sid, protoRouting, srh(next, 0, []netip.Addr{sid}, inner)))
}

package rtnl

import (
	"encoding/binary"
	"iter"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// A kind carries two flags in its upper bits: nested, and byte order.
const attributeKindMask = 0x3fff

// Attributes yields kind and value of each attribute in buf, without the flags that
// a kind may carry. It stops at the first that does not fit.
func Attributes(buf []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(buf) >= unix.SizeofRtAttr {
			size := int(binary.NativeEndian.Uint16(buf))
			kind := binary.NativeEndian.Uint16(buf[2:]) & attributeKindMask
			if size < unix.SizeofRtAttr || size > len(buf) {
				return
			}
			if !yield(kind, buf[unix.SizeofRtAttr:size]) {
				return
			}
			buf = buf[min(align(size), len(buf)):]
		}
	}
}

// Uint8 reads a value, 0 when it is too short.
func Uint8(value []byte) uint8 {
	if len(value) < 1 {
		return 0
	}
	return value[0]
}

// Uint16 reads a value in the machine's byte order, 0 when it is too short.
func Uint16(value []byte) uint16 {
	if len(value) < 2 {
		return 0
	}
	return binary.NativeEndian.Uint16(value)
}

// Uint32 reads a value in the machine's byte order, 0 when it is too short.
func Uint32(value []byte) uint32 {
	if len(value) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(value)
}

// String reads a value up to its closing zero.
func String(value []byte) string {
	text, _, _ := strings.Cut(string(value), "\x00")
	return text
}

// Addr reads an address of 4 or 16 bytes, the zero address when it is neither.
func Addr(value []byte) netip.Addr {
	addr, _ := netip.AddrFromSlice(value)
	return addr
}

package bmp

import (
	"encoding/binary"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// hasFourByteASes reports whether the AS_PATH of an UPDATE has AS numbers of four bytes (RFC
// 6793), or none at all. GoBGP (tried: 3.10) says two bytes and sends four, for the routes that
// it has when the connection begins.
func hasFourByteASes(update []byte) bool {
	_, rest, ok := cutList(update) // withdrawn routes
	if !ok {
		return false
	}
	attributes, _, ok := cutList(rest)
	for ok && len(attributes) > 0 {
		var kind uint8
		var value []byte
		kind, value, attributes, ok = cutAttribute(attributes)
		if ok && kind == uint8(bgp.BGP_ATTR_TYPE_AS_PATH) {
			return areFourByteSegments(value)
		}
	}
	return ok
}

// cutList cuts a list off that stands behind its length in two bytes.
func cutList(b []byte) (list, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	if n > len(b) {
		return nil, nil, false
	}
	return b[2:n], b[n:], true
}

// cutAttribute cuts a path attribute off (RFC 4271 §4.3).
func cutAttribute(b []byte) (kind uint8, value, rest []byte, ok bool) {
	if len(b) < 3 {
		return 0, nil, nil, false
	}
	head, n := 3, int(b[2])
	if b[0]&uint8(bgp.BGP_ATTR_FLAG_EXTENDED_LENGTH) != 0 {
		if len(b) < 4 {
			return 0, nil, nil, false
		}
		head, n = 4, int(binary.BigEndian.Uint16(b[2:]))
	}
	if len(b) < head+n {
		return 0, nil, nil, false
	}
	return b[1], b[head : head+n], b[head+n:], true
}

// areFourByteSegments reports whether segments fill an AS_PATH exactly with numbers of four bytes.
func areFourByteSegments(path []byte) bool {
	for len(path) > 0 {
		if len(path) < 2 || path[0] < 1 || path[0] > 4 || path[1] == 0 {
			return false
		}
		n := 2 + 4*int(path[1])
		if n > len(path) {
			return false
		}
		path = path[n:]
	}
	return true
}

package config

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// RD is a route distinguisher (RFC 4364 §4.2) or, written alike, a route target
// (RFC 4360 §4): "192.0.2.1:7" (type 1), "64500:7" (type 0), or "70000:7" and
// "64500L:7" with an AS number of four octets (type 2; RFC 5668). The zero value
// is none.
type RD struct {
	// Type is 0, 1 or 2.
	Type uint16
	// Admin is the AS number, or the address as a number.
	Admin uint32
	// Number is what the administrator assigned.
	Number uint32
}

// RouterRD is the one that a border derives for a peer: of type 1.
func RouterRD(router netip.Addr, number uint16) RD {
	address := router.As4()
	return RD{Type: 1, Admin: binary.BigEndian.Uint32(address[:]), Number: uint32(number)}
}

// IsZero tells that there is none.
func (r RD) IsZero() bool { return r == RD{} }

// String returns the text form, which [ParseRD] reads back.
func (r RD) String() string {
	switch {
	case r.Type == 1:
		address := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, r.Admin)))
		return fmt.Sprintf("%s:%d", address, r.Number)
	case r.Type == 2 && r.Admin <= 0xffff:
		return fmt.Sprintf("%dL:%d", r.Admin, r.Number)
	}
	return fmt.Sprintf("%d:%d", r.Admin, r.Number)
}

// ParseRD reads the text form.
func ParseRD(text string) (RD, error) {
	admin, number, _ := strings.Cut(text, ":")
	wrong := fmt.Errorf("reading a route distinguisher or target from `%s`: "+
		"expected ADDRESS:NUMBER or AS:NUMBER, such as `192.0.2.1:7`", text)
	if address, err := netip.ParseAddr(admin); err == nil && address.Is4() {
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return RD{}, wrong
		}
		return RouterRD(address, uint16(n)), nil
	}
	digits, long := strings.CutSuffix(admin, "L")
	as, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return RD{}, wrong
	}
	kind, bits := uint16(0), 32
	if long || as > 0xffff {
		kind, bits = 2, 16
	}
	n, err := strconv.ParseUint(number, 10, bits)
	if err != nil || as == 0 {
		return RD{}, wrong
	}
	return RD{Type: kind, Admin: uint32(as), Number: uint32(n)}, nil
}

// Community is a BGP community: two numbers of 16 bits (RFC 1997), or three of
// 32 bits (large, RFC 8092).
type Community struct {
	Large bool
	// Parts are two, or three of a large one.
	Parts [3]uint32
}

// String returns the text form, "64500:100" or "64500:1:2".
func (c Community) String() string {
	if c.Large {
		return fmt.Sprintf("%d:%d:%d", c.Parts[0], c.Parts[1], c.Parts[2])
	}
	return fmt.Sprintf("%d:%d", c.Parts[0], c.Parts[1])
}

// ParseCommunity reads the text form.
func ParseCommunity(text string) (Community, error) {
	wrong := fmt.Errorf("reading a community from `%s`: expected two numbers up to 65535 such as "+
		"`64500:100`, or three up to 4294967295 such as `64500:1:2`", text)
	parts := strings.Split(text, ":")
	bits := 16
	switch len(parts) {
	case 2:
	case 3:
		bits = 32
	default:
		return Community{}, wrong
	}
	c := Community{Large: bits == 32}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, bits)
		if err != nil {
			return Community{}, wrong
		}
		c.Parts[i] = uint32(n)
	}
	return c, nil
}

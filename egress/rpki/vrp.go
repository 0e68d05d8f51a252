package rpki

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
)

// VRP is a validated ROA payload (RFC 6811 §2): an AS may originate a prefix, and prefixes
// within it up to a length.
type VRP struct {
	// high and low are the address, of IPv4 behind 96 bits.
	high, low       uint64
	bits, maxLength uint8
	is4             bool
	as              uint32
}

// covering is the VRP of a prefix, for comparisons.
func covering(p netip.Prefix) VRP {
	addr := p.Addr().As16()
	return VRP{
		high: binary.BigEndian.Uint64(addr[:]), low: binary.BigEndian.Uint64(addr[8:]),
		bits: uint8(p.Bits()), is4: p.Addr().Is4(),
	}
}

// NewVRP returns a VRP. It fails where maxLength is not between the prefix's length and its
// family's, or bits are set behind the prefix's length.
func NewVRP(prefix netip.Prefix, maxLength uint8, as uint32) (VRP, error) {
	switch {
	case !prefix.IsValid() || prefix != prefix.Masked():
		return VRP{}, fmt.Errorf("VRP for %s: not a prefix without bits after its length", prefix)
	case int(maxLength) < prefix.Bits() || int(maxLength) > prefix.Addr().BitLen():
		return VRP{}, fmt.Errorf("VRP for %s: maximum length %d", prefix, maxLength)
	}
	v := covering(prefix)
	v.maxLength, v.as = maxLength, as
	return v, nil
}

// Prefix is the prefix that the VRP covers.
func (v VRP) Prefix() netip.Prefix {
	var bytes [16]byte
	binary.BigEndian.PutUint64(bytes[:], v.high)
	binary.BigEndian.PutUint64(bytes[8:], v.low)
	addr := netip.AddrFrom16(bytes)
	if v.is4 {
		addr = addr.Unmap()
	}
	return netip.PrefixFrom(addr, int(v.bits))
}

// MaxLength is the length of the longest prefix that the AS may originate.
func (v VRP) MaxLength() uint8 { return v.maxLength }

// AS is the one that may originate the prefix; 0: none may (RFC 6483 §4).
func (v VRP) AS() uint32 { return v.as }

// String returns the common form, "2001:db8::/32-48 => AS64496".
func (v VRP) String() string {
	return fmt.Sprintf("%s-%d => AS%d", v.Prefix(), v.maxLength, v.as)
}

// Compare orders VRPs by family, address and length: a prefix comes before those within it.
func Compare(a, b VRP) int {
	if a.is4 != b.is4 {
		if a.is4 {
			return -1
		}
		return 1
	}
	switch {
	case a.high != b.high:
		return cmp.Compare(a.high, b.high)
	case a.low != b.low:
		return cmp.Compare(a.low, b.low)
	case a.bits != b.bits:
		return cmp.Compare(a.bits, b.bits)
	}
	return cmp.Or(cmp.Compare(a.maxLength, b.maxLength), cmp.Compare(a.as, b.as))
}

// contains reports whether the VRP's prefix holds all of another's.
func (v VRP) contains(other VRP) bool {
	if v.is4 != other.is4 || v.bits > other.bits {
		return false
	}
	bits := int(v.bits)
	if v.is4 {
		bits += 96
	}
	high, low := v.high^other.high, v.low^other.low
	if bits <= 64 {
		return high>>(64-bits) == 0
	}
	return high == 0 && low>>(128-bits) == 0
}

// Package srv6 holds the names that an SRv6 egress gives its peers, and nothing that
// touches a socket or the kernel. It has locators, SIDs that stay the same over restarts,
// route distinguishers and route targets. It also has the SRv6 L3 service TLV of RFC 9252
// to and from BGP path attributes.
package srv6

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Locator is the part of the IPv6 address space from which one border router
// takes its SIDs (RFC 8986 §3.1): SID = block | node | function | zeros.
//
// The prefix covers block and node, so BlockBits + NodeBits = Prefix.Bits().
// The zero value is invalid; [Locator.Validate] says why a locator is.
type Locator struct {
	// Prefix is block and node, and is routed to the border inside the AS.
	Prefix netip.Prefix
	// BlockBits is the length of the part common to the whole SRv6 domain.
	BlockBits uint8
	// NodeBits is the length of the part that identifies a node.
	NodeBits uint8
	// FunctionBits is the length of the part that identifies a peer, 8 to 32.
	FunctionBits uint8
}

// Function lengths that a [Locator] may have. Below eight bits a hash finds no
// free value for a handful of peers; above 32 a function is no uint32.
const (
	MinFunctionBits = 8
	MaxFunctionBits = 32
)

// NewLocator returns the locator for prefix with 16 function bits. It has the common split
// into a block of 32 bits (or all, when the prefix is shorter) and the node in the rest.
//
// Errors are those of [Locator.Validate].
func NewLocator(prefix netip.Prefix) (Locator, error) {
	l := Locator{Prefix: prefix, FunctionBits: 16}
	if prefix.IsValid() {
		l.BlockBits = uint8(min(prefix.Bits(), 32))
		l.NodeBits = uint8(prefix.Bits()) - l.BlockBits
	}
	return l, l.Validate()
}

// Validate returns all faults of the locator at once.
func (l Locator) Validate() error {
	if !l.Prefix.IsValid() || !l.Prefix.Addr().Is6() || l.Prefix.Addr().Is4In6() {
		return fmt.Errorf("locator %s: not an IPv6 prefix", l.Prefix)
	}
	var errs []error
	if l.Prefix != l.Prefix.Masked() {
		errs = append(errs, fmt.Errorf("locator %s: bits set after the prefix, write %s", l.Prefix, l.Prefix.Masked()))
	}
	if a := l.Prefix.Addr(); a.IsMulticast() || a.IsLinkLocalUnicast() || a.IsLoopback() || l.Prefix.Bits() == 0 {
		errs = append(errs, fmt.Errorf("locator %s: not a unicast prefix that can be routed", l.Prefix))
	}
	if int(l.BlockBits)+int(l.NodeBits) != l.Prefix.Bits() {
		errs = append(errs, fmt.Errorf("locator %s: block (%d bits) and node (%d bits) must be the prefix's %d bits",
			l.Prefix, l.BlockBits, l.NodeBits, l.Prefix.Bits()))
	}
	if l.FunctionBits < MinFunctionBits || l.FunctionBits > MaxFunctionBits {
		errs = append(errs, fmt.Errorf("locator %s: function has %d bits, needs %d to %d",
			l.Prefix, l.FunctionBits, MinFunctionBits, MaxFunctionBits))
	} else if l.Prefix.Bits()+int(l.FunctionBits) > 128 {
		errs = append(errs, fmt.Errorf("locator %s: %d function bits do not fit after it", l.Prefix, l.FunctionBits))
	}
	return errors.Join(errs...)
}

// Overlaps reports whether a SID could belong to both locators.
func (l Locator) Overlaps(other Locator) bool { return l.Prefix.Overlaps(other.Prefix) }

// Structure returns how SIDs of this locator are divided, as it is announced.
func (l Locator) Structure() Structure {
	return Structure{BlockBits: l.BlockBits, NodeBits: l.NodeBits, FunctionBits: l.FunctionBits}
}

// SID returns the address that has the given function. Function 0 is refused:
// it is the node's own address, not a peer's.
func (l Locator) SID(function uint32) (netip.Addr, error) {
	if function == 0 || uint64(function) >= 1<<l.FunctionBits {
		return netip.Addr{}, fmt.Errorf("locator %s: function %d outside 1 to %d", l.Prefix, function, uint64(1)<<l.FunctionBits-1)
	}
	a := l.Prefix.Addr().As16()
	// The function may lie on any bit boundary: place it in a 128-bit number.
	shift := 128 - l.Prefix.Bits() - int(l.FunctionBits)
	hi, lo := shiftLeft(uint64(function), shift)
	binary.BigEndian.PutUint64(a[:8], binary.BigEndian.Uint64(a[:8])|hi)
	binary.BigEndian.PutUint64(a[8:], binary.BigEndian.Uint64(a[8:])|lo)
	return netip.AddrFrom16(a), nil
}

// Function is the reverse of [Locator.SID]. It is false for an address outside
// the locator, with function 0, or with bits set after the function.
func (l Locator) Function(sid netip.Addr) (uint32, bool) {
	if !l.Prefix.Contains(sid) {
		return 0, false
	}
	a := sid.As16()
	hi, lo := binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:])
	shift := 128 - l.Prefix.Bits() - int(l.FunctionBits)
	function := uint32(shiftRight(hi, lo, shift) & (1<<l.FunctionBits - 1))
	back, err := l.SID(function)
	return function, err == nil && back == sid
}

// shiftLeft returns v << n as a 128-bit number.
func shiftLeft(v uint64, n int) (hi, lo uint64) {
	if n >= 64 {
		return v << (n - 64), 0
	}
	return v >> (64 - n), v << n
}

// shiftRight returns the low 64 bits of the 128-bit number >> n.
func shiftRight(hi, lo uint64, n int) uint64 {
	if n >= 64 {
		return hi >> (n - 64)
	}
	return hi<<(64-n) | lo>>n
}

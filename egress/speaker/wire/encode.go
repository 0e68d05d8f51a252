package wire

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/srv6"
)

// Template makes UPDATE messages for routes of one family that have all else in common.
type Template struct {
	// Attributes are the encoded path attributes other than the multiprotocol one.
	Attributes []byte
	// MaxLength is the greatest length of a message, in bytes.
	MaxLength int
	kind      bgp.BGPAttrType
	// field is the multiprotocol attribute's value before its routes.
	field []byte
}

// Announcement is the template of messages that announce routes. attributes comes from
// [VPNRoute.Encode], and maxLength bounds a message, in bytes.
func Announcement(attributes []byte, hop netip.Addr, family Family, maxLength int) Template {
	address := hop.AsSlice()
	if family == VPNv6 && hop.Is4() {
		mapped := hop.As16() // RFC 4659 §3.2.1.2
		address = mapped[:]
	}
	field := binary.BigEndian.AppendUint16(nil, family.GoBGP().Afi())
	field = append(field, family.GoBGP().Safi(), byte(rdLength+len(address)))
	field = append(field, make([]byte, rdLength)...)
	field = append(append(field, address...), 0)
	return Template{Attributes: attributes, MaxLength: maxLength, kind: bgp.BGP_ATTR_TYPE_MP_REACH_NLRI, field: field}
}

// Withdrawal is the template of messages that withdraw routes. They fit any session.
func Withdrawal(family Family) Template {
	field := binary.BigEndian.AppendUint16(nil, family.GoBGP().Afi())
	field = append(field, family.GoBGP().Safi())
	return Template{MaxLength: MaxMessage, kind: bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI, field: field}
}

// reflected is the room that a reflector needs to pass a route on, in bytes. It holds
// ORIGINATOR_ID, and a CLUSTER_LIST of eight clusters (RFC 4456 §8). A message that just
// fits would end at the first reflector.
const reflected = 3 + 4 + 3 + 8*4

// Split separates the routes that fit into a message of their own, on all of their way
// within the AS, from the others. For the others the attributes leave no room.
func (t Template) Split(prefixes []netip.Prefix) (fitting, tooLong []netip.Prefix) {
	room := t.MaxLength - t.fixed() - reflected
	tooBig := func(p netip.Prefix) bool { return vpnLength(p) > room }
	if !slices.ContainsFunc(prefixes, tooBig) {
		return prefixes, nil
	}
	for _, p := range prefixes {
		if tooBig(p) {
			tooLong = append(tooLong, p)
		} else {
			fitting = append(fitting, p)
		}
	}
	return fitting, tooLong
}

// fixed is the length of a message without routes.
func (t Template) fixed() int { return HeaderLength + 2 + 2 + 4 + len(t.field) + len(t.Attributes) }

// Append appends as few messages as hold the prefixes, each of which must fit into one.
// The multiprotocol attribute comes before the others (RFC 7606 §5.1).
func (t Template) Append(b []byte, rd srv6.RouteDistinguisher, prefixes []netip.Prefix) []byte {
	for len(prefixes) > 0 {
		start := len(b)
		b = AppendHeader(b, bgp.BGP_MSG_UPDATE)
		b = append(b, 0, 0, 0, 0, extended, byte(t.kind), 0, 0)
		b = append(b, t.field...)
		for n := 0; len(prefixes) > 0; n++ {
			if n > 0 && len(b)-start+len(t.Attributes)+vpnLength(prefixes[0]) > t.MaxLength {
				break
			}
			b = AppendVPN(b, rd, prefixes[0])
			prefixes = prefixes[1:]
		}
		own := b[start:]
		binary.BigEndian.PutUint16(own[HeaderLength+6:], uint16(len(own)-HeaderLength-8))
		b = append(b, t.Attributes...)
		own = b[start:]
		binary.BigEndian.PutUint16(own[HeaderLength+2:], uint16(len(own)-HeaderLength-4))
		binary.BigEndian.PutUint16(own[16:], uint16(len(own)))
	}
	return b
}

// vpnLength is the length of a VPN route in an NLRI field, in bytes.
func vpnLength(p netip.Prefix) int { return 1 + labelLength + rdLength + (p.Bits()+7)/8 }

// AppendHeader appends a header whose length is still to be filled in.
func AppendHeader(b []byte, kind byte) []byte {
	for range 16 {
		b = append(b, 0xff)
	}
	return append(b, 0, 0, kind)
}

// AppendVPN appends a VPN route as an NLRI field has it (RFC 4364 §4.3.4).
func AppendVPN(b []byte, rd srv6.RouteDistinguisher, p netip.Prefix) []byte {
	b = append(b, byte(8*(labelLength+rdLength)+p.Bits()), 0, 0, ImplicitNull<<4|1)
	b = append(b, rd[:]...)
	if a := p.Addr(); a.Is4() {
		raw := a.As4()
		return append(b, raw[:(p.Bits()+7)/8]...)
	}
	raw := p.Addr().As16()
	return append(b, raw[:(p.Bits()+7)/8]...)
}

// AppendEndOfRIB appends the UPDATE that ends a family's first transfer.
func AppendEndOfRIB(b []byte, family Family) []byte {
	f := family.GoBGP()
	b = AppendHeader(b, bgp.BGP_MSG_UPDATE)
	if family == IPv4Unicast {
		const length = HeaderLength + 4
		b = append(b, 0, 0, 0, 0)
		binary.BigEndian.PutUint16(b[len(b)-length+16:], length)
		return b
	}
	b = append(b, 0, 0, 0, 6, byte(bgp.BGP_ATTR_FLAG_OPTIONAL), byte(bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI), 3)
	b = append(binary.BigEndian.AppendUint16(b, f.Afi()), f.Safi())
	const length = HeaderLength + 4 + 6
	binary.BigEndian.PutUint16(b[len(b)-length+16:], length)
	return b
}

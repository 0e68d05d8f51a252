package speaker

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/srv6"
)

// wire returns the attributes of a route but the next hop as they are sent within
// the AS.
func (r VPNRoute) wire() ([]byte, error) {
	if r.Attributes.LocalPref == 0 {
		r.Attributes.LocalPref = defaultLocalPref
	}
	attributes, err := r.gobgp()
	if err != nil {
		return nil, err
	}
	var b []byte
	for _, a := range attributes {
		one, err := a.Serialize()
		if err != nil {
			return nil, fmt.Errorf("encoding attribute %s: %w", a.GetType(), err)
		}
		b = append(b, one...)
	}
	return b, nil
}

// updates are UPDATE messages for routes of one family that have all else in common.
type updates struct {
	kind bgp.BGPAttrType
	// field is what the multiprotocol attribute has before its routes.
	field, attributes []byte
	// longest is the length of a message at most, in bytes.
	longest int
}

// announcement are messages that announce routes. attributes is what [VPNRoute.wire]
// returned.
func announcement(attributes []byte, hop netip.Addr, family Family, longest int) updates {
	address := hop.AsSlice()
	if family == VPNv6 && hop.Is4() {
		mapped := hop.As16() // RFC 4659 §3.2.1.2
		address = mapped[:]
	}
	field := binary.BigEndian.AppendUint16(nil, family.gobgp().Afi())
	field = append(field, family.gobgp().Safi(), byte(rdLength+len(address)))
	field = append(field, make([]byte, rdLength)...)
	field = append(append(field, address...), 0)
	return updates{bgp.BGP_ATTR_TYPE_MP_REACH_NLRI, field, attributes, longest}
}

// withdrawal are messages that withdraw routes. They fit into messages of any session.
func withdrawal(family Family) updates {
	field := binary.BigEndian.AppendUint16(nil, family.gobgp().Afi())
	return updates{kind: bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI, field: append(field, family.gobgp().Safi()), longest: maxMessage}
}

// reflected is the room that a reflector needs to pass a route on, in bytes:
// ORIGINATOR_ID, and a CLUSTER_LIST of eight clusters (RFC 4456 §8). A message that just
// fits would end at the first reflector.
const reflected = 3 + 4 + 3 + 8*4

// split parts the routes that have room in a message of their own, on all of their way
// within the AS, from those for which the attributes leave none.
func (u updates) split(prefixes []netip.Prefix) (fitting, tooLong []netip.Prefix) {
	room := u.longest - u.fixed() - reflected
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
func (u updates) fixed() int { return headerLength + 2 + 2 + 4 + len(u.field) + len(u.attributes) }

// append appends as few messages as hold the prefixes, for each of which a message must
// have room. The multiprotocol attribute comes before the others (RFC 7606 §5.1).
func (u updates) append(b []byte, rd srv6.RouteDistinguisher, prefixes []netip.Prefix) []byte {
	for len(prefixes) > 0 {
		start := len(b)
		b = appendHeader(b, bgp.BGP_MSG_UPDATE)
		b = append(b, 0, 0, 0, 0, extended, byte(u.kind), 0, 0)
		b = append(b, u.field...)
		for n := 0; len(prefixes) > 0; n++ {
			if n > 0 && len(b)-start+len(u.attributes)+vpnLength(prefixes[0]) > u.longest {
				break
			}
			b = appendVPN(b, rd, prefixes[0])
			prefixes = prefixes[1:]
		}
		own := b[start:]
		binary.BigEndian.PutUint16(own[headerLength+6:], uint16(len(own)-headerLength-8))
		b = append(b, u.attributes...)
		own = b[start:]
		binary.BigEndian.PutUint16(own[headerLength+2:], uint16(len(own)-headerLength-4))
		binary.BigEndian.PutUint16(own[16:], uint16(len(own)))
	}
	return b
}

// vpnLength is the length of a VPN route in an NLRI field, in bytes.
func vpnLength(p netip.Prefix) int { return 1 + labelLength + rdLength + (p.Bits()+7)/8 }

// appendHeader appends a header whose length is still to be filled in.
func appendHeader(b []byte, kind byte) []byte {
	for range 16 {
		b = append(b, 0xff)
	}
	return append(b, 0, 0, kind)
}

func appendVPN(b []byte, rd srv6.RouteDistinguisher, p netip.Prefix) []byte {
	b = append(b, byte(8*(labelLength+rdLength)+p.Bits()), 0, 0, implicitNull<<4|1)
	b = append(b, rd[:]...)
	if a := p.Addr(); a.Is4() {
		raw := a.As4()
		return append(b, raw[:(p.Bits()+7)/8]...)
	}
	raw := p.Addr().As16()
	return append(b, raw[:(p.Bits()+7)/8]...)
}

// appendEndOfRIB appends the UPDATE that ends a family's first transfer.
func appendEndOfRIB(b []byte, family Family) []byte {
	f := family.gobgp()
	b = appendHeader(b, bgp.BGP_MSG_UPDATE)
	if family == IPv4Unicast {
		const length = headerLength + 4
		b = append(b, 0, 0, 0, 0)
		binary.BigEndian.PutUint16(b[len(b)-length+16:], length)
		return b
	}
	b = append(b, 0, 0, 0, 6, byte(bgp.BGP_ATTR_FLAG_OPTIONAL), byte(bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI), 3)
	b = append(binary.BigEndian.AppendUint16(b, f.Afi()), f.Safi())
	const length = headerLength + 4 + 6
	binary.BigEndian.PutUint16(b[len(b)-length+16:], length)
	return b
}

package speaker

import (
	"encoding/binary"
	"fmt"
	"net/netip"

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

// appendAnnouncement appends as few UPDATE messages as hold the prefixes, which
// are of one family. attributes is what [VPNRoute.wire] returned. It fails where
// these leave no room for a route.
func appendAnnouncement(b, attributes []byte, hop netip.Addr, rd srv6.RouteDistinguisher, family Family, prefixes []netip.Prefix) ([]byte, error) {
	address := hop.AsSlice()
	if family == VPNv6 && hop.Is4() {
		mapped := hop.As16() // RFC 4659 §3.2.1.2
		address = mapped[:]
	}
	field := binary.BigEndian.AppendUint16(nil, family.gobgp().Afi())
	field = append(field, family.gobgp().Safi(), byte(rdLength+len(address)))
	field = append(field, make([]byte, rdLength)...)
	field = append(append(field, address...), 0)
	return appendUpdates(b, bgp.BGP_ATTR_TYPE_MP_REACH_NLRI, field, attributes, rd, prefixes)
}

// appendWithdrawal appends as few UPDATE messages as withdraw the prefixes, which
// are of one family.
func appendWithdrawal(b []byte, rd srv6.RouteDistinguisher, family Family, prefixes []netip.Prefix) ([]byte, error) {
	field := binary.BigEndian.AppendUint16(nil, family.gobgp().Afi())
	return appendUpdates(b, bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI, append(field, family.gobgp().Safi()), nil, rd, prefixes)
}

// appendUpdates appends messages with one multiprotocol attribute, which begins
// with field and comes before the others (RFC 7606 §5.1).
func appendUpdates(b []byte, kind bgp.BGPAttrType, field, attributes []byte, rd srv6.RouteDistinguisher, prefixes []netip.Prefix) ([]byte, error) {
	fixed := headerLength + 2 + 2 + 4 + len(field) + len(attributes)
	const largest = 1 + labelLength + rdLength + 16
	if fixed+largest > maxMessage {
		return b, fmt.Errorf("path attributes of %d bytes leave no room for a route in a message of %d", len(attributes), maxMessage)
	}
	for len(prefixes) > 0 {
		start := len(b)
		b = appendHeader(b, bgp.BGP_MSG_UPDATE)
		b = append(b, 0, 0, 0, 0, extended, byte(kind), 0, 0)
		b = append(b, field...)
		for len(prefixes) > 0 && len(b)-start+len(attributes)+largest <= maxMessage {
			b = appendVPN(b, rd, prefixes[0])
			prefixes = prefixes[1:]
		}
		own := b[start:]
		binary.BigEndian.PutUint16(own[headerLength+6:], uint16(len(own)-headerLength-8))
		b = append(b, attributes...)
		own = b[start:]
		binary.BigEndian.PutUint16(own[headerLength+2:], uint16(len(own)-headerLength-4))
		binary.BigEndian.PutUint16(own[16:], uint16(len(own)))
	}
	return b, nil
}

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

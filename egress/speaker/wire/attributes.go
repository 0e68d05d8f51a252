package wire

import (
	"encoding/binary"
	"net/netip"
	"unique"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Attributes are the BGP path attributes that path selection and operators need.
// Two can be compared with ==.
type Attributes struct {
	// NextHop is where the peer wants the packets.
	NextHop netip.Addr
	// ASPath is the way to the origin.
	ASPath ASPath
	// Origin is 0 IGP, 1 EGP, 2 incomplete (RFC 4271 §5.1.1).
	Origin uint8
	// HasMED reports whether MED was announced.
	HasMED bool
	// HasOTC reports whether an egress peer announced OTC.
	HasOTC bool
	// MED is the multi-exit discriminator.
	MED uint32
	// LocalPref is only there from reflectors; 0 means none.
	LocalPref uint32
	// OTC is Only to Customer (RFC 9234 §5): the AS that the route must not go up from any
	// more. It is never sent on within the AS.
	OTC uint32

	communities string
	large       string // to send, or an egress peer's
	// extended are an egress peer's, which are not sent on; the zero value for none. A
	// handle keeps the struct within 96 bytes, of which borders have millions.
	extended unique.Handle[string]
}

// Communities returns the RFC 1997 communities.
func (a Attributes) Communities() []uint32 {
	list := make([]uint32, 0, len(a.communities)/4)
	for c := a.communities; len(c) >= 4; c = c[4:] {
		list = append(list, binary.BigEndian.Uint32([]byte(c[:4])))
	}
	return list
}

// WithCommunities returns a copy with these communities instead.
func (a Attributes) WithCommunities(list ...uint32) Attributes {
	b := make([]byte, 0, 4*len(list))
	for _, c := range list {
		b = binary.BigEndian.AppendUint32(b, c)
	}
	a.communities = string(b)
	return a
}

// LargeCommunity is one of RFC 8092: an AS number and two of its own choice.
type LargeCommunity [3]uint32

// LargeFromGoBGP returns the large communities among a path's attributes.
func LargeFromGoBGP(attrs []bgp.PathAttributeInterface) (list []LargeCommunity) {
	for _, attr := range attrs {
		if large, ok := attr.(*bgp.PathAttributeLargeCommunities); ok {
			for _, c := range large.Values {
				list = append(list, LargeCommunity{c.ASN, c.LocalData1, c.LocalData2})
			}
		}
	}
	return list
}

// WithLargeCommunities returns a copy that is sent with these large communities instead.
func (a Attributes) WithLargeCommunities(list ...LargeCommunity) Attributes {
	b := make([]byte, 0, 12*len(list))
	for _, c := range list {
		for _, part := range c {
			b = binary.BigEndian.AppendUint32(b, part)
		}
	}
	a.large = string(b)
	return a
}

// LargeCommunities returns the large communities (RFC 8092).
func (a Attributes) LargeCommunities() []LargeCommunity {
	list := make([]LargeCommunity, 0, len(a.large)/12)
	for c := []byte(a.large); len(c) >= 12; c = c[12:] {
		list = append(list, LargeCommunity{
			binary.BigEndian.Uint32(c), binary.BigEndian.Uint32(c[4:]), binary.BigEndian.Uint32(c[8:]),
		})
	}
	return list
}

// ExtendedCommunity is one of RFC 4360, as on the wire.
type ExtendedCommunity [8]byte

// ExtendedCommunities returns the extended communities that an egress peer announced.
func (a Attributes) ExtendedCommunities() []ExtendedCommunity {
	if a.extended == (unique.Handle[string]{}) {
		return nil
	}
	text := a.extended.Value()
	list := make([]ExtendedCommunity, 0, len(text)/8)
	for c := []byte(text); len(c) >= 8; c = c[8:] {
		list = append(list, ExtendedCommunity(c[:8]))
	}
	return list
}

// WithExtendedCommunities returns a copy with these extended communities instead.
func (a Attributes) WithExtendedCommunities(list ...ExtendedCommunity) Attributes {
	var b []byte
	for _, c := range list {
		b = append(b, c[:]...)
	}
	return a.withExtended(b)
}

func (a Attributes) withExtended(b []byte) Attributes {
	a.extended = unique.Handle[string]{}
	if len(b) > 0 {
		a.extended = unique.Make(string(b))
	}
	return a
}

// ForServers returns a copy without the attributes that are for the border's import policy
// alone.
func (a Attributes) ForServers() Attributes {
	a.HasOTC, a.OTC, a.large = false, 0, ""
	return a.withExtended(nil)
}

// AttributesFromGoBGP reads a path's attributes; unknown ones are left out.
func AttributesFromGoBGP(attrs []bgp.PathAttributeInterface) Attributes {
	var a Attributes
	for _, attr := range attrs {
		switch attr := attr.(type) {
		case *bgp.PathAttributeOrigin:
			a.Origin = attr.Value
		case *bgp.PathAttributeAsPath:
			a.ASPath = asPathFromGoBGP(attr)
		case *bgp.PathAttributeNextHop:
			a.NextHop = attr.Value
		case *bgp.PathAttributeMpReachNLRI:
			a.NextHop = attr.Nexthop
		case *bgp.PathAttributeMultiExitDisc:
			a.MED, a.HasMED = attr.Value, true
		case *bgp.PathAttributeLocalPref:
			a.LocalPref = attr.Value
		case *bgp.PathAttributeCommunities:
			a = a.WithCommunities(attr.Value...)
		}
	}
	return a
}

// gobgp returns the attributes other than the next hop, which goes with the NLRI.
func (a Attributes) GoBGP() []bgp.PathAttributeInterface {
	var segments []bgp.AsPathParamInterface
	a.ASPath.segments(func(kind byte, numbers []uint32) bool {
		segments = append(segments, bgp.NewAs4PathParam(kind, numbers))
		return true
	})
	attrs := []bgp.PathAttributeInterface{
		bgp.NewPathAttributeOrigin(a.Origin),
		bgp.NewPathAttributeAsPath(segments),
	}
	if a.HasMED {
		attrs = append(attrs, bgp.NewPathAttributeMultiExitDisc(a.MED))
	}
	if a.LocalPref != 0 {
		attrs = append(attrs, bgp.NewPathAttributeLocalPref(a.LocalPref))
	}
	if list := a.Communities(); len(list) > 0 {
		attrs = append(attrs, bgp.NewPathAttributeCommunities(list))
	}
	var large []*bgp.LargeCommunity
	for _, c := range a.LargeCommunities() {
		large = append(large, &bgp.LargeCommunity{ASN: c[0], LocalData1: c[1], LocalData2: c[2]})
	}
	if len(large) > 0 {
		attrs = append(attrs, bgp.NewPathAttributeLargeCommunities(large))
	}
	return attrs
}

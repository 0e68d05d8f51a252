package wire

import (
	"encoding/binary"
	"net/netip"

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
	// MED is the multi-exit discriminator.
	MED uint32
	// LocalPref is only there from reflectors; 0 means none.
	LocalPref uint32

	communities string
	large       string // only to send: received ones are not needed
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
	for c := []byte(a.large); len(c) >= 12; c = c[12:] {
		large = append(large, &bgp.LargeCommunity{
			ASN:        binary.BigEndian.Uint32(c),
			LocalData1: binary.BigEndian.Uint32(c[4:]),
			LocalData2: binary.BigEndian.Uint32(c[8:]),
		})
	}
	if len(large) > 0 {
		attrs = append(attrs, bgp.NewPathAttributeLargeCommunities(large))
	}
	return attrs
}

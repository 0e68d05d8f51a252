package wire

import (
	"encoding/binary"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// AttributesOfPeer is [AttributesFromGoBGP] for a route of an egress peer. It also reads
// those that only an import policy asks for. ok is false where one of these is malformed, so
// that the route counts as withdrawn.
func AttributesOfPeer(attrs []bgp.PathAttributeInterface) (a Attributes, ok bool) {
	a, ok = AttributesFromGoBGP(attrs), true
	for _, attr := range attrs {
		switch attr := attr.(type) {
		case *bgp.PathAttributeLargeCommunities:
			list := make([]LargeCommunity, 0, len(attr.Values))
			for _, c := range attr.Values {
				list = append(list, LargeCommunity{c.ASN, c.LocalData1, c.LocalData2})
			}
			a = a.WithLargeCommunities(list...)
		case *bgp.PathAttributeExtendedCommunities:
			a = a.withExtended(extendedFromGoBGP(attr))
		case *bgp.PathAttributeUnknown:
			switch attr.Type {
			case bgp.BGP_ATTR_TYPE_LARGE_COMMUNITY:
				a.large = string(attr.Value)
			case bgp.BGP_ATTR_TYPE_EXTENDED_COMMUNITIES:
				a = a.withExtended(attr.Value)
			case onlyToCustomer:
				// RFC 9234 §5: another length counts as withdrawn.
				if ok = ok && len(attr.Value) == 4; ok {
					a.HasOTC, a.OTC = true, binary.BigEndian.Uint32(attr.Value)
				}
			}
		}
	}
	return a, ok && !a.ASPath.Contains(0) // RFC 7607 §2
}

func extendedFromGoBGP(attr *bgp.PathAttributeExtendedCommunities) []byte {
	var b []byte
	for _, c := range attr.Value {
		if one, err := c.Serialize(); err == nil && len(one) == 8 {
			b = append(b, one...)
		}
	}
	return b
}

// NewOnlyToCustomer returns the attribute OTC (RFC 9234 §5).
func NewOnlyToCustomer(as uint32) bgp.PathAttributeInterface {
	return bgp.NewPathAttributeUnknown(transitiveFlags, onlyToCustomer, binary.BigEndian.AppendUint32(nil, as))
}

package wire

import (
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// ReceivePaths returns the capability ADD-PATH that offers to receive several paths for each
// prefix of the families (RFC 7911 §4).
func ReceivePaths(families []Family) bgp.ParameterCapabilityInterface {
	tuples := make([]*bgp.CapAddPathTuple, 0, len(families))
	for _, f := range families {
		tuples = append(tuples, bgp.NewCapAddPathTuple(f.GoBGP(), bgp.BGP_ADD_PATH_RECEIVE))
	}
	return bgp.NewCapAddPath(tuples)
}

// SendsPaths reports whether a neighbour with these capabilities sends several paths for each
// prefix of a family. A capability with an unknown value is ignored as a whole (RFC 7911 §4).
func SendsPaths(capabilities []bgp.ParameterCapabilityInterface, f Family) bool {
	return slices.ContainsFunc(capabilities, func(c bgp.ParameterCapabilityInterface) bool {
		offer, ok := c.(*bgp.CapAddPath)
		return ok && !slices.ContainsFunc(offer.Tuples, func(t *bgp.CapAddPathTuple) bool {
			return t.Mode < bgp.BGP_ADD_PATH_RECEIVE || t.Mode > bgp.BGP_ADD_PATH_BOTH
		}) && slices.ContainsFunc(offer.Tuples, func(t *bgp.CapAddPathTuple) bool {
			return t.Family == f.GoBGP() && t.Mode&bgp.BGP_ADD_PATH_SEND != 0
		})
	})
}

// Originator is the router that a route within the AS comes from (RFC 4456 §8), the zero
// address where no reflector has passed it on.
func Originator(attributes []bgp.PathAttributeInterface) netip.Addr {
	for _, a := range attributes {
		if id, ok := a.(*bgp.PathAttributeOriginatorId); ok {
			return id.Value
		}
	}
	return netip.Addr{}
}

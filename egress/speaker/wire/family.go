// Package wire has BGP routes, and reads and writes the UPDATE messages that carry them,
// without an object for each prefix. A content server gets 800,000 VPN routes from every
// reflector, a border as many from its peers. Path attributes, which come once a message,
// are decoded by GoBGP's packet library.
package wire

import (
	"fmt"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Family is an address family that a session can carry.
type Family uint8

// The families that the egress plane uses.
const (
	IPv4Unicast Family = iota + 1
	IPv6Unicast
	VPNv4
	VPNv6
)

// String returns the name that configuration files use.
func (f Family) String() string {
	switch f {
	case IPv4Unicast:
		return "ipv4"
	case IPv6Unicast:
		return "ipv6"
	case VPNv4:
		return "vpnv4"
	case VPNv6:
		return "vpnv6"
	default:
		return fmt.Sprintf("Family(%d)", uint8(f))
	}
}

// VPN reports whether routes of the family carry a route distinguisher.
func (f Family) VPN() bool { return f == VPNv4 || f == VPNv6 }

func (f Family) GoBGP() bgp.Family {
	switch f {
	case IPv4Unicast:
		return bgp.RF_IPv4_UC
	case IPv6Unicast:
		return bgp.RF_IPv6_UC
	case VPNv4:
		return bgp.RF_IPv4_VPN
	case VPNv6:
		return bgp.RF_IPv6_VPN
	default:
		return 0
	}
}

func FamilyFromGoBGP(f bgp.Family) (Family, bool) {
	for _, known := range []Family{IPv4Unicast, IPv6Unicast, VPNv4, VPNv6} {
		if known.GoBGP() == f {
			return known, true
		}
	}
	return 0, false
}

// SharedFamilies are those of ours that the neighbour offered, too. A neighbour
// without any multiprotocol capability speaks IPv4 unicast (RFC 4760 §8).
func SharedFamilies(ours []Family, capabilities []bgp.ParameterCapabilityInterface) []Family {
	var theirs []Family
	for _, c := range capabilities {
		if mp, ok := c.(*bgp.CapMultiProtocol); ok {
			if f, known := FamilyFromGoBGP(mp.CapValue); known {
				theirs = append(theirs, f)
			}
		}
	}
	if len(theirs) == 0 {
		theirs = []Family{IPv4Unicast}
	}
	var shared []Family
	for _, f := range ours {
		if slices.Contains(theirs, f) {
			shared = append(shared, f)
		}
	}
	return shared
}

// VPNFamily is the family of VPN routes for IPv4 or IPv6.
func VPNFamily(is4 bool) Family {
	if is4 {
		return VPNv4
	}
	return VPNv6
}

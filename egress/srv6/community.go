package srv6

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// RouteDistinguisher is the 8-byte prefix of a VPN route (RFC 4364 §4.2), in
// the form in which it is on the wire. It can be a map key.
type RouteDistinguisher [8]byte

// RouteTarget is the 8-byte extended community that says to whom a VPN route
// belongs (RFC 4360 §4), as on the wire. It can be a map key.
type RouteTarget [8]byte

const (
	typeTwoOctetAS  = 0
	typeIPv4Address = 1
	typeFourOctetAS = 2
	subTypeTarget   = 2
)

// NewRouteDistinguisher returns the RD of type 1, written routerID:number.
// routerID must be an IPv4 address.
func NewRouteDistinguisher(routerID netip.Addr, number uint16) RouteDistinguisher {
	rd := RouteDistinguisher{1: typeIPv4Address}
	a := routerID.As4()
	copy(rd[2:], a[:])
	binary.BigEndian.PutUint16(rd[6:], number)
	return rd
}

// NewRouteTarget returns the IPv4-address-specific target routerID:number.
// routerID must be an IPv4 address.
func NewRouteTarget(routerID netip.Addr, number uint16) RouteTarget {
	rt := RouteTarget{typeIPv4Address, subTypeTarget}
	a := routerID.As4()
	copy(rt[2:], a[:])
	binary.BigEndian.PutUint16(rt[6:], number)
	return rt
}

// ItselfNumber is the number of no peer. Routes of the distinguisher ROUTER_ID:0 are the
// border's own addresses.
const ItselfNumber = 0

// MainTarget is the target ROUTER_ID:0. It marks routes by which the border's main table
// sends packets, too.
func MainTarget(routerID netip.Addr) RouteTarget { return NewRouteTarget(routerID, ItselfNumber) }

// portNumber is the number of no peer, either.
const portNumber = math.MaxUint16

// PortTarget is the target ROUTER_ID:65535. It marks a route whose large communities hold the
// state of a port. A reflector cannot take it off without taking the route from everybody.
func PortTarget(routerID netip.Addr) RouteTarget { return NewRouteTarget(routerID, portNumber) }

// ParseRouteDistinguisher reads "192.0.2.1:7", "64500:7" or "4200000000:7".
func ParseRouteDistinguisher(s string) (RouteDistinguisher, error) {
	kind, value, err := parseAdministered(s)
	if err != nil {
		return RouteDistinguisher{}, fmt.Errorf("route distinguisher %q: %w", s, err)
	}
	rd := RouteDistinguisher{1: kind}
	copy(rd[2:], value[:])
	return rd, nil
}

// ParseRouteTarget reads the same forms as [ParseRouteDistinguisher].
func ParseRouteTarget(s string) (RouteTarget, error) {
	kind, value, err := parseAdministered(s)
	if err != nil {
		return RouteTarget{}, fmt.Errorf("route target %q: %w", s, err)
	}
	rt := RouteTarget{kind, subTypeTarget}
	copy(rt[2:], value[:])
	return rt, nil
}

// String returns the form that BGP daemons show, such as "192.0.2.1:7".
func (rd RouteDistinguisher) String() string {
	if rd[0] != 0 || rd[1] > typeFourOctetAS {
		return fmt.Sprintf("%#x", rd[:])
	}
	return formatAdministered(rd[1], [6]byte(rd[2:]))
}

// String returns the form that BGP daemons show, such as "192.0.2.1:7".
func (rt RouteTarget) String() string {
	if rt[0] > typeFourOctetAS || rt[1] != subTypeTarget {
		return fmt.Sprintf("%#x", rt[:])
	}
	return formatAdministered(rt[0], [6]byte(rt[2:]))
}

// MarshalText makes JSON and TOML show the form of [RouteDistinguisher.String].
func (rd RouteDistinguisher) MarshalText() ([]byte, error) { return []byte(rd.String()), nil }

// UnmarshalText is [ParseRouteDistinguisher].
func (rd *RouteDistinguisher) UnmarshalText(text []byte) (err error) {
	*rd, err = ParseRouteDistinguisher(string(text))
	return err
}

// MarshalText makes JSON and TOML show the form of [RouteTarget.String].
func (rt RouteTarget) MarshalText() ([]byte, error) { return []byte(rt.String()), nil }

// UnmarshalText is [ParseRouteTarget].
func (rt *RouteTarget) UnmarshalText(text []byte) (err error) {
	*rt, err = ParseRouteTarget(string(text))
	return err
}

// GoBGP returns the RD as GoBGP wants it in an NLRI.
func (rd RouteDistinguisher) GoBGP() bgp.RouteDistinguisherInterface {
	return bgp.GetRouteDistinguisher(rd[:])
}

// DistinguisherFromGoBGP is the reverse of [RouteDistinguisher.GoBGP]. It refuses
// types other than those of RFC 4364 §4.2: GoBGP loses their value, and different
// distinguishers would become one.
func DistinguisherFromGoBGP(rd bgp.RouteDistinguisherInterface) (RouteDistinguisher, error) {
	if rd == nil {
		return RouteDistinguisher{}, fmt.Errorf("route distinguisher missing")
	}
	b, err := rd.Serialize()
	if err != nil || len(b) != 8 {
		return RouteDistinguisher{}, fmt.Errorf("route distinguisher %s cannot be encoded: %w", rd, err)
	}
	if b[0] != 0 || b[1] > typeFourOctetAS {
		return RouteDistinguisher{}, fmt.Errorf("route distinguisher of unknown type %#x", b[:2])
	}
	return RouteDistinguisher(b), nil
}

// GoBGP returns the target as GoBGP wants it among extended communities.
func (rt RouteTarget) GoBGP() (bgp.ExtendedCommunityInterface, error) {
	return bgp.ParseExtended(rt[:])
}

// TargetsFromGoBGP returns the route targets among a path's attributes, in the
// order of the attribute. Other extended communities are left out.
func TargetsFromGoBGP(attrs []bgp.PathAttributeInterface) []RouteTarget {
	var targets []RouteTarget
	for _, attr := range attrs {
		communities, ok := attr.(*bgp.PathAttributeExtendedCommunities)
		if !ok {
			continue
		}
		for _, c := range communities.Value {
			b, err := c.Serialize()
			if err == nil && len(b) == 8 && b[0] <= typeFourOctetAS && b[1] == subTypeTarget {
				targets = append(targets, RouteTarget(b))
			}
		}
	}
	return targets
}

// parseAdministered reads administrator:number. The type follows from the
// administrator: an address, an AS of 16 bits (number of 32), or a greater AS.
func parseAdministered(s string) (kind byte, value [6]byte, err error) {
	admin, number, ok := strings.Cut(s, ":")
	if !ok {
		return 0, value, fmt.Errorf("must be ADDRESS:NUMBER or AS:NUMBER")
	}
	bits := 16
	if addr, err := netip.ParseAddr(admin); err == nil && addr.Is4() {
		kind = typeIPv4Address
		a := addr.As4()
		copy(value[:], a[:])
	} else if as, err := strconv.ParseUint(admin, 10, 32); err != nil {
		return 0, value, fmt.Errorf("%q is neither an IPv4 address nor an AS number", admin)
	} else if as > 1<<16-1 {
		kind = typeFourOctetAS
		binary.BigEndian.PutUint32(value[:], uint32(as))
	} else {
		bits = 32
		binary.BigEndian.PutUint16(value[:], uint16(as))
	}
	n, err := strconv.ParseUint(number, 10, bits)
	if err != nil {
		return 0, value, fmt.Errorf("%q is not a number of %d bits", number, bits)
	}
	if bits == 32 {
		binary.BigEndian.PutUint32(value[2:], uint32(n))
	} else {
		binary.BigEndian.PutUint16(value[4:], uint16(n))
	}
	return kind, value, nil
}

func formatAdministered(kind byte, v [6]byte) string {
	switch kind {
	case typeTwoOctetAS:
		return fmt.Sprintf("%d:%d", binary.BigEndian.Uint16(v[:]), binary.BigEndian.Uint32(v[2:]))
	case typeIPv4Address:
		return fmt.Sprintf("%s:%d", netip.AddrFrom4([4]byte(v[:4])), binary.BigEndian.Uint16(v[4:]))
	default:
		return fmt.Sprintf("%d:%d", binary.BigEndian.Uint32(v[:]), binary.BigEndian.Uint16(v[4:]))
	}
}

// Package bgptest has what tests of the BGP packages share: prefixes, identities, and
// UPDATE messages byte by byte, so that they may be malformed.
package bgptest

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/srv6"
)

// OwnAS is the AS number of the speaker under test.
const OwnAS = 64500

// Flags of attributes, and types, as they stand in messages.
const (
	WellKnown   = byte(bgp.BGP_ATTR_FLAG_TRANSITIVE)
	Optional    = byte(bgp.BGP_ATTR_FLAG_OPTIONAL)
	Transitive  = Optional | WellKnown
	Extended    = Optional | byte(bgp.BGP_ATTR_FLAG_EXTENDED_LENGTH)
	ReachKind   = byte(bgp.BGP_ATTR_TYPE_MP_REACH_NLRI)
	UnreachKind = byte(bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI)
)

// Attribute encodes a path attribute.
func Attribute(flags, kind byte, value ...byte) []byte {
	return append([]byte{flags, kind, byte(len(value))}, value...)
}

// UpdateBody is the body of an UPDATE with these attributes.
func UpdateBody(attributes ...[]byte) []byte {
	all := slices.Concat(attributes...)
	return append([]byte{0, 0, byte(len(all) >> 8), byte(len(all))}, all...)
}

// UpdateMessage is an UPDATE with these attributes.
func UpdateMessage(attributes ...[]byte) []byte {
	body := UpdateBody(attributes...)
	m := slices.Repeat([]byte{0xff}, 16)
	m = binary.BigEndian.AppendUint16(m, uint16(bgp.BGP_HEADER_LENGTH+len(body)))
	return append(append(m, bgp.BGP_MSG_UPDATE), body...)
}

// A good VPN route, part by part.
var (
	RD = srv6.RouteDistinguisher{0, 1, 192, 0, 2, 1, 0, 7}
	// Route is 10.0.0.0/8 in an NLRI field; its label has no bottom-of-stack bit.
	Route = slices.Concat([]byte{88 + 8, 0x80, 0, 0}, RD[:], []byte{10})
	// ReachField is the value of MP_REACH_NLRI before its routes.
	ReachField  = slices.Concat([]byte{0, 1, 128, 12}, make([]byte, 8), []byte{192, 0, 2, 1, 0})
	GoodReach   = Attribute(Optional, ReachKind, slices.Concat(ReachField, Route)...)
	GoodUnreach = Attribute(Optional, UnreachKind, slices.Concat([]byte{0, 1, 128}, Route)...)
	GoodOrigin  = Attribute(WellKnown, 1, 0)
	GoodPath    = Attribute(WellKnown, 2, 2, 1, 0, 0, 0xfc, 0x59)
	GoodPref    = Attribute(WellKnown, 5, 0, 0, 0, 100)
)

// Prefixes6 returns n IPv6 prefixes /48, distinct for each first.
func Prefixes6(first, n int) []netip.Prefix {
	list := make([]netip.Prefix, n)
	for i := range list {
		a := [16]byte{0x2a, 0x10}
		binary.BigEndian.PutUint32(a[2:], uint32(first+i))
		list[i] = netip.PrefixFrom(netip.AddrFrom16(a), 48)
	}
	return list
}

// Identity is the SRv6 identity of a peer of a border router.
func Identity(t testing.TB, router netip.Addr, peer string) srv6.Identity {
	t.Helper()
	locator, err := srv6.NewLocator(netip.MustParsePrefix("2001:db8:100::/48"))
	if err != nil {
		t.Fatal(err)
	}
	allocator, err := srv6.NewAllocator(locator, router)
	if err != nil {
		t.Fatal(err)
	}
	id, err := allocator.Allocate(peer)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Service is the SRv6 service of an identity.
func Service(id srv6.Identity, b srv6.Behavior) srv6.Service {
	return srv6.Service{SID: id.SID, Behavior: b, Structure: srv6.Structure{BlockBits: 32, NodeBits: 16, FunctionBits: 16}}
}

// Prefixes are the prefixes of unicast and VPN routes that GoBGP has decoded.
func Prefixes(routes []bgp.PathNLRI) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, n := range routes {
		switch nlri := n.NLRI.(type) {
		case *bgp.IPAddrPrefix:
			prefixes = append(prefixes, nlri.Prefix)
		case *bgp.LabeledVPNIPAddrPrefix:
			prefixes = append(prefixes, nlri.Prefix)
		}
	}
	return prefixes
}

// Announced are the prefixes that an UPDATE announces.
func Announced(u *bgp.BGPUpdate) []netip.Prefix {
	routes := u.NLRI
	for _, a := range u.PathAttributes {
		if mp, ok := a.(*bgp.PathAttributeMpReachNLRI); ok {
			routes = append(routes, mp.Value...)
		}
	}
	return Prefixes(routes)
}

// Withdrawn are the prefixes that an UPDATE withdraws.
func Withdrawn(u *bgp.BGPUpdate) []netip.Prefix {
	routes := u.WithdrawnRoutes
	for _, a := range u.PathAttributes {
		if mp, ok := a.(*bgp.PathAttributeMpUnreachNLRI); ok {
			routes = append(routes, mp.Value...)
		}
	}
	return Prefixes(routes)
}

// NLRIs are unicast routes as GoBGP has them.
func NLRIs(t testing.TB, prefixes []netip.Prefix) []bgp.PathNLRI {
	t.Helper()
	list := make([]bgp.PathNLRI, 0, len(prefixes))
	for _, p := range prefixes {
		nlri, err := bgp.NewIPAddrPrefix(p)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, bgp.PathNLRI{NLRI: nlri})
	}
	return list
}

// Announce6 is an UPDATE for IPv6 prefixes, with further attributes if given.
func Announce6(t testing.TB, path []uint32, prefixes []netip.Prefix, more ...bgp.PathAttributeInterface) *bgp.BGPMessage {
	t.Helper()
	reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, NLRIs(t, prefixes), netip.MustParseAddr("2001:db8:ffff::1"))
	if err != nil {
		t.Fatal(err)
	}
	var segments []bgp.AsPathParamInterface
	if len(path) > 0 {
		segments = append(segments, bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, path))
	}
	attrs := append([]bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(0), bgp.NewPathAttributeAsPath(segments)}, more...)
	return bgp.NewBGPUpdateMessage(nil, append(attrs, reach), nil)
}

// Withdraw6 is an UPDATE that withdraws IPv6 prefixes.
func Withdraw6(t testing.TB, prefixes ...netip.Prefix) *bgp.BGPMessage {
	t.Helper()
	unreach, err := bgp.NewPathAttributeMpUnreachNLRI(bgp.RF_IPv6_UC, NLRIs(t, prefixes))
	if err != nil {
		t.Fatal(err)
	}
	return bgp.NewBGPUpdateMessage(nil, []bgp.PathAttributeInterface{unreach}, nil)
}

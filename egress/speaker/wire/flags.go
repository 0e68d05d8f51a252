package wire

import "github.com/osrg/gobgp/v4/pkg/packet/bgp"

// Flags of attributes.
const (
	wellKnownFlags  = bgp.BGP_ATTR_FLAG_TRANSITIVE
	localFlags      = bgp.BGP_ATTR_FLAG_OPTIONAL // optional, not transitive
	transitiveFlags = bgp.BGP_ATTR_FLAG_OPTIONAL | bgp.BGP_ATTR_FLAG_TRANSITIVE
	// checkedFlags are those that are malformed when they are not as specified (RFC 7606
	// §3 c). Partial and the lower bits are none of them.
	checkedFlags = transitiveFlags
)

// Attributes that GoBGP has no name for.
const (
	trafficEngineering    bgp.BGPAttrType = 24
	peDistinguisherLabels bgp.BGPAttrType = 27
	bgpsecPath            bgp.BGPAttrType = 33
	onlyToCustomer        bgp.BGPAttrType = 35
	serviceFunctionPath   bgp.BGPAttrType = 37
	bfdDiscriminator      bgp.BGPAttrType = 38
	attrSet               bgp.BGPAttrType = 128
)

// attributeFlags are the flags of attributes that RFCs specify, also of those that we do
// not read. A neighbour that gets their flags wrong may have got more wrong. Others are
// unrecognized: those that are optional are passed by, the rest ends the session.
var attributeFlags = map[bgp.BGPAttrType]bgp.BGPAttrFlag{
	bgp.BGP_ATTR_TYPE_ORIGIN:                   wellKnownFlags,  // RFC 4271 §5.1.1
	bgp.BGP_ATTR_TYPE_AS_PATH:                  wellKnownFlags,  // RFC 4271 §5.1.2
	bgp.BGP_ATTR_TYPE_NEXT_HOP:                 wellKnownFlags,  // RFC 4271 §5.1.3
	bgp.BGP_ATTR_TYPE_MULTI_EXIT_DISC:          localFlags,      // RFC 4271 §5.1.4
	bgp.BGP_ATTR_TYPE_LOCAL_PREF:               wellKnownFlags,  // RFC 4271 §5.1.5
	bgp.BGP_ATTR_TYPE_ATOMIC_AGGREGATE:         wellKnownFlags,  // RFC 4271 §5.1.6
	bgp.BGP_ATTR_TYPE_AGGREGATOR:               transitiveFlags, // RFC 4271 §5.1.7
	bgp.BGP_ATTR_TYPE_COMMUNITIES:              transitiveFlags, // RFC 1997
	bgp.BGP_ATTR_TYPE_ORIGINATOR_ID:            localFlags,      // RFC 4456 §8
	bgp.BGP_ATTR_TYPE_CLUSTER_LIST:             localFlags,      // RFC 4456 §8
	bgp.BGP_ATTR_TYPE_MP_REACH_NLRI:            localFlags,      // RFC 4760 §3
	bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI:          localFlags,      // RFC 4760 §4
	bgp.BGP_ATTR_TYPE_EXTENDED_COMMUNITIES:     transitiveFlags, // RFC 4360 §2
	bgp.BGP_ATTR_TYPE_AS4_PATH:                 transitiveFlags, // RFC 6793 §3
	bgp.BGP_ATTR_TYPE_AS4_AGGREGATOR:           transitiveFlags, // RFC 6793 §3
	bgp.BGP_ATTR_TYPE_PMSI_TUNNEL:              transitiveFlags, // RFC 6514 §5
	bgp.BGP_ATTR_TYPE_TUNNEL_ENCAP:             transitiveFlags, // RFC 9012 §2
	trafficEngineering:                         localFlags,      // RFC 5543 §3
	bgp.BGP_ATTR_TYPE_IP6_EXTENDED_COMMUNITIES: transitiveFlags, // RFC 5701 §2
	bgp.BGP_ATTR_TYPE_AIGP:                     localFlags,      // RFC 7311 §3
	peDistinguisherLabels:                      transitiveFlags, // RFC 6514 §8
	bgp.BGP_ATTR_TYPE_LS:                       localFlags,      // RFC 9552 §5.3
	bgp.BGP_ATTR_TYPE_LARGE_COMMUNITY:          transitiveFlags, // RFC 8092 §3
	bgpsecPath:                                 localFlags,      // RFC 8205 §3
	onlyToCustomer:                             transitiveFlags, // RFC 9234 §5
	serviceFunctionPath:                        transitiveFlags, // RFC 9015 §3.2
	bfdDiscriminator:                           transitiveFlags, // RFC 9026 §3.1.6
	bgp.BGP_ATTR_TYPE_PREFIX_SID:               transitiveFlags, // RFC 8669 §3
	attrSet:                                    transitiveFlags, // RFC 6368 §5
}

// recognize fails for a well-known attribute that is not known (RFC 4271 §6.3).
func recognize(raw []byte) error {
	if _, known := attributeFlags[bgp.BGPAttrType(raw[1])]; known || bgp.BGPAttrFlag(raw[0])&bgp.BGP_ATTR_FLAG_OPTIONAL != 0 {
		return nil
	}
	return unrecognizedError{raw}
}

// flagsFit checks the bits Optional and Transitive (RFC 7606 §3 c). Those of attributes
// without a specification fit.
func (u *Update) flagsFit(raw []byte) bool {
	kind, flags := bgp.BGPAttrType(raw[1]), bgp.BGPAttrFlag(raw[0])
	if want, known := attributeFlags[kind]; known && flags&checkedFlags != want {
		u.fault(kind, true, "its flags are %#02x instead of %#02x", uint8(flags&checkedFlags), uint8(want))
		return false
	}
	return true
}

package main

import (
	"net/netip"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// perMessage is how many prefixes share their attributes, a little more than in real
// tables.
const perMessage = 50

// announcement is an UPDATE for prefixes whose route is of the AS path.
func announcement(nextHop netip.Addr, path []uint32, prefixes []netip.Prefix) (*bgp.BGPMessage, error) {
	nlri, err := pathNLRI(prefixes)
	if err != nil {
		return nil, err
	}
	reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, nlri, nextHop)
	if err != nil {
		return nil, err
	}
	return bgp.NewBGPUpdateMessage(nil, append(attributes(path), reach), nil), nil
}

func attributes(path []uint32) []bgp.PathAttributeInterface {
	return []bgp.PathAttributeInterface{
		bgp.NewPathAttributeOrigin(bgp.BGP_ORIGIN_ATTR_TYPE_IGP),
		bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, path)}),
	}
}

func withdrawal(prefixes []netip.Prefix) (*bgp.BGPMessage, error) {
	nlri, err := pathNLRI(prefixes)
	if err != nil {
		return nil, err
	}
	unreach, err := bgp.NewPathAttributeMpUnreachNLRI(bgp.RF_IPv6_UC, nlri)
	if err != nil {
		return nil, err
	}
	return bgp.NewBGPUpdateMessage(nil, []bgp.PathAttributeInterface{unreach}, nil), nil
}

func pathNLRI(prefixes []netip.Prefix) ([]bgp.PathNLRI, error) {
	list := make([]bgp.PathNLRI, 0, len(prefixes))
	for _, p := range prefixes {
		nlri, err := bgp.NewIPAddrPrefix(p)
		if err != nil {
			return nil, err
		}
		list = append(list, bgp.PathNLRI{NLRI: nlri})
	}
	return list, nil
}

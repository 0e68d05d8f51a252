package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/srv6"
)

// VPNRoute has the attributes of a VPN prefix. Two can be compared with ==.
type VPNRoute struct {
	// Service is the SID to send to.
	Service srv6.Service
	// Attributes are the BGP attributes, as the border's peer gave them.
	Attributes Attributes
	targets    string
}

// NewVPNRoute returns a route with the given targets.
func NewVPNRoute(service srv6.Service, attributes Attributes, targets ...srv6.RouteTarget) VPNRoute {
	b := make([]byte, 0, 8*len(targets))
	for _, t := range targets {
		b = append(b, t[:]...)
	}
	return VPNRoute{Service: service, Attributes: attributes, targets: string(b)}
}

// Targets returns the route targets in the order of the attribute.
func (r VPNRoute) Targets() []srv6.RouteTarget {
	targets := make([]srv6.RouteTarget, 0, len(r.targets)/8)
	for t := r.targets; len(t) >= 8; t = t[8:] {
		targets = append(targets, srv6.RouteTarget([]byte(t[:8])))
	}
	return targets
}

// HasTarget reports whether rt is among the route's targets.
func (r VPNRoute) HasTarget(rt srv6.RouteTarget) bool {
	want := binary.BigEndian.Uint64(rt[:])
	for t := r.targets; len(t) >= 8; t = t[8:] {
		if binary.BigEndian.Uint64([]byte(t[:8])) == want {
			return true
		}
	}
	return false
}

// GoBGP returns the attributes that all prefixes of an announcement share.
func (r VPNRoute) GoBGP() ([]bgp.PathAttributeInterface, error) {
	service, err := r.Service.Attribute()
	if err != nil {
		return nil, err
	}
	targets := r.Targets()
	if len(targets) == 0 {
		return nil, errors.New("no route target, nobody would import it")
	}
	communities := make([]bgp.ExtendedCommunityInterface, 0, len(targets))
	for _, t := range targets {
		c, err := t.GoBGP()
		if err != nil {
			return nil, fmt.Errorf("route target %s: %w", t, err)
		}
		communities = append(communities, c)
	}
	return append(r.Attributes.GoBGP(), bgp.NewPathAttributeExtendedCommunities(communities), service), nil
}

// Encode returns the attributes of a route but the next hop as they are sent within
// the AS.
func (r VPNRoute) Encode() ([]byte, error) {
	if r.Attributes.LocalPref == 0 {
		r.Attributes.LocalPref = defaultLocalPref
	}
	attributes, err := r.GoBGP()
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

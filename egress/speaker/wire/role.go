package wire

import (
	"fmt"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Role is the own AS's place in a session with another AS (RFC 9234 §3.1).
type Role uint8

// The roles. The zero value is none, for sessions without the Role capability.
const (
	NoRole Role = iota
	Provider
	RouteServer
	RouteServerClient
	Customer
	LateralPeer
)

// roleNames are the names of the configuration, in the order of the values on the wire
// (RFC 9234 §4.1), which are one less.
var roleNames = [...]string{"none", "provider", "rs", "rs-client", "customer", "peer"}

// String returns the role's name in the configuration.
func (r Role) String() string { return roleNames[r] }

// ParseRole is the role of that name, false where there is none.
func ParseRole(name string) (Role, bool) {
	i := slices.Index(roleNames[:], name)
	return Role(max(i, 0)), i > 0
}

// counterparts are the roles that the other end must have (RFC 9234 §4.2).
var counterparts = [...]Role{
	NoRole: NoRole, Provider: Customer, Customer: Provider,
	RouteServer: RouteServerClient, RouteServerClient: RouteServer, LateralPeer: LateralPeer,
}

// Leaks reports whether a route from the AS at the other end is a route leak by its OTC
// attribute (RFC 9234 §5, ingress).
func (r Role) Leaks(a Attributes, neighbour uint32) bool {
	switch r {
	case Provider, RouteServer:
		return a.HasOTC
	case LateralPeer:
		return a.HasOTC && a.OTC != neighbour
	}
	return false
}

// MarksOnlyToCustomer reports whether routes that are announced need OTC with the own AS
// (RFC 9234 §5, egress).
func (r Role) MarksOnlyToCustomer() bool {
	return r == Provider || r == RouteServer || r == LateralPeer
}

const (
	roleCapability bgp.BGPCapabilityCode = 9  // RFC 9234 §8.1
	roleMismatch   uint8                 = 11 // RFC 9234 §8.2
)

// Capability is the Role capability (RFC 9234 §4.1). The role must not be [NoRole].
func (r Role) Capability() bgp.ParameterCapabilityInterface {
	return bgp.NewCapUnknown(roleCapability, []byte{byte(r - 1)})
}

// CheckNeighbour compares the neighbour's role with ours (RFC 9234 §4.2). strict: it must
// have one. The error is a NOTIFICATION.
func (r Role) CheckNeighbour(capabilities []bgp.ParameterCapabilityInterface, strict bool) error {
	if r == NoRole {
		return nil
	}
	found := false
	for _, c := range capabilities {
		unknown, ok := c.(*bgp.CapUnknown)
		if !ok || unknown.Code() != roleCapability {
			continue
		}
		found = true
		// Several with different values are a mismatch, too.
		if len(unknown.CapValue) != 1 || Role(unknown.CapValue[0])+1 != counterparts[r] {
			return mismatch(fmt.Sprintf("its role %s is not %s, as `local_role` %s asks for", roleOnWire(unknown.CapValue), counterparts[r], r))
		}
	}
	if !found && strict {
		return mismatch(fmt.Sprintf("it has no role, and `strict_role` asks for %s", counterparts[r]))
	}
	return nil
}

func mismatch(why string) error {
	return bgp.NewMessageError(bgp.BGP_ERROR_OPEN_MESSAGE_ERROR, roleMismatch, nil, why)
}

func roleOnWire(value []byte) string {
	if len(value) == 1 && int(value[0])+1 < len(roleNames) {
		return roleNames[value[0]+1]
	}
	return fmt.Sprintf("%v", value)
}

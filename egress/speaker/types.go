package speaker

import (
	"hikyaku/egress/speaker/session"
	"hikyaku/egress/speaker/vpn"
	"hikyaku/egress/speaker/wire"
)

// The types of events and configuration, under one name for callers.
type (
	// Family is an address family that a session can carry.
	Family = wire.Family
	// Attributes are the BGP path attributes that path selection and operators need.
	Attributes = wire.Attributes
	// ASPath is an AS_PATH attribute.
	ASPath = wire.ASPath
	// LargeCommunity is a large community (RFC 8092).
	LargeCommunity = wire.LargeCommunity
	// ExtendedCommunity is an extended community (RFC 4360).
	ExtendedCommunity = wire.ExtendedCommunity
	// Role is the own AS's role in a session (RFC 9234).
	Role = wire.Role
	// VPNRoute has the attributes of a VPN prefix.
	VPNRoute = wire.VPNRoute
	// Neighbor is one BGP session.
	Neighbor = session.Neighbor
	// Match says which routes of own routers are an egress peer's.
	Match = session.Match
	// EndCause classifies the ends of sessions.
	EndCause = session.EndCause
	// Withheld counts the routes that are not announced to a reflector.
	Withheld = vpn.Withheld
)

// The families that the egress plane uses.
const (
	IPv4Unicast = wire.IPv4Unicast
	IPv6Unicast = wire.IPv6Unicast
	VPNv4       = wire.VPNv4
	VPNv6       = wire.VPNv6
)

// The causes of an end.
const (
	EndHoldTimer    = session.EndHoldTimer
	EndUpdateError  = session.EndUpdateError
	EndMessageError = session.EndMessageError
	EndNotification = session.EndNotification
	EndConnection   = session.EndConnection
	EndLocal        = session.EndLocal
)

// EndCauses are all causes of an end.
var EndCauses = session.EndCauses

// Constructors of routes.
var (
	NewASPath   = wire.NewASPath
	NewVPNRoute = wire.NewVPNRoute
	// ParseRole is the role of a name, false where there is none.
	ParseRole = wire.ParseRole
)

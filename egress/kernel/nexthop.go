package kernel

import "net/netip"

// NexthopID is the number of a nexthop object. The numbers are shared with every
// other program in the namespace (FRR counts up from 1): use [FirstNexthopID] and up.
type NexthopID uint32

// FirstNexthopID is where our numbers start, far from those that others allocate.
const FirstNexthopID NexthopID = 0x48_000000

// EncapMode is how a packet is put into an SRv6 packet (RFC 8986 §5).
type EncapMode uint8

// The modes of encapsulation.
const (
	// NoEncap sends the packet as it is.
	NoEncap EncapMode = iota
	// Encap is H.Encaps: 40 bytes of outer header and 24 of routing header.
	Encap
	// EncapReduced is H.Encaps.Red: with one SID the outer header's 40 bytes alone.
	EncapReduced
)

// LocalAction is an SRv6 endpoint behaviour (RFC 8986 §4).
type LocalAction uint8

// The behaviours, by their look-up after decapsulation. Those with IPv4 need a
// VRF device that is bound to the table ([Local.VRF]).
const (
	// NoLocal is not an endpoint.
	NoLocal LocalAction = iota
	// EndDT6 looks up the inner IPv6 packet.
	EndDT6
	// EndDT4 looks up the inner IPv4 packet.
	EndDT4
	// EndDT46 looks up either.
	EndDT46
	// EndDX4 routes the inner IPv4 packet as one that came in by the outer packet's device.
	// It needs no VRF, and Table is 0. It is Linux's End.DX4 with the next hop 0.0.0.0. With a
	// neighbour as next hop, the kernel looks for the destination itself on the link.
	EndDX4
)

// Local is the action of a nexthop on packets to our own SID.
type Local struct {
	Action LocalAction
	// Table is searched for the inner packet.
	Table uint32
	// VRF searches by the VRF device of the table, not by the table alone.
	VRF bool
}

// Nexthop is a nexthop object, shared by any number of routes.
type Nexthop struct {
	ID NexthopID
	// Family is that of the routes which use it. An object never changes it: [Diff]
	// removes it with its routes and makes it again.
	Family Family
	// Blackhole drops; all fields below are then unset.
	Blackhole bool
	// Device is where the packet leaves. With Encap or Local it only has to be up
	// and not the loopback.
	Device string
	// Gateway is the neighbour, of either family; the zero address means on link.
	Gateway netip.Addr
	// Encap puts packets into SRv6, towards SID.
	Encap EncapMode
	SID   netip.Addr
	// Local makes us the endpoint of the SID whose route uses this object.
	Local Local
}

package speaker

import (
	"encoding/binary"
	"net/netip"

	"hikyaku/egress/srv6"
)

// Event is one of the types below. Events of one neighbour come in the order in
// which they happened, except that [PeerDown] overtakes what is still waiting
// from the session that ended; that is then dropped.
type Event interface{ event() }

// PeerUp says that a session is established. Nothing is known of the peer's
// routes yet; what an earlier session announced is void.
type PeerUp struct {
	Peer     string
	Address  netip.Addr
	AS       uint32
	RouterID netip.Addr
	// LocalAddress is our end of the session.
	LocalAddress netip.Addr
	// Families are those that both sides offered.
	Families []Family
}

// PeerDown says that a session ended. All its unicast routes are thereby
// withdrawn, without a [Withdrawn] for each. VPN routes are withdrawn by
// [VPNWithdrawn], see [Config.StaleTime].
type PeerDown struct {
	Peer  string
	Cause EndCause
	// Reason says more, for people.
	Reason string
}

// PeerDownCalled says that [Config.OnPeerDown] was called for a session's end and has
// returned. It comes after the session's PeerDown, if there is one.
type PeerDownCalled struct {
	Peer string
}

// Learned says that an egress peer announced prefixes, or announced them again
// with other attributes. The prefixes are of one family.
type Learned struct {
	Peer       string
	Prefixes   []netip.Prefix
	Attributes *Attributes
}

// Withdrawn says that an egress peer no longer announces prefixes. A route
// announced again with our own AS in its path counts as withdrawn: packets sent
// there would come back (RFC 4271 §9.1.2).
type Withdrawn struct {
	Peer     string
	Prefixes []netip.Prefix
}

// Faulty says that path attributes of an UPDATE were malformed (RFC 7606). It comes
// before what becomes of the UPDATE's routes, and for sessions of our own alone. Of an
// UPDATE that ends its session there is none: see [EndUpdateError].
type Faulty struct {
	Peer string
	// Withdrawn and Discarded count the attributes for which routes are taken as
	// withdrawn, and those that were left out.
	Withdrawn, Discarded uint64
}

// EndOfRIB says that the neighbour has sent all its routes of a family once
// (RFC 4724 §2).
type EndOfRIB struct {
	Peer   string
	Family Family
	// Implied is set when none came within [Config.EndOfRIBTime].
	Implied bool
}

// VPNLearned says that VPN routes are new or changed. It is the merged view of
// all reflectors, and comes once however many of them say the same.
type VPNLearned struct {
	RD       srv6.RouteDistinguisher
	Prefixes []netip.Prefix
	Route    *VPNRoute
}

// VPNWithdrawn says that no reflector has the VPN routes any more. There is no
// route target, since withdrawals carry none (RFC 4760 §4): go by the RD.
type VPNWithdrawn struct {
	RD       srv6.RouteDistinguisher
	Prefixes []netip.Prefix
}

// BestPath says which path BGP prefers for a unicast prefix, when
// [Config.BestPaths] is set. Peer is empty when none is left, or the path is
// our own.
type BestPath struct {
	Prefix netip.Prefix
	// Peer is the neighbour that the path was learned from.
	Peer string
	// Attributes is nil when no path is left.
	Attributes *Attributes
}

// NoSession says why an attempt to open a session has failed. It comes when that is not
// what the attempt before has failed for, and only for sessions that are ours.
type NoSession struct {
	Peer   string
	Reason string
}

func (PeerUp) event()         {}
func (NoSession) event()      {}
func (PeerDown) event()       {}
func (PeerDownCalled) event() {}
func (Learned) event()        {}
func (Withdrawn) event()      {}
func (Faulty) event()         {}
func (EndOfRIB) event()       {}
func (VPNLearned) event()     {}
func (VPNWithdrawn) event()   {}
func (BestPath) event()       {}

// VPNRoute is what is announced about a VPN prefix. Two can be compared with ==.
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

// HasTarget tells whether rt is among the route's targets.
func (r VPNRoute) HasTarget(rt srv6.RouteTarget) bool {
	want := binary.BigEndian.Uint64(rt[:])
	for t := r.targets; len(t) >= 8; t = t[8:] {
		if binary.BigEndian.Uint64([]byte(t[:8])) == want {
			return true
		}
	}
	return false
}

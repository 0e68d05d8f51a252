package speaker

import (
	"net/netip"

	"hikyaku/egress/srv6"
)

// Event is one of the types below. Events of one neighbour come in the order in which they
// happened. Only [PeerDown] overtakes events of the ended session that still wait; those
// are then dropped.
type Event interface{ event() }

// PeerUp says that a session is established. None of the peer's routes are known yet; those
// of an earlier session are void.
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

// Withdrawn says that an egress peer no longer announces prefixes, or announces them in a way
// that counts as that, for Cause.
type Withdrawn struct {
	Peer     string
	Prefixes []netip.Prefix
	Cause    WithdrawalCause
}

// WithdrawalCause is why an announcement counts as a withdrawal.
type WithdrawalCause uint8

// The causes.
const (
	// ByPeer: the peer has withdrawn the routes.
	ByPeer WithdrawalCause = iota
	// Looped: our own AS is in the path, so that packets sent there would come back
	// (RFC 4271 §9.1.2).
	Looped
	// Malformed: a path attribute is malformed (RFC 7606 §2).
	Malformed
)

// Faulty says that path attributes of an UPDATE were malformed (RFC 7606). It comes
// before the events of the UPDATE's routes, and only for sessions that we open. An UPDATE
// that ends its session has none: see [EndUpdateError].
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
// all reflectors, and comes once however many of them announce the same.
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

// VPNSettled says that the VPN routes of a distinguisher are complete. A reflector that has
// sent its End-of-RIB has some, and none has come for [Config.SettleTime].
type VPNSettled struct {
	RD srv6.RouteDistinguisher
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

// ReflectedBest says which best paths a reflector of ours has for unicast prefixes. They are the
// reflector's choice, not each border's. Only neighbours with such families report them.
type ReflectedBest struct {
	Reflector string
	Prefixes  []netip.Prefix
	// NextHop is not valid where there is no path any more.
	NextHop netip.Addr
	// Originator is the router ID of the router that brought the path into the AS, where a
	// reflector says so (RFC 4456 §8).
	Originator netip.Addr
}

// NoSession says why an attempt to open a session has failed. It comes when the reason is
// another one than that of the attempt before, and only for sessions that we open.
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
func (VPNSettled) event()     {}
func (BestPath) event()       {}
func (ReflectedBest) event()  {}

package session

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"hikyaku/egress/speaker/wire"
)

// Neighbor is one BGP session.
type Neighbor struct {
	// Name identifies it to the caller and in events. It must be unique.
	Name string
	// Address is the neighbour's address; a link-local one carries its zone.
	Address netip.Addr
	// AS is the neighbour's AS number. With our own it is a reflector (iBGP), with
	// another an egress peer.
	AS uint32
	// Port is the neighbour's TCP port. Default 179.
	Port uint16
	// LocalAddress is the address to connect from; unset: the kernel's choice.
	LocalAddress netip.Addr
	// Families are those offered on the session.
	Families []wire.Family
	// Passive waits for the neighbour to connect. The session is then GoBGP's, and takes
	// ten times the memory; this package opens none.
	Passive bool
	// Monitored: a router of ours has the session, and reports its routes by BMP. There is
	// none from here.
	Monitored bool
	// AddPath: it is a router or route reflector of our own AS. It sends the routes of its
	// sessions with egress peers, several for a prefix (RFC 7911). See Match.
	AddPath bool
	// Match: there is no session with this egress peer. Its routes are those that match among
	// the ones of all neighbours with AddPath.
	Match *Match
	// Password is for TCP MD5 (RFC 2385), empty for none.
	Password string
	// HoldTime is the longest silence before the session ends (RFC 4271 §4.2).
	// Default 90 s; less finds a dead neighbour sooner.
	HoldTime time.Duration
	// ConnectRetry is the time between attempts to connect. Default 5 s.
	ConnectRetry time.Duration
	// MultihopTTL lets an egress peer be that many hops away. Default 1.
	MultihopTTL uint8
	// TTLSecurity drops packets from farther than one hop (RFC 5082).
	TTLSecurity bool
	// Role is our AS's role (RFC 9234), for egress peers. GoBGP's sessions cannot send it.
	Role wire.Role
	// StrictRole refuses a session whose neighbour sends no role.
	StrictRole bool
	// GracefulRestart asks the neighbour to keep our routes that long when the
	// session breaks (RFC 4724). Zero only exchanges End-of-RIB.
	GracefulRestart time.Duration
	// Restarting says that forwarding state of an earlier run is still in the
	// kernel. The neighbour then keeps our old routes until our End-of-RIB.
	Restarting bool
}

// DefaultPort is the TCP port of BGP.
const DefaultPort = 179

const (
	defaultHoldTime     = 90 * time.Second
	defaultConnectRetry = 5 * time.Second
	maxGracefulRestart  = 4095 * time.Second // 12 bits on the wire (RFC 4724 §3)
)

// WithDefaults returns a copy with defaults for unset fields.
func (n Neighbor) WithDefaults() Neighbor {
	if n.Port == 0 {
		n.Port = DefaultPort
	}
	if n.HoldTime == 0 {
		n.HoldTime = defaultHoldTime
	}
	if n.ConnectRetry == 0 {
		n.ConnectRetry = defaultConnectRetry
	}
	return n
}

// Elsewhere reports whether the agent has no session with the neighbour: routers of the own AS
// have, and hand on its routes.
func (n Neighbor) Elsewhere() bool { return n.Monitored || n.Match != nil }

// TakesBest reports whether a reflector's best paths of unicast families are wanted besides its
// VPN routes.
func (n Neighbor) TakesBest() bool {
	return slices.ContainsFunc(n.Families, func(f wire.Family) bool { return !f.VPN() })
}

// Validate names all faults. ownAS is our own AS number.
func (n Neighbor) Validate(ownAS uint32) error {
	var errs []error
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("neighbour %q: "+format, append([]any{n.Name}, args...)...))
	}
	if n.Name == "" {
		fault("has no name")
	}
	if !n.Address.IsValid() || n.Address.IsUnspecified() || n.Address.Is4In6() {
		fault("address %s is not one to connect to", n.Address)
	}
	if n.AS == 0 {
		fault("AS number missing")
	}
	if len(n.Families) == 0 {
		fault("has no address family")
	}
	for _, f := range n.Families {
		if f.GoBGP() == 0 {
			fault("unknown address family %s", f)
		} else if f.VPN() && (n.AS != ownAS || n.AddPath) {
			fault("%s only goes to reflectors, AS %d is an egress peer", f, n.AS)
		}
	}
	if n.AddPath && (n.AS != ownAS || n.Passive) {
		fault("ADD-PATH needs a session within the AS that is opened from here")
	}
	if n.LocalAddress.IsValid() && n.LocalAddress.Is4() != n.Address.Is4() {
		fault("local address %s is of another family than %s", n.LocalAddress, n.Address)
	}
	if n.HoldTime != 0 && (n.HoldTime < 3*time.Second || n.HoldTime%time.Second != 0) {
		fault("hold time %s: needs whole seconds, at least 3 s (RFC 4271 §4.2)", n.HoldTime)
	}
	if n.GracefulRestart < 0 || n.GracefulRestart > maxGracefulRestart || n.GracefulRestart%time.Second != 0 {
		fault("graceful restart %s: needs whole seconds, at most %s (RFC 4724 §3)", n.GracefulRestart, maxGracefulRestart)
	}
	if n.TTLSecurity && n.MultihopTTL != 0 {
		fault("TTL security and multihop exclude each other (RFC 5082 §3)")
	}
	if n.Role != wire.NoRole && n.AS == ownAS {
		fault("role %s is for other ASes alone (RFC 9234 §4)", n.Role)
	}
	return errors.Join(errs...)
}

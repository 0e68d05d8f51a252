// Package speaker is the BGP speaker of the egress plane: sessions of its own with
// route reflectors and egress peers, and GoBGP, embedded, for those that neighbours
// open and for best paths; what happens on them comes as events on one channel.
//
// It keeps apart what each egress peer announces (not only the best path),
// announces VPN routes with an SRv6 service to route reflectors, and merges what
// several reflectors say of the same VPN route. It holds no kernel state.
package speaker

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Family is an address family that a session can carry.
type Family uint8

// The families that the egress plane uses.
const (
	IPv4Unicast Family = iota + 1
	IPv6Unicast
	VPNv4
	VPNv6
)

// String returns the name that configuration files use.
func (f Family) String() string {
	switch f {
	case IPv4Unicast:
		return "ipv4"
	case IPv6Unicast:
		return "ipv6"
	case VPNv4:
		return "vpnv4"
	case VPNv6:
		return "vpnv6"
	default:
		return fmt.Sprintf("Family(%d)", uint8(f))
	}
}

// VPN tells whether routes of the family carry a route distinguisher.
func (f Family) VPN() bool { return f == VPNv4 || f == VPNv6 }

func (f Family) gobgp() bgp.Family {
	switch f {
	case IPv4Unicast:
		return bgp.RF_IPv4_UC
	case IPv6Unicast:
		return bgp.RF_IPv6_UC
	case VPNv4:
		return bgp.RF_IPv4_VPN
	case VPNv6:
		return bgp.RF_IPv6_VPN
	default:
		return 0
	}
}

func familyFromGoBGP(f bgp.Family) (Family, bool) {
	for _, known := range []Family{IPv4Unicast, IPv6Unicast, VPNv4, VPNv6} {
		if known.gobgp() == f {
			return known, true
		}
	}
	return 0, false
}

// Config is what a speaker needs to start. AS and RouterID must be set.
type Config struct {
	// AS is the operator's own AS number.
	AS uint32
	// RouterID is the BGP identifier, written as an IPv4 address, unique in the AS.
	RouterID netip.Addr
	// Listen are the addresses to accept sessions on. None means that sessions are
	// only opened from here.
	Listen []netip.Addr
	// Port is the TCP port to listen on. Default 179.
	Port uint16
	// Neighbors are those to start with; [Speaker.AddNeighbor] adds more.
	Neighbors []Neighbor
	// Originate are the AS's own prefixes. Egress peers hear these and nothing
	// else, so that the AS never becomes transit.
	Originate []netip.Prefix
	// BestPaths makes the speaker an ordinary border router, too: it selects best
	// paths, gives them to reflectors with itself as next hop, and reports them as
	// [BestPath] events. Off, unicast routes of peers are only kept per peer, which
	// needs less memory.
	BestPaths bool
	// Silent lets nobody hear of a unicast route: Originate counts for nothing, and best
	// paths are selected, but told to nobody.
	Silent bool
	// StaleTime is how long VPN routes stay when the last reflector is lost, as in
	// RFC 4724 §4.2. Zero withdraws them at once.
	StaleTime time.Duration
	// AnnounceOnly says that nobody wants the VPN routes of reflectors, as at a border,
	// which gets those of all others. [VPNLearned] and [VPNWithdrawn] never come, and
	// sessions of our own do not look at such routes, malformed or not. End-of-RIB is
	// reported as ever.
	AnnounceOnly bool
	// EndOfRIBTime is how long to wait for a neighbour's End-of-RIB before an
	// implied one is reported, since not every daemon sends it. Default 30 s.
	EndOfRIBTime time.Duration
	// OnPeerDown, when set, is called the moment a session ends, before its
	// withdrawals are worked out and whatever the reader of Events is doing. It
	// runs in its own goroutine, one call at a time; do a single kernel operation
	// in it, and withdraw a few routes. The [PeerDown] event comes as well, and
	// [PeerDownCalled] behind both.
	OnPeerDown func(PeerDown)
	// Logger receives what the speaker and GoBGP say. Default: slog.Default().
	Logger *slog.Logger
}

// Neighbor is one BGP session.
type Neighbor struct {
	// Name is how events and the caller call it. It must be unique.
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
	Families []Family
	// Passive waits for the neighbour to connect. The session is then GoBGP's, and
	// takes ten times the memory.
	Passive bool
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
	// GracefulRestart asks the neighbour to keep our routes that long when the
	// session breaks (RFC 4724). Zero only exchanges End-of-RIB.
	GracefulRestart time.Duration
	// Restarting says that forwarding state of an earlier run is still in the
	// kernel. The neighbour then keeps our old routes until our End-of-RIB.
	Restarting bool
}

const (
	defaultPort         = 179
	defaultHoldTime     = 90 * time.Second
	defaultConnectRetry = 5 * time.Second
	defaultEndOfRIBTime = 30 * time.Second
	maxGracefulRestart  = 4095 * time.Second // 12 bits on the wire (RFC 4724 §3)
)

func (c Config) withDefaults() Config {
	if c.Port == 0 {
		c.Port = defaultPort
	}
	if c.EndOfRIBTime == 0 {
		c.EndOfRIBTime = defaultEndOfRIBTime
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Silent {
		c.Originate = nil
	}
	c.Neighbors = slices.Clone(c.Neighbors)
	for i := range c.Neighbors {
		c.Neighbors[i] = c.Neighbors[i].withDefaults()
	}
	return c
}

func (n Neighbor) withDefaults() Neighbor {
	if n.Port == 0 {
		n.Port = defaultPort
	}
	if n.HoldTime == 0 {
		n.HoldTime = defaultHoldTime
	}
	if n.ConnectRetry == 0 {
		n.ConnectRetry = defaultConnectRetry
	}
	return n
}

func (c Config) validate() error {
	var errs []error
	if c.AS == 0 {
		errs = append(errs, errors.New("own AS number missing"))
	}
	if !c.RouterID.Is4() || c.RouterID.IsUnspecified() {
		errs = append(errs, fmt.Errorf("router ID %s: must be written as an IPv4 address other than 0.0.0.0", c.RouterID))
	}
	for _, p := range c.Originate {
		if p != p.Masked() || !p.IsValid() {
			errs = append(errs, fmt.Errorf("own prefix %s: not a prefix without bits after its length", p))
		}
	}
	names, addresses := map[string]bool{}, map[netip.Addr]bool{}
	for _, n := range c.Neighbors {
		if names[n.Name] || addresses[n.Address] {
			errs = append(errs, fmt.Errorf("neighbour %q (%s): name or address used twice", n.Name, n.Address))
		}
		names[n.Name], addresses[n.Address] = true, true
		errs = append(errs, n.validate(c.AS))
	}
	return errors.Join(errs...)
}

func (n Neighbor) validate(ownAS uint32) error {
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
		if f.gobgp() == 0 {
			fault("unknown address family %s", f)
		} else if f.VPN() && n.AS != ownAS {
			fault("%s only goes to reflectors, AS %d is an egress peer", f, n.AS)
		}
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
	return errors.Join(errs...)
}

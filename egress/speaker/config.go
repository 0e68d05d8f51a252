// Package speaker is the BGP speaker of the egress plane. It joins sessions with route
// reflectors and egress peers that are opened from here (package session), VPN routes
// (package vpn), and embedded GoBGP. GoBGP has the sessions that neighbours open and best
// paths. Changes come as events on one channel.
//
// Events have all routes of each egress peer, not only the best. VPN routes with an SRv6
// service are announced to route reflectors, and those of several reflectors are merged.
// The speaker holds no kernel state.
package speaker

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"hikyaku/egress/speaker/bmp"
	"hikyaku/egress/speaker/session"
)

// Config has the settings that a speaker needs to start. AS and RouterID must be set.
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
	// Originate are the AS's own prefixes. Nothing else is announced to egress peers, so
	// that the AS never becomes transit.
	Originate []netip.Prefix
	// BestPaths makes the speaker an ordinary border router, too. It selects best paths,
	// gives them to reflectors with itself as next hop, and reports them as [BestPath]
	// events. Off, unicast routes of peers are only kept per peer, which needs less memory.
	BestPaths bool
	// Silent announces no unicast route: Originate is ignored, and best paths are selected,
	// but not announced.
	Silent bool
	// StaleTime is how long VPN routes stay when the last reflector is lost, as in
	// RFC 4724 §4.2. Zero withdraws them at once.
	StaleTime time.Duration
	// SettleTime is how long nothing must come for a route distinguisher, after a
	// reflector's End-of-RIB, until its routes count as complete. It may last twice as
	// long. Default 1 s.
	SettleTime time.Duration
	// Monitor is where routers report the routes of [Neighbor.Monitored] by BMP. Its logger is
	// the speaker's.
	Monitor bmp.Config
	// AnnounceOnly ignores the VPN routes of reflectors, as a border does, which would get
	// those of all others. [VPNLearned] and [VPNWithdrawn] never come, and
	// sessions that we open do not parse such routes, malformed or not. End-of-RIB is
	// reported as ever.
	AnnounceOnly bool
	// EndOfRIBTime is how long to wait for a neighbour's End-of-RIB before an
	// implied one is reported, since not every daemon sends it. Default 30 s.
	EndOfRIBTime time.Duration
	// OnPeerDown, when set, is called the moment a session ends, before its
	// withdrawals are determined and whatever the reader of Events is doing. It
	// runs in its own goroutine, one call at a time; do a single kernel operation
	// in it, and withdraw a few routes. The [PeerDown] event comes as well, and
	// [PeerDownCalled] behind both.
	OnPeerDown func(PeerDown)
	// Logger receives the log of the speaker and of GoBGP. Default: slog.Default().
	Logger *slog.Logger
}

const (
	defaultEndOfRIBTime = 30 * time.Second
	defaultSettleTime   = time.Second
)

func (c Config) withDefaults() Config {
	if c.Port == 0 {
		c.Port = session.DefaultPort
	}
	if c.EndOfRIBTime == 0 {
		c.EndOfRIBTime = defaultEndOfRIBTime
	}
	if c.SettleTime == 0 {
		c.SettleTime = defaultSettleTime
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Silent {
		c.Originate = nil
	}
	c.Neighbors = slices.Clone(c.Neighbors)
	for i := range c.Neighbors {
		c.Neighbors[i] = c.Neighbors[i].WithDefaults()
	}
	return c
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
		errs = append(errs, n.Validate(c.AS))
		if n.Monitored && len(c.Monitor.Listen) == 0 {
			errs = append(errs, fmt.Errorf("neighbour %q: is monitored, but there is no address to wait for BMP routers on", n.Name))
		}
	}
	return errors.Join(errs...)
}

// ownSession reports whether a neighbour's session is of package session, and not GoBGP's.
// GoBGP has those that neighbours open and all that take part in best paths.
func (c Config) ownSession(n Neighbor) bool {
	switch {
	case n.Elsewhere():
		return false
	case n.AddPath:
		return true
	case n.AS != c.AS:
		return !n.Passive && !c.BestPaths
	}
	return !n.Passive && !(c.BestPaths && n.TakesBest())
}

// loggerOf is for lines about a neighbour.
func (c Config) loggerOf(n Neighbor) *slog.Logger {
	component := "peer"
	if n.AS == c.AS {
		component = "reflector"
	}
	return c.Logger.With(slog.String("component", component), slog.String("neighbour", n.Name))
}

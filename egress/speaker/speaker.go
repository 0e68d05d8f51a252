package speaker

import (
	"context"
	"net/netip"

	"hikyaku/egress/srv6"
)

// Speaker is a running BGP speaker. Its methods may be called from any goroutine.
type Speaker struct{}

// VPNAnnouncement is a batch of prefixes with the same attributes, as one
// [Learned] event gives them.
type VPNAnnouncement struct {
	// RD is the egress peer's.
	RD srv6.RouteDistinguisher
	// Route says where the packets go. Its next hop is the border's own address;
	// unset it becomes our end of each session.
	Route VPNRoute
	// Prefixes may be of both families.
	Prefixes []netip.Prefix
}

// Start starts a speaker. It ends when ctx does, as by [Speaker.Close].
func Start(ctx context.Context, config Config) (*Speaker, error) { panic("to come") }

// Events returns the channel of events. It must be read; it is closed when the
// speaker has stopped.
func (s *Speaker) Events() <-chan Event { panic("to come") }

// AddNeighbor starts a further session.
func (s *Speaker) AddNeighbor(n Neighbor) error { panic("to come") }

// RemoveNeighbor ends a session for good.
func (s *Speaker) RemoveNeighbor(name string) error { panic("to come") }

// AnnounceVPN announces VPN routes to all reflectors, or changes them. It
// returns when they are on their way, and needs no confirmation.
func (s *Speaker) AnnounceVPN(a VPNAnnouncement) error { panic("to come") }

// WithdrawVPN withdraws VPN routes. Unknown ones are ignored.
func (s *Speaker) WithdrawVPN(rd srv6.RouteDistinguisher, prefixes []netip.Prefix) error {
	panic("to come")
}

// Close ends all sessions; neighbours drop our routes at once.
func (s *Speaker) Close() error { panic("to come") }

// CloseForRestart ends all sessions as a crash would, so that neighbours with
// graceful restart keep our routes for [Neighbor.GracefulRestart].
func (s *Speaker) CloseForRestart() error { panic("to come") }

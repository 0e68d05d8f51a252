package speaker

import (
	"fmt"
	"net/netip"
	"unique"

	"hikyaku/egress/speaker/vpn"
	"hikyaku/egress/srv6"
)

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

// AnnounceVPN announces VPN routes to all reflectors, or changes them. It
// returns when they are on their way.
//
// It fails for a service that cannot be announced, before any route has gone. A route
// whose path attributes leave no room for it in a message is no failure: see [Withheld].
func (s *Speaker) AnnounceVPN(a VPNAnnouncement) error {
	if err := s.announce(a); err != nil {
		return fmt.Errorf("announcing %d VPN routes of %s: %w", len(a.Prefixes), a.RD, err)
	}
	return nil
}

func (s *Speaker) announce(a VPNAnnouncement) error {
	// A route that cannot be encoded is refused now: later nobody could be notified.
	if _, err := a.Route.Encode(); err != nil {
		return err
	}
	s.announcing.Lock()
	defer s.announcing.Unlock()
	s.announcer.Announce(a.RD, a.Route, a.Prefixes)
	if s.mirror.active {
		return s.announceByGoBGP(vpn.Groups(a.RD, unique.Make(a.Route), a.Prefixes))
	}
	return nil
}

// WithdrawVPN withdraws VPN routes, ahead of announcements that wait for a slow
// reflector. Unknown ones are ignored.
func (s *Speaker) WithdrawVPN(rd srv6.RouteDistinguisher, prefixes []netip.Prefix) error {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	known := s.announcer.Withdraw(rd, prefixes)
	if s.mirror.active {
		return s.withdrawByGoBGP(rd, s.mirror.withheld.Remove(rd, known))
	}
	return nil
}

// AnnouncedAll says that after a restart all routes have been announced again:
// reflectors drop our former routes that they kept (RFC 4724 §4.1).
// Without it they do so after half of [Neighbor.GracefulRestart]. GoBGP's own
// sessions go by that time alone.
func (s *Speaker) AnnouncedAll() { s.announcer.AnnouncedAll() }

// Withheld counts the routes that are not announced to the neighbour of this name, since
// their attributes leave no room for them in a message.
func (s *Speaker) Withheld(name string) Withheld {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	if opened := s.opened[name]; opened != nil && opened.reflector != nil {
		return opened.reflector.Withheld()
	}
	if _, mirrored := s.mirror.reflectors[name]; mirrored {
		return s.mirror.withheld.Count()
	}
	return Withheld{}
}

// Withholds reports whether a route is withheld from the neighbour of this name, see [Withheld].
func (s *Speaker) Withholds(name string, rd srv6.RouteDistinguisher, prefix netip.Prefix) bool {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	if opened := s.opened[name]; opened != nil && opened.reflector != nil {
		return opened.reflector.Withholds(rd, prefix)
	}
	_, mirrored := s.mirror.reflectors[name]
	return mirrored && s.mirror.withheld.Has(rd, prefix)
}

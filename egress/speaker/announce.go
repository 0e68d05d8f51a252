package speaker

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"unique"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/srv6"
)

const (
	// chunk is how many paths go to GoBGP at once: while it takes them in it does
	// nothing else, so a change elsewhere waits some milliseconds at most.
	chunk = 256
	// identifiersKept is how many paths may be announced before GoBGP's
	// identifiers of them are thrown away.
	identifiersKept = 8192
	// implicitNull is the label of a VPN route whose SID is not transposed; RFC
	// 9252 §4 leaves "Implicit NULL" as its value.
	implicitNull = 3
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
	route := unique.Make(a.Route)
	// What cannot be sent is refused now: nobody is there to hear of it later.
	if _, err := a.Route.wire(); err != nil {
		return err
	}
	s.announcing.Lock()
	defer s.announcing.Unlock()
	s.out.set(a.RD, route, a.Prefixes)
	for v := range s.reflectors {
		v.outbox.announce(a.RD, a.Prefixes)
		v.posted()
	}
	if s.mirrored {
		return s.announceByGoBGP(a)
	}
	return nil
}

// WithdrawVPN withdraws VPN routes, ahead of announcements that wait for a slow
// reflector. Unknown ones are ignored.
func (s *Speaker) WithdrawVPN(rd srv6.RouteDistinguisher, prefixes []netip.Prefix) error {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	known := s.out.remove(rd, prefixes)
	for v := range s.reflectors {
		v.outbox.withdraw(rd, known)
		v.posted()
	}
	if s.mirrored {
		return s.withdrawByGoBGP(rd, s.mirrorWithheld.remove(rd, known))
	}
	return nil
}

// announceByGoBGP announces to reflectors whose sessions are GoBGP's. It would leave out
// what does not fit, and not withdraw what was announced of that before.
func (s *Speaker) announceByGoBGP(a VPNAnnouncement) error {
	var byFamily grouping
	route := unique.Make(a.Route)
	for _, p := range a.Prefixes {
		byFamily.add(a.RD, compact(p), route)
	}
	a.Prefixes = nil
	for _, g := range byFamily.list {
		u, err := g.announcement(netip.IPv6Unspecified(), maxMessage)
		if err != nil {
			return err
		}
		fitting, tooLong := u.split(g.prefixes)
		s.mirrorWithheld.remove(a.RD, fitting)
		if fresh := s.mirrorWithheld.add(a.RD, tooLong); len(fresh) > 0 {
			for _, reflector := range s.mirrors {
				s.logWithheld(reflector, &s.mirrorWithheld, a.RD, fresh[0], u)
			}
			if err := s.withdrawByGoBGP(a.RD, fresh); err != nil {
				return err
			}
		}
		a.Prefixes = append(a.Prefixes, fitting...)
	}
	return s.addVPN(a)
}

// addVPN gives VPN routes to GoBGP.
func (s *Speaker) addVPN(a VPNAnnouncement) error {
	shared, err := a.Route.gobgp()
	if err != nil {
		return err
	}
	nextHop := a.Route.Attributes.NextHop
	if !nextHop.IsValid() {
		nextHop = netip.IPv6Unspecified()
	}
	rd := a.RD.GoBGP()
	for prefixes := range slices.Chunk(a.Prefixes, chunk) {
		paths := make([]*apiutil.Path, 0, len(prefixes))
		for _, prefix := range prefixes {
			path, err := vpnPath(rd, prefix)
			if err != nil {
				return fmt.Errorf("route %s: %w", prefix, err)
			}
			reach, err := bgp.NewPathAttributeMpReachNLRI(path.Family, []bgp.PathNLRI{{NLRI: path.Nlri}}, nextHop)
			if err != nil {
				return fmt.Errorf("route %s via %s: %w", prefix, nextHop, err)
			}
			path.Attrs = append(shared[:len(shared):len(shared)], reach)
			paths = append(paths, path)
		}
		if err := s.addPaths(paths); err != nil {
			return err
		}
	}
	return nil
}

func (s *Speaker) withdrawByGoBGP(rd srv6.RouteDistinguisher, prefixes []netip.Prefix) error {
	distinguisher := rd.GoBGP()
	for prefixes := range slices.Chunk(prefixes, chunk) {
		paths := make([]*apiutil.Path, 0, len(prefixes))
		for _, prefix := range prefixes {
			path, err := vpnPath(distinguisher, prefix)
			if err != nil {
				return fmt.Errorf("withdrawing VPN route %s of %s: %w", prefix, rd, err)
			}
			path.Withdrawal = true
			paths = append(paths, path)
		}
		if err := s.gobgp.DeletePath(apiutil.DeletePathRequest{Paths: paths}); err != nil {
			return fmt.Errorf("withdrawing VPN routes of %s: %w", rd, err)
		}
	}
	return nil
}

// originate announces one of the AS's own prefixes.
func (s *Speaker) originate(prefix netip.Prefix) error {
	nlri, err := bgp.NewIPAddrPrefix(prefix)
	if err != nil {
		return fmt.Errorf("announcing own prefix %s: %w", prefix, err)
	}
	family, nextHop := bgp.RF_IPv6_UC, netip.IPv6Unspecified()
	if prefix.Addr().Is4() {
		family, nextHop = bgp.RF_IPv4_UC, netip.IPv4Unspecified()
	}
	attrs := Attributes{}.gobgp()
	reach, err := bgp.NewPathAttributeMpReachNLRI(family, []bgp.PathNLRI{{NLRI: nlri}}, nextHop)
	if err != nil {
		return fmt.Errorf("announcing own prefix %s: %w", prefix, err)
	}
	return s.addPaths([]*apiutil.Path{{Family: family, Nlri: nlri, Attrs: append(attrs, reach)}})
}

func (s *Speaker) addPaths(paths []*apiutil.Path) error {
	if _, err := s.gobgp.AddPath(apiutil.AddPathRequest{Paths: paths}); err != nil {
		return err
	}
	if s.announced.Add(int64(len(paths))) < identifiersKept {
		return nil
	}
	s.announced.Store(0)
	// GoBGP keeps an identifier for each path added, 80 bytes each that nobody
	// asks for. It empties the list when all paths of a family are deleted, also
	// of a family that has none.
	unused := bgp.RF_OPAQUE
	if err := s.gobgp.DeletePath(apiutil.DeletePathRequest{DeleteAll: true, DeleteFamily: &unused}); err != nil {
		return errors.Join(errors.New("emptying the list of path identifiers"), err)
	}
	return nil
}

// gobgp returns the attributes that all prefixes of an announcement share.
func (r VPNRoute) gobgp() ([]bgp.PathAttributeInterface, error) {
	service, err := r.Service.Attribute()
	if err != nil {
		return nil, err
	}
	targets := r.Targets()
	if len(targets) == 0 {
		return nil, errors.New("no route target, nobody would import it")
	}
	communities := make([]bgp.ExtendedCommunityInterface, 0, len(targets))
	for _, t := range targets {
		c, err := t.GoBGP()
		if err != nil {
			return nil, fmt.Errorf("route target %s: %w", t, err)
		}
		communities = append(communities, c)
	}
	return append(r.Attributes.gobgp(), bgp.NewPathAttributeExtendedCommunities(communities), service), nil
}

func vpnPath(rd bgp.RouteDistinguisherInterface, prefix netip.Prefix) (*apiutil.Path, error) {
	family := bgp.RF_IPv6_VPN
	if prefix.Addr().Is4() {
		family = bgp.RF_IPv4_VPN
	}
	nlri, err := bgp.NewLabeledVPNIPAddrPrefix(prefix.Masked(), *bgp.NewMPLSLabelStack(implicitNull), rd)
	if err != nil {
		return nil, err
	}
	return &apiutil.Path{Family: family, Nlri: nlri}, nil
}

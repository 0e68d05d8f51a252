package speaker

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/vpn"
	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

const (
	// chunk is how many paths go to GoBGP at once. While GoBGP takes them in it does
	// nothing else, so a change elsewhere waits some milliseconds at most.
	chunk = 256
	// maxIdentifiers is how many paths may be announced before GoBGP's
	// identifiers of them are thrown away.
	maxIdentifiers = 8192
)

// mirror has the reflectors whose sessions are GoBGP's. While active, GoBGP gets all VPN
// routes to announce.
type mirror struct {
	active     bool
	reflectors map[string]netip.Addr
	withheld   vpn.WithheldSet // from each of them
}

// mirrorTo makes GoBGP announce VPN routes, too, for a neighbour whose session is its own.
func (s *Speaker) mirrorTo(n Neighbor) error {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	s.mirror.reflectors[n.Name] = n.Address
	if s.mirror.active {
		return nil
	}
	if err := s.announceByGoBGP(s.announcer.Groups()); err != nil {
		return err
	}
	s.mirror.active = true
	return nil
}

// announceByGoBGP announces to reflectors whose sessions are GoBGP's. GoBGP would leave out
// routes that do not fit, without withdrawing the former announcements of them.
func (s *Speaker) announceByGoBGP(groups []vpn.Group) error {
	for _, g := range groups {
		_, fitting, fresh, example, err := s.mirror.withheld.Fit(g, netip.IPv6Unspecified(), wire.MaxMessage)
		if err != nil {
			return err
		}
		if len(fresh) > 0 {
			for _, reflector := range s.mirror.reflectors {
				s.dispatcher.logWithheld(reflector, s.mirror.withheld.Count, example)
			}
			if err := s.withdrawByGoBGP(g.RD, fresh); err != nil {
				return err
			}
		}
		g.Prefixes = fitting
		if err := s.addVPN(g); err != nil {
			return err
		}
	}
	return nil
}

// addVPN gives VPN routes to GoBGP.
func (s *Speaker) addVPN(g vpn.Group) error {
	route := g.Route.Value()
	shared, err := route.GoBGP()
	if err != nil {
		return err
	}
	nextHop := route.Attributes.NextHop
	if !nextHop.IsValid() {
		nextHop = netip.IPv6Unspecified()
	}
	rd := g.RD.GoBGP()
	for prefixes := range slices.Chunk(g.Prefixes, chunk) {
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
	attrs := Attributes{}.GoBGP()
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
	if s.announced.Add(int64(len(paths))) < maxIdentifiers {
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

func vpnPath(rd bgp.RouteDistinguisherInterface, prefix netip.Prefix) (*apiutil.Path, error) {
	family := bgp.RF_IPv6_VPN
	if prefix.Addr().Is4() {
		family = bgp.RF_IPv4_VPN
	}
	nlri, err := bgp.NewLabeledVPNIPAddrPrefix(prefix.Masked(), *bgp.NewMPLSLabelStack(wire.ImplicitNull), rd)
	if err != nil {
		return nil, err
	}
	return &apiutil.Path{Family: family, Nlri: nlri}, nil
}

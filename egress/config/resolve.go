package config

import (
	"math"
	"net/netip"

	"hikyaku/egress/srv6"
)

// resolve fills in the values that the file leaves to be derived. It runs before the
// checks, which then see the values in use; a value that can't be derived stays zero.
func (b *Border) resolve() {
	b.Common.resolve()
	for i := range b.AddPath {
		b.AddPath[i].Session.resolve(b.BGP)
	}
	for i := range b.Peers {
		p := &b.Peers[i]
		if p.Routes == RoutesByAddPath && len(p.AddPath.NextHops) == 0 && p.Address.IsValid() {
			p.AddPath.NextHops = []netip.Addr{p.Address.WithZone("")}
		}
		p.Session.resolve(b.BGP)
		p.Import.resolve(b.Import)
		if p.Number == 0 || p.Number > math.MaxUint16 {
			continue
		}
		if p.Table == 0 {
			p.Table = derive(b.Kernel.Tables.First, p.Number)
		}
		if !p.SID.IsValid() && b.SRv6.SIDLocator().Validate() == nil {
			// The check reports a number that does not fit.
			p.SID, _ = b.SRv6.SIDLocator().SID(p.Number)
		}
		if !p.IPv4SID.IsValid() && b.SRv6.SIDLocator().Validate() == nil {
			p.IPv4SID, _ = b.SRv6.SIDLocator().SID(p.Number | 1<<(b.SRv6.FunctionLength-1))
		}
		if !b.RouterID.Is4() {
			continue
		}
		if p.RD == (srv6.RouteDistinguisher{}) {
			p.RD = srv6.NewRouteDistinguisher(b.RouterID, uint16(p.Number))
		}
		if p.RT == (srv6.RouteTarget{}) {
			p.RT = srv6.NewRouteTarget(b.RouterID, uint16(p.Number))
		}
	}
}

func (p *PeerImport) resolve(all Import) {
	if p.IPv6MaxLength == 0 {
		p.IPv6MaxLength = all.IPv6MaxLength
	}
	if p.IPv4MaxLength == 0 {
		p.IPv4MaxLength = all.IPv4MaxLength
	}
	p.DefaultRoute = p.DefaultRoute || all.DefaultRoute
	p.RPKIInvalid = p.RPKIInvalid || all.RPKIInvalid
}

func (s *Server) resolve() {
	s.Common.resolve()
	if len(s.Flows.Interfaces) == 0 && s.SRv6.Interface != "" {
		s.Flows.Interfaces = []string{s.SRv6.Interface}
	}
	for i := range s.Paths {
		p := &s.Paths[i]
		if p.Number != 0 {
			if p.Table == 0 {
				p.Table = derive(s.Kernel.Tables.First, p.Number)
			}
			if p.Mark == 0 {
				p.Mark = derive(s.Kernel.MarkBase, p.Number)
			}
		}
		if !p.Border.Is4() || p.Peer == 0 || p.Peer > math.MaxUint16 {
			continue
		}
		if p.RD == (srv6.RouteDistinguisher{}) {
			p.RD = srv6.NewRouteDistinguisher(p.Border, uint16(p.Peer))
		}
		if p.RT == (srv6.RouteTarget{}) {
			p.RT = srv6.NewRouteTarget(p.Border, uint16(p.Peer))
		}
	}
}

func (c *Common) resolve() {
	for i := range c.Reflectors {
		c.Reflectors[i].Session.resolve(c.BGP)
	}
}

func (s *Session) resolve(bgp BGP) {
	if s.Port == 0 {
		s.Port = bgp.Port
	}
	if s.HoldTime == 0 {
		s.HoldTime = bgp.HoldTime
	}
}

// derive returns base+number, or 0 where that is no number of 32 bits.
func derive(base, number uint32) uint32 {
	if sum := uint64(base) + uint64(number); sum <= math.MaxUint32 {
		return uint32(sum)
	}
	return 0
}

package speaker

import (
	"context"
	"net/netip"

	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

// bestReflected reports the best paths of unicast families in an UPDATE of a reflector, and returns
// the UPDATE without them.
func (d *dispatcher) bestReflected(ctx context.Context, s *peerState, u *wire.Update) *wire.Update {
	vpn := *u
	var gone, best []netip.Prefix
	vpn.Unreach, gone = splitUnicast(u.Unreach)
	vpn.Reach, best = splitUnicast(u.Reach)
	_, plain := splitUnicast(u.Plain)
	vpn.Plain = nil
	emit := func(prefixes []netip.Prefix, hop netip.Addr) {
		if len(prefixes) == 0 {
			return
		}
		e := ReflectedBest{Reflector: s.neighbor.Name, Prefixes: prefixes}
		if hop.IsValid() && !u.Unusable {
			e.NextHop, e.Originator = hop, wire.Originator(u.Attributes)
		}
		d.emit(ctx, e)
	}
	emit(gone, netip.Addr{})
	emit(best, u.NextHop)
	emit(plain, u.PlainHop)
	return &vpn
}

// splitUnicast returns the VPN routes of a list and the prefixes of the others.
func splitUnicast(list []wire.NLRI) (vpn []wire.NLRI, unicast []netip.Prefix) {
	for _, n := range list {
		if n.RD == (srv6.RouteDistinguisher{}) {
			unicast = append(unicast, n.Prefix)
		} else {
			vpn = append(vpn, n)
		}
	}
	return vpn, unicast
}

package speaker

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"unique"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/vpn"
	"hikyaku/egress/speaker/wire"
)

// pathsChanged takes the paths of one UPDATE message.
func (d *dispatcher) pathsChanged(ctx context.Context, paths []*apiutil.Path) {
	s, ok := d.alive(paths[0].PeerAddress)
	if !ok {
		return
	}
	if s.reflects(d.config.AS) {
		if !d.config.AnnounceOnly {
			d.vpnChanged(ctx, s, paths)
		}
		return
	}
	s.replay.saw(paths)
	var learned []netip.Prefix
	var withdrawn [Malformed + 1][]netip.Prefix
	var attributes *Attributes
	cache := attributeCache{}
	flush := func() {
		if len(learned) > 0 {
			d.emit(ctx, Learned{Peer: s.neighbor.Name, Prefixes: learned, Attributes: attributes})
		}
		learned = nil
	}
	for _, p := range paths {
		prefix, ok := wire.UnicastPrefix(p.Nlri)
		if !ok {
			continue
		}
		if p.Withdrawal {
			withdrawn[ByPeer] = append(withdrawn[ByPeer], prefix)
			continue
		}
		a, changed := cache.read(p.Attrs)
		if changed {
			flush()
			attributes = a
		}
		if cause := d.causeOf(a, cache.usable); cause != ByPeer {
			withdrawn[cause] = append(withdrawn[cause], prefix)
			continue
		}
		learned = append(learned, prefix)
	}
	flush()
	for cause, prefixes := range withdrawn {
		d.withdraw(ctx, s, prefixes, WithdrawalCause(cause))
	}
}

// causeOf is why routes with these attributes count as withdrawn, ByPeer where they do not.
func (d *dispatcher) causeOf(a *Attributes, usable bool) WithdrawalCause {
	switch {
	case !usable:
		return Malformed
	case a.ASPath.Contains(d.config.AS):
		return Looped
	}
	return ByPeer
}

func (d *dispatcher) withdraw(ctx context.Context, s *peerState, prefixes []netip.Prefix, cause WithdrawalCause) {
	if len(prefixes) > 0 {
		d.emit(ctx, Withdrawn{Peer: s.neighbor.Name, Prefixes: prefixes, Cause: cause})
	}
}

// vpnChanged takes the VPN paths of a reflector whose session is GoBGP's.
func (d *dispatcher) vpnChanged(ctx context.Context, s *peerState, paths []*apiutil.Path) {
	var changes []vpn.Change
	cache := attributeCache{}
	var route unique.Handle[VPNRoute]
	var usable bool
	for _, p := range paths {
		key, ok := wire.VPNNLRI(p.Nlri)
		if !ok {
			continue
		}
		if !p.Withdrawal {
			if a, changed := cache.read(p.Attrs); changed {
				var unusable error
				route, usable, unusable = d.router().Route(p.Attrs, a.ForServers())
				d.logUnusable(s, p.Nlri, unusable)
			}
		}
		changes = d.vpn.Set(changes, s.neighbor.Name, key, route, usable && !p.Withdrawal)
	}
	d.emitVPN(ctx, changes)
	d.settle()
}

// router is our own router.
func (d *dispatcher) router() vpn.Router { return vpn.Router{AS: d.config.AS, ID: d.config.RouterID} }

// logUnusable logs now and then that packets cannot be sent by the VPN routes of a message.
// example is one of them.
func (d *dispatcher) logUnusable(s *peerState, example fmt.Stringer, unusable error) {
	if unusable != nil {
		d.logSeldom(&s.faults.routes, s.faults.countUnusable(example, unusable))
	}
}

// updated takes an UPDATE of a reflector from a session of package session.
func (d *dispatcher) updated(ctx context.Context, s *peerState, u *wire.Update) {
	if s.neighbor.TakesBest() {
		u = d.bestReflected(ctx, s, u)
	}
	changes, unusable := d.vpn.Receive(s.neighbor.Name, u, d.router())
	if unusable != nil {
		d.logUnusable(s, u.Reach[0].Prefix, unusable)
	}
	d.emitVPN(ctx, changes)
	if u.EndOfRIB != 0 {
		d.familyEnded(ctx, s, u.EndOfRIB, false)
	}
	d.settle()
}

// peerUpdated takes an UPDATE of an egress peer from a session of package session. Routes that
// are withdrawn and announced in one are announced (RFC 4271 §4.3).
func (d *dispatcher) peerUpdated(ctx context.Context, s *peerState, u *wire.Update) {
	a, usable := wire.AttributesOfPeer(u.Attributes)
	if s.neighbor.Monitored {
		// FRR reports paths as it would announce them, and import policies may prepend. A loop
		// has the own AS behind another one.
		a.ASPath = a.ASPath.WithoutLeading(d.config.AS)
	}
	cause := d.causeOf(&a, usable && !u.Unusable)
	var refused []netip.Prefix
	var learned []Learned
	for _, part := range []struct {
		routes  []wire.NLRI
		nextHop netip.Addr
	}{{u.Reach, u.NextHop}, {u.Plain, u.PlainHop}} {
		list := wire.OfFamilies(part.routes, s.families)
		if cause != ByPeer {
			refused = append(refused, list...)
		} else if len(list) > 0 {
			of := a
			of.NextHop = part.nextHop
			learned = append(learned, Learned{Peer: s.neighbor.Name, Prefixes: list, Attributes: &of})
		}
	}
	d.withdraw(ctx, s, wire.OfFamilies(u.Unreach, s.families), ByPeer)
	d.withdraw(ctx, s, refused, cause)
	for _, l := range learned {
		d.emit(ctx, l)
	}
	if slices.Contains(s.families, u.EndOfRIB) {
		d.familyEnded(ctx, s, u.EndOfRIB, false)
	}
}

// emitVPN sends changes as few events: consecutive ones that share distinguisher and route
// go together.
func (d *dispatcher) emitVPN(ctx context.Context, changes []vpn.Change) {
	for g := range vpn.Runs(changes) {
		if g.Route == (unique.Handle[VPNRoute]{}) {
			d.emit(ctx, VPNWithdrawn{RD: g.RD, Prefixes: g.Prefixes})
			continue
		}
		d.emit(ctx, VPNLearned{RD: g.RD, Prefixes: g.Prefixes, Route: d.sharedRoute(g.Route)})
	}
}

// sharedRoute is a route as readers of events keep it, one for all events that follow each
// other.
func (d *dispatcher) sharedRoute(of unique.Handle[VPNRoute]) *VPNRoute {
	if d.lastRoute == nil || d.lastHandle != of {
		route := of.Value()
		d.lastHandle, d.lastRoute = of, &route
	}
	return d.lastRoute
}

func (d *dispatcher) bestChanged(ctx context.Context, paths []*apiutil.Path) {
	for _, p := range paths {
		prefix, ok := wire.UnicastPrefix(p.Nlri)
		if !ok {
			continue
		}
		e := BestPath{Prefix: prefix}
		if !p.Withdrawal {
			a := wire.AttributesFromGoBGP(p.Attrs)
			e.Attributes = &a
			if s := d.sessions[p.PeerAddress]; s != nil {
				e.Peer = s.neighbor.Name
			}
		}
		d.emit(ctx, e)
	}
}

// attributeCache saves reading the same attributes for each prefix of a message.
type attributeCache struct {
	attrs []bgp.PathAttributeInterface
	last  *Attributes
	// usable: an egress peer's attributes are not malformed.
	usable bool
}

// read returns the attributes and whether they differ from the last call's.
func (c *attributeCache) read(attrs []bgp.PathAttributeInterface) (*Attributes, bool) {
	if c.last != nil && sameAttributes(c.attrs, attrs) {
		return c.last, false
	}
	a, usable := wire.AttributesOfPeer(attrs)
	c.attrs, c.last, c.usable = attrs, &a, usable
	return c.last, true
}

// sameAttributes reports whether both lists hold the very same objects. GoBGP
// shares them between the paths of a message, but for MP_REACH_NLRI.
func sameAttributes(a, b []bgp.PathAttributeInterface) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, xok := a[i].(*bgp.PathAttributeMpReachNLRI)
		y, yok := b[i].(*bgp.PathAttributeMpReachNLRI)
		if xok && yok && x.Nexthop == y.Nexthop {
			continue
		}
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

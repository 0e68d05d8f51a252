package speaker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"unique"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/srv6"
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
	var learned, withdrawn []netip.Prefix
	var attributes *Attributes
	cache := attributeCache{}
	flush := func() {
		if len(learned) > 0 {
			d.emit(ctx, Learned{Peer: s.neighbor.Name, Prefixes: learned, Attributes: attributes})
		}
		learned = nil
	}
	for _, p := range paths {
		prefix, ok := unicastPrefix(p.Nlri)
		if !ok {
			continue
		}
		if p.Withdrawal {
			withdrawn = append(withdrawn, prefix)
			continue
		}
		a, changed := cache.read(p.Attrs)
		if changed {
			flush()
			attributes = a
		}
		if a.ASPath.Contains(d.config.AS) {
			withdrawn = append(withdrawn, prefix)
			continue
		}
		learned = append(learned, prefix)
	}
	flush()
	if len(withdrawn) > 0 {
		d.emit(ctx, Withdrawn{Peer: s.neighbor.Name, Prefixes: withdrawn})
	}
}

// vpnChanged takes the VPN paths of a reflector whose session is GoBGP's.
func (d *dispatcher) vpnChanged(ctx context.Context, s *session, paths []*apiutil.Path) {
	var changes []vpnChange
	cache := attributeCache{}
	var route unique.Handle[VPNRoute]
	var usable bool
	for _, p := range paths {
		rd, prefix, ok := vpnNLRI(p.Nlri)
		if !ok {
			continue
		}
		if !p.Withdrawal {
			if a, changed := cache.read(p.Attrs); changed {
				route, usable = d.vpnRoute(s, p.Nlri, p.Attrs, *a)
			}
		}
		changes = d.vpnOne(changes, s, rdPrefix{rd, prefix}, route, usable && !p.Withdrawal)
	}
	d.emitVPN(ctx, changes)
}

// updated takes an UPDATE of a reflector whose session is ours.
func (d *dispatcher) updated(ctx context.Context, s *session, u *routeUpdate) {
	changes := make([]vpnChange, 0, len(u.unreach)+len(u.reach))
	var route unique.Handle[VPNRoute]
	for _, p := range u.unreach {
		changes = d.vpnOne(changes, s, p, route, false)
	}
	usable := false
	if len(u.reach) > 0 && !u.unusable && !d.originated(u.attributes) {
		a := attributesFromGoBGP(u.attributes)
		a.NextHop = u.nextHop
		route, usable = d.vpnRoute(s, u.reach[0].prefix, u.attributes, a)
	}
	for _, p := range u.reach {
		changes = d.vpnOne(changes, s, p, route, usable)
	}
	d.emitVPN(ctx, changes)
	if u.endOfRIB != 0 {
		d.familyEnded(ctx, s, u.endOfRIB, false)
	}
}

// peerUpdated takes an UPDATE of an egress peer whose session is ours. Routes that
// are withdrawn and announced in one are announced (RFC 4271 §4.3).
func (d *dispatcher) peerUpdated(ctx context.Context, s *session, u *routeUpdate) {
	a := attributesFromGoBGP(u.attributes)
	withdrawn := ofFamilies(u.unreach, s.families)
	var learned []Learned
	for _, part := range []struct {
		routes  []rdPrefix
		nextHop netip.Addr
	}{{u.reach, u.nextHop}, {u.plain, u.plainHop}} {
		list := ofFamilies(part.routes, s.families)
		if u.unusable || a.ASPath.Contains(d.config.AS) {
			withdrawn = append(withdrawn, list...)
		} else if len(list) > 0 {
			of := a
			of.NextHop = part.nextHop
			learned = append(learned, Learned{Peer: s.neighbor.Name, Prefixes: list, Attributes: &of})
		}
	}
	if len(withdrawn) > 0 {
		d.emit(ctx, Withdrawn{Peer: s.neighbor.Name, Prefixes: withdrawn})
	}
	for _, l := range learned {
		d.emit(ctx, l)
	}
	if slices.Contains(s.families, u.endOfRIB) {
		d.familyEnded(ctx, s, u.endOfRIB, false)
	}
}

// originated tells whether a route is our own, which a reflector has sent back
// (RFC 4456 §8).
func (d *dispatcher) originated(attributes []bgp.PathAttributeInterface) bool {
	return slices.ContainsFunc(attributes, func(a bgp.PathAttributeInterface) bool {
		id, ok := a.(*bgp.PathAttributeOriginatorId)
		return ok && id.Value == d.config.RouterID
	})
}

// vpnOne takes a route of a reflector, and appends what thereby changes. One that
// cannot be used counts as withdrawn: it must not stay as it was before.
func (d *dispatcher) vpnOne(changes []vpnChange, s *session, p rdPrefix, route unique.Handle[VPNRoute], usable bool) []vpnChange {
	if !usable {
		if change, ok := d.vpn.withdraw(s.neighbor.Name, p.rd, p.prefix); ok {
			changes = append(changes, change)
		}
		return changes
	}
	if d.vpn.learn(s.neighbor.Name, p.rd, p.prefix, route) {
		merged, _ := d.vpn.lookup(p.rd, compact(p.prefix))
		changes = append(changes, vpnChange{rd: p.rd, prefix: p.prefix, route: merged})
	}
	return changes
}

// vpnRoute reads what a VPN path says, and whether packets can be sent by it.
// example is one of its routes, for the log.
func (d *dispatcher) vpnRoute(s *session, example fmt.Stringer, attributes []bgp.PathAttributeInterface, a Attributes) (unique.Handle[VPNRoute], bool) {
	service, err := srv6.ServiceFromGoBGP(attributes)
	if err != nil {
		// Ordinary MPLS VPNs of the operator come along from the same reflector.
		if !errors.Is(err, srv6.ErrNoService) {
			d.logSeldom(&s.faults.routes, s.faults.countUnusable(example, err))
		}
		return unique.Handle[VPNRoute]{}, false
	}
	if a.ASPath.Contains(d.config.AS) {
		return unique.Handle[VPNRoute]{}, false
	}
	return unique.Make(NewVPNRoute(service, a, srv6.TargetsFromGoBGP(attributes)...)), true
}

// emitVPN sends changes as few events: neighbours in the list that share RD and
// route go together.
func (d *dispatcher) emitVPN(ctx context.Context, changes []vpnChange) {
	for len(changes) > 0 {
		first, same := changes[0], 1
		for same < len(changes) && changes[same].rd == first.rd && changes[same].route == first.route {
			same++
		}
		prefixes := make([]netip.Prefix, same)
		for i, c := range changes[:same] {
			prefixes[i] = c.prefix
		}
		changes = changes[same:]
		if first.route == (unique.Handle[VPNRoute]{}) {
			d.emit(ctx, VPNWithdrawn{RD: first.rd, Prefixes: prefixes})
			continue
		}
		d.emit(ctx, VPNLearned{RD: first.rd, Prefixes: prefixes, Route: d.sharedRoute(first.route)})
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
		prefix, ok := unicastPrefix(p.Nlri)
		if !ok {
			continue
		}
		e := BestPath{Prefix: prefix}
		if !p.Withdrawal {
			a := attributesFromGoBGP(p.Attrs)
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
}

// read returns the attributes and whether they differ from the last call's.
func (c *attributeCache) read(attrs []bgp.PathAttributeInterface) (*Attributes, bool) {
	if c.last != nil && sameAttributes(c.attrs, attrs) {
		return c.last, false
	}
	a := attributesFromGoBGP(attrs)
	c.attrs, c.last = attrs, &a
	return c.last, true
}

// sameAttributes tells whether both lists hold the very same objects. GoBGP
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

func unicastPrefix(nlri bgp.NLRI) (netip.Prefix, bool) {
	p, ok := nlri.(*bgp.IPAddrPrefix)
	if !ok {
		return netip.Prefix{}, false
	}
	return p.Prefix, p.Prefix.IsValid()
}

func vpnNLRI(nlri bgp.NLRI) (srv6.RouteDistinguisher, netip.Prefix, bool) {
	p, ok := nlri.(*bgp.LabeledVPNIPAddrPrefix)
	if !ok {
		return srv6.RouteDistinguisher{}, netip.Prefix{}, false
	}
	rd, err := srv6.DistinguisherFromGoBGP(p.RD)
	return rd, p.Prefix, err == nil && p.Prefix.IsValid()
}

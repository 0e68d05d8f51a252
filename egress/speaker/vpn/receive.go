package vpn

import (
	"errors"
	"iter"
	"net/netip"
	"slices"
	"unique"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

// Receive takes an UPDATE of a reflector. own is our own router, whose routes come back
// from reflectors. unusable is why the message's routes cannot be used, where that is to be
// logged.
func (t *Table) Receive(name string, u *wire.Update, own Router) (changes []Change, unusable error) {
	changes = make([]Change, 0, len(u.Unreach)+len(u.Reach))
	var route unique.Handle[wire.VPNRoute]
	for _, n := range u.Unreach {
		changes = t.Set(changes, name, n, route, false)
	}
	usable := false
	if len(u.Reach) > 0 && !u.Unusable && !own.originated(u.Attributes) {
		a := wire.AttributesFromGoBGP(u.Attributes)
		a.NextHop = u.NextHop
		route, usable, unusable = own.Route(u.Attributes, a)
	}
	for _, n := range u.Reach {
		changes = t.Set(changes, name, n, route, usable)
	}
	return changes, unusable
}

// Router is our own router, as other routers know it.
type Router struct {
	AS uint32
	ID netip.Addr
}

// originated reports whether a route is our own, which a reflector has sent back
// (RFC 4456 §8).
func (r Router) originated(attributes []bgp.PathAttributeInterface) bool {
	return slices.ContainsFunc(attributes, func(a bgp.PathAttributeInterface) bool {
		id, ok := a.(*bgp.PathAttributeOriginatorId)
		return ok && id.Value == r.ID
	})
}

// Route reads a VPN route, and returns whether packets can be sent by it. The error is why
// not, where that is to be logged: ordinary MPLS VPNs of the operator come from the same
// reflectors.
func (r Router) Route(attributes []bgp.PathAttributeInterface, a wire.Attributes) (route unique.Handle[wire.VPNRoute], usable bool, err error) {
	service, err := srv6.ServiceFromGoBGP(attributes)
	if err != nil {
		if errors.Is(err, srv6.ErrNoService) {
			err = nil
		}
		return route, false, err
	}
	if a.ASPath.Contains(r.AS) {
		return route, false, nil
	}
	a = a.WithLargeCommunities(wire.LargeFromGoBGP(attributes)...)
	return unique.Make(wire.NewVPNRoute(service, a, srv6.TargetsFromGoBGP(attributes)...)), true, nil
}

// Runs yields changes in order, as few groups: consecutive ones with the same distinguisher
// and route are one group. Its family is not set.
func Runs(changes []Change) iter.Seq[Group] {
	return func(yield func(Group) bool) {
		for len(changes) > 0 {
			first, same := changes[0], 1
			for same < len(changes) && changes[same].RD == first.RD && changes[same].Route == first.Route {
				same++
			}
			prefixes := make([]netip.Prefix, same)
			for i, c := range changes[:same] {
				prefixes[i] = c.Prefix
			}
			changes = changes[same:]
			if !yield(Group{RD: first.RD, Route: first.Route, Prefixes: prefixes}) {
				return
			}
		}
	}
}

package vpn

import (
	"net/netip"
	"unique"

	"hikyaku/egress/speaker/wire"

	"hikyaku/egress/srv6"
)

// outTable has the VPN routes that the speaker announces, kept for sessions to come. A route takes some 50 bytes: its attributes are held once for all prefixes.
type outTable map[srv6.RouteDistinguisher]map[routeKey]unique.Handle[wire.VPNRoute]

func (t outTable) set(rd srv6.RouteDistinguisher, route unique.Handle[wire.VPNRoute], prefixes []netip.Prefix) {
	routes := t[rd]
	if routes == nil {
		routes = make(map[routeKey]unique.Handle[wire.VPNRoute])
		t[rd] = routes
	}
	for _, p := range prefixes {
		routes[compact(p)] = route
	}
}

// remove returns those of the prefixes that were there.
func (t outTable) remove(rd srv6.RouteDistinguisher, prefixes []netip.Prefix) []netip.Prefix {
	routes := t[rd]
	var known []netip.Prefix
	for _, p := range prefixes {
		if _, ok := routes[compact(p)]; ok {
			delete(routes, compact(p))
			known = append(known, p)
		}
	}
	if len(routes) == 0 {
		delete(t, rd)
	}
	return known
}

// groups returns the routes of a distinguisher so that few messages hold them.
func (t outTable) groups(rd srv6.RouteDistinguisher) []Group {
	var g grouping
	for prefix, route := range t[rd] {
		g.add(rd, prefix, route)
	}
	return g.list
}

// Group is prefixes of one distinguisher and family with the same attributes.
type Group struct {
	RD     srv6.RouteDistinguisher
	Family wire.Family
	// Route is zero where they are withdrawn.
	Route    unique.Handle[wire.VPNRoute]
	Prefixes []netip.Prefix
}

// Groups returns routes of one distinguisher by their families.
func Groups(rd srv6.RouteDistinguisher, route unique.Handle[wire.VPNRoute], prefixes []netip.Prefix) []Group {
	var g grouping
	for _, p := range prefixes {
		g.add(rd, compact(p), route)
	}
	return g.list
}

// announcement is the template for a group. local is the next hop of a route without one,
// maxLength the greatest length of a message.
func (g Group) announcement(local netip.Addr, maxLength int) (wire.Template, error) {
	route := g.Route.Value()
	hop := route.Attributes.NextHop
	if !hop.IsValid() {
		hop = local
	}
	attributes, err := route.Encode()
	if err != nil {
		return wire.Template{}, err
	}
	return wire.Announcement(attributes, hop, g.Family, maxLength), nil
}

// grouping makes groups, in the order in which each one's first prefix comes.
type grouping struct {
	list    []Group
	numbers map[groupKey]int
}

type groupKey struct {
	rd     srv6.RouteDistinguisher
	family wire.Family
	route  unique.Handle[wire.VPNRoute]
}

func (g *grouping) add(rd srv6.RouteDistinguisher, prefix routeKey, route unique.Handle[wire.VPNRoute]) {
	k := groupKey{rd, wire.VPNFamily(prefix.is4), route}
	n, ok := g.numbers[k]
	if !ok {
		if g.numbers == nil {
			g.numbers = make(map[groupKey]int)
		}
		n = len(g.list)
		g.numbers[k] = n
		g.list = append(g.list, Group{RD: rd, Family: k.family, Route: route})
	}
	g.list[n].Prefixes = append(g.list[n].Prefixes, prefix.prefix())
}

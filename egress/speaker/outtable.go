package speaker

import (
	"net/netip"
	"unique"

	"hikyaku/egress/srv6"
)

// outTable is what the speaker announces as VPN routes, kept for sessions to come.
// A route takes some 50 bytes: its attributes are held once for all prefixes.
type outTable map[srv6.RouteDistinguisher]map[vpnPrefix]unique.Handle[VPNRoute]

func (t outTable) set(rd srv6.RouteDistinguisher, route unique.Handle[VPNRoute], prefixes []netip.Prefix) {
	routes := t[rd]
	if routes == nil {
		routes = make(map[vpnPrefix]unique.Handle[VPNRoute])
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
func (t outTable) groups(rd srv6.RouteDistinguisher) []group {
	var g grouping
	for prefix, route := range t[rd] {
		g.add(rd, prefix, route)
	}
	return g.list
}

// group is prefixes of one distinguisher and family with the same attributes.
type group struct {
	rd     srv6.RouteDistinguisher
	family Family
	// route is zero where they are withdrawn.
	route    unique.Handle[VPNRoute]
	prefixes []netip.Prefix
}

// grouping makes groups, in the order in which each one's first prefix comes.
type grouping struct {
	list    []group
	numbers map[groupKey]int
}

type groupKey struct {
	rd     srv6.RouteDistinguisher
	family Family
	route  unique.Handle[VPNRoute]
}

func (g *grouping) add(rd srv6.RouteDistinguisher, prefix vpnPrefix, route unique.Handle[VPNRoute]) {
	k := groupKey{rd, vpnFamilyOf(prefix.is4), route}
	n, ok := g.numbers[k]
	if !ok {
		if g.numbers == nil {
			g.numbers = make(map[groupKey]int)
		}
		n = len(g.list)
		g.numbers[k] = n
		g.list = append(g.list, group{rd: rd, family: k.family, route: route})
	}
	g.list[n].prefixes = append(g.list[n].prefixes, prefix.prefix())
}

func vpnFamilyOf(is4 bool) Family {
	if is4 {
		return VPNv4
	}
	return VPNv6
}

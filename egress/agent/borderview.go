package agent

import (
	"net/netip"

	"hikyaku/egress/api"
	"hikyaku/egress/border"
	"hikyaku/egress/endpoint"
)

func (b *Border) paths() []api.Path {
	var list []api.Path
	for _, name := range b.planner.Names() {
		v, _ := b.planner.View(name)
		path := api.Path{
			Name: name, Number: v.Config.Number, Border: b.config.RouterID, Peer: v.Config.Number,
			Table: v.Config.Table, SID: v.Config.SID, Routes: api.Routes{IPv6: v.IPv6, IPv4: v.IPv4},
			Port: b.ports.shownOf(b.planner.Devices(name)),
		}
		if b.lookups[name] == border.ByPair {
			path.IPv4SID = v.Config.IPv4SID
		}
		switch {
		case !v.Usable:
			path.State, path.Reason = api.Down, v.Reason
		case v.Draining:
			path.State, path.Reason = api.Draining, "an operator drains it"
		default:
			path.State, path.Reason = api.Up, "the session is up and routes are in the kernel"
		}
		list = append(list, path)
	}
	return list
}

func (b *Border) lookup(client netip.Prefix) api.Lookup {
	found := api.Lookup{Client: client}
	for _, path := range b.paths() {
		prefix, a, ok := b.planner.Lookup(path.Name, client)
		if ok {
			found.Paths = append(found.Paths, api.Reach{
				Name: path.Name, State: path.State, Prefix: prefix,
				LocalPref: a.LocalPref, MED: a.MED, ASPath: endpoint.ASes(a.ASPath),
			})
		}
	}
	return found
}

func (b *Border) rpkiCaches() []api.RPKICache { return b.caches.states() }

func (b *Border) routes(s api.Session) (all api.Routes) {
	if views, speaks := b.bgp.(routerViews); speaks && s.Kind == kindRouter {
		for _, n := range views.PathCounts(s.Name).Peers {
			all.IPv6 += n.IPv6
			all.IPv4 += n.IPv4
		}
		return all
	}
	v, _ := b.planner.View(s.Name)
	return api.Routes{IPv6: v.IPv6, IPv4: v.IPv4}
}

func (b *Border) imports(s *api.Session) {
	v, _ := b.planner.View(s.Name)
	s.Origins = api.Origins(v.Origins)
	for _, r := range v.Refused {
		s.Refused = append(s.Refused, api.Refused{Reason: r.Reason.String(), Routes: r.Routes, Total: r.Total})
	}
}

package agent

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"hikyaku/egress/api"
	"hikyaku/egress/endpoint"
	"hikyaku/egress/speaker"
)

// routeShower is a role that shows its routes. Its methods need the mutex.
type routeShower interface {
	// routesOf yields the prefixes of a path or peer in no particular order, with a function
	// that shows the route while the mutex is held.
	routesOf(path string) iter.Seq2[netip.Prefix, func() api.Route]
	// covering yields those that hold all of a prefix, longest first.
	covering(path string, client netip.Prefix) iter.Seq[api.Route]
	// plainWay is the way of plain packets to a client.
	plainWay(client netip.Prefix, found api.Lookup) api.PlainWay
}

// Routes implements [api.Backend].
func (b backend) Routes(_ context.Context, within netip.Prefix, limit int) (api.RouteList, error) {
	e := b.engine
	var list api.RouteList
	var paths []api.Path
	e.locked(func() { paths = e.role.paths() })
	for _, path := range paths {
		// Others get their turn between the paths, which may have a full table each.
		e.locked(func() {
			total, some := firstRoutes(e.role.(routeShower).routesOf(path.Name), within, limit)
			list.Total += total
			list.Routes = append(list.Routes, some...)
		})
	}
	slices.SortFunc(list.Routes, func(a, b api.Route) int {
		return cmp.Or(a.Prefix.Compare(b.Prefix), strings.Compare(a.Path, b.Path))
	})
	list.Routes = list.Routes[:min(limit, len(list.Routes))]
	return list, nil
}

// firstRoutes counts the routes that overlap a prefix, and shows the first ones.
func firstRoutes(routes iter.Seq2[netip.Prefix, func() api.Route], within netip.Prefix, limit int) (total int, list []api.Route) {
	type candidate struct {
		prefix netip.Prefix
		show   func() api.Route
	}
	var first []candidate
	cut := func() {
		slices.SortFunc(first, func(a, b candidate) int { return a.prefix.Compare(b.prefix) })
		first = first[:min(limit, len(first))]
	}
	for prefix, show := range routes {
		if within.IsValid() && !prefix.Overlaps(within) {
			continue
		}
		total++
		if first = append(first, candidate{prefix, show}); len(first) >= 2*limit {
			cut()
		}
	}
	cut()
	for _, c := range first {
		list = append(list, c.show())
	}
	return total, list
}

// Why implements [api.Backend].
func (b backend) Why(_ context.Context, client netip.Prefix) (api.Explanation, error) {
	e := b.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	shower := e.role.(routeShower)
	found := e.role.lookup(client)
	why := api.Explanation{Client: client, Policies: found.Policies, Plain: shower.plainWay(client, found)}
	for _, path := range e.allPaths() {
		one := api.PathExplanation{
			Path: path.Name, State: path.State,
			Routes: slices.Collect(shower.covering(path.Name, client)),
		}
		one.Reason = pathReason(path, one.Routes)
		why.Paths = append(why.Paths, one)
	}
	return why, nil
}

// pathReason says whether packets to a client may take a path.
func pathReason(path api.Path, routes []api.Route) string {
	used := slices.IndexFunc(routes, func(r api.Route) bool {
		return r.State == api.RouteUsed || r.State == api.RouteDraining || r.State == api.RouteWithheld
	})
	switch {
	case path.State == api.Down:
		return "the path is down: " + path.Reason
	case len(routes) == 0:
		return "it has no route that holds the client"
	case used < 0:
		return fmt.Sprintf("its route %s is %s: %s", routes[0].Prefix, routes[0].State, routes[0].Reason)
	case path.State == api.Draining || routes[used].State == api.RouteDraining:
		return fmt.Sprintf("its route %s reaches the client, and nothing new shall begin", routes[used].Prefix)
	default:
		return fmt.Sprintf("its route %s reaches the client", routes[used].Prefix)
	}
}

// described is a route with the attributes that BGP has for it.
func described(path string, prefix netip.Prefix, a speaker.Attributes) api.Route {
	r := api.Route{
		Path: path, Prefix: prefix, NextHop: a.NextHop, ASPath: endpoint.ASes(a.ASPath),
		LocalPref: a.LocalPref, MED: a.MED,
	}
	for _, c := range a.Communities() {
		r.Communities = append(r.Communities, fmt.Sprintf("%d:%d", c>>16, c&0xffff))
	}
	return r
}

package agent

import (
	"fmt"
	"iter"
	"net/netip"

	"hikyaku/egress/api"
	"hikyaku/egress/endpoint"
	"hikyaku/egress/speaker"
)

func (s *Server) routesOf(path string) iter.Seq2[netip.Prefix, func() api.Route] {
	view, _ := s.planner.View(path)
	return func(yield func(netip.Prefix, func() api.Route) bool) {
		for r := range s.planner.Routes(path) {
			if !yield(r.Prefix, func() api.Route { return s.shown(view, r) }) {
				return
			}
		}
	}
}

func (s *Server) covering(path string, client netip.Prefix) iter.Seq[api.Route] {
	view, _ := s.planner.View(path)
	return func(yield func(api.Route) bool) {
		for r := range s.planner.Covering(path, client) {
			if !yield(s.shown(view, r)) {
				return
			}
		}
	}
}

// shown is a path's route as the API has it.
func (s *Server) shown(path endpoint.View, v endpoint.RouteView) api.Route {
	var a speaker.Attributes
	if v.Route != nil {
		a = v.Route.Attributes
	}
	r := described(path.Config.Name, v.Prefix, a)
	if v.Route != nil {
		r.SID = v.Route.Service.SID
	}
	switch {
	case v.Refusal == endpoint.Strange:
		r.State, r.Reason = api.RouteRefused, fmt.Sprintf(
			"its SID is in none of srv6.locators, or its target is not %s", path.Config.RT)
	case v.Refusal == endpoint.BeyondLimit:
		r.State, r.Reason = api.RouteRefused, fmt.Sprintf(
			"the path has limits.routes_per_path (%d) others", s.config.Limits.RoutesPerPath)
	case v.Stale:
		r.State, r.Reason = api.RouteStale, "a former run put it there, and no reflector has announced it since"
	case !path.Up:
		r.State, r.Reason = api.RouteUnused, path.Reason
	case v.Route == nil || !v.InKernel:
		r.State, r.Reason = api.RouteWaiting, "it is about to come into the kernel, or to go"
	case path.Draining || v.Draining:
		r.State, r.Reason = api.RouteDraining, path.Reason
		if !path.Draining {
			r.Reason = "its border drains it"
		}
	default:
		r.State, r.Reason = api.RouteUsed, "the kernel has it"
	}
	return r
}

// plainWay is the way of plain packets, as the main tables of server and border show it.
func (s *Server) plainWay(_ netip.Prefix, found api.Lookup) api.PlainWay {
	if found.Best != "" {
		return api.PlainWay{Path: found.Best, Reason: "the main tables of this server and of the path's border lead there"}
	}
	return api.PlainWay{Reason: found.BestUnknown}
}

package agent

import (
	"fmt"
	"iter"
	"net"
	"net/netip"
	"slices"
	"strings"

	"hikyaku/egress/api"
	"hikyaku/egress/border"
	"hikyaku/egress/speaker"
)

func (b *Border) routesOf(peer string) iter.Seq2[netip.Prefix, func() api.Route] {
	view, _ := b.planner.View(peer)
	return func(yield func(netip.Prefix, func() api.Route) bool) {
		for r := range b.planner.Routes(peer) {
			if !yield(r.Prefix, func() api.Route { return b.shown(view, r) }) {
				return
			}
		}
	}
}

func (b *Border) covering(peer string, client netip.Prefix) iter.Seq[api.Route] {
	view, _ := b.planner.View(peer)
	return func(yield func(api.Route) bool) {
		for r := range b.planner.Covering(peer, client) {
			if !yield(b.shown(view, r)) {
				return
			}
		}
	}
}

// shown is a peer's route as the API has it.
func (b *Border) shown(peer border.View, v border.RouteView) api.Route {
	var a speaker.Attributes
	if v.Attributes != nil {
		a = *v.Attributes
	}
	r := described(peer.Config.Name, v.Prefix, a)
	r.SID, r.Interface = peer.Config.SID, v.Hop.Device
	withheld := b.withheldFrom(peer, v)
	switch {
	case v.Stale:
		r.State, r.Reason = api.RouteStale, "a former run put it there, and the peer has not announced it since"
	case !peer.Usable:
		r.State, r.Reason = api.RouteUnused, peer.Reason
	case v.Refusal != "":
		r.State, r.Reason = api.RouteRefused, "the import policy refuses it: "+v.Refusal
	case v.Unreachable != nil:
		r.State, r.Reason = api.RouteUnreachable, v.Unreachable.Error()
	case v.Attributes == nil || !v.InKernel || !v.Announced:
		r.State, r.Reason = api.RouteWaiting, "it is about to come into the kernel, or to go"
	case len(withheld) > 0:
		r.State, r.Reason = api.RouteWithheld, fmt.Sprintf(
			"it is not announced to %s, since its path attributes leave no room in a BGP message", strings.Join(withheld, ", "))
	case peer.Draining:
		r.State, r.Reason = api.RouteDraining, "an operator drains the path"
	default:
		r.State, r.Reason = api.RouteUsed, "the kernel has it, and reflectors get it"
	}
	return r
}

// withheldFrom returns the reflectors that do not get a route.
func (b *Border) withheldFrom(peer border.View, v border.RouteView) (names []string) {
	if b.bgp == nil || !v.Announced {
		return nil
	}
	for _, r := range b.config.Reflectors {
		if b.bgp.Withholds(r.Name, peer.Config.RD, v.Prefix) {
			names = append(names, r.Name)
		}
	}
	return names
}

// plainWay asks the kernel: packets that come to no SID follow its main table.
func (b *Border) plainWay(client netip.Prefix, _ api.Lookup) api.PlainWay {
	gateway, device, err := b.devices.devices.route(net.IP(client.Addr().AsSlice()), "")
	if err != nil {
		return api.PlainWay{Reason: fmt.Sprintf("the kernel has no way to %s: %s", client.Addr(), err)}
	}
	hop := hopBy(device, gateway, client.Addr())
	way := api.PlainWay{Reason: fmt.Sprintf("the kernel sends packets to %s via %s on %s", client.Addr(), hop.Gateway, hop.Device)}
	for _, name := range b.planner.Names() {
		if slices.ContainsFunc(b.planner.Hops(name), func(h border.Hop) bool { return h == hop }) {
			way.Path = name
			return way
		}
	}
	way.Reason += ", which is none of the peers"
	return way
}

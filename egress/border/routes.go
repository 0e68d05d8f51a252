package border

import (
	"iter"
	"net/netip"

	"hikyaku/egress/speaker"
)

// RouteView is a route of a peer, for people.
type RouteView struct {
	Prefix netip.Prefix
	// Attributes that the peer has announced; nil where a former run put the route there, or
	// where it is about to go.
	Attributes *speaker.Attributes
	// InKernel: the peer's table has the route. Announced: servers have it, as far as reflectors
	// take it.
	InKernel, Announced bool
	// Stale: a former run put it there, and the peer has not confirmed it yet.
	Stale bool
	// Hop is where its packets go; the zero value where that is not known.
	Hop Hop
	// Unreachable is why no packet gets to its next hop, nil where one does.
	Unreachable error
	// Refusal is the reason of the import policy, empty where it takes the route.
	Refusal string
}

// Covering yields the routes of a peer that hold all of a prefix, longest first, whatever their
// state.
func (p *Planner) Covering(name string, within netip.Prefix) iter.Seq[RouteView] {
	return func(yield func(RouteView) bool) {
		state := p.peers[name]
		if state == nil {
			return
		}
		for prefix, r := range state.routes.Covering(within) {
			if !yield(state.viewRoute(prefix, r)) {
				return
			}
		}
	}
}

// Routes yields all routes of a peer in no particular order, whatever their state.
func (p *Planner) Routes(name string) iter.Seq[RouteView] {
	return func(yield func(RouteView) bool) {
		state := p.peers[name]
		if state == nil {
			return
		}
		for prefix, r := range state.routes.All() {
			if !yield(state.viewRoute(prefix, r)) {
				return
			}
		}
	}
}

// Hops returns where the next hops of a peer's routes are.
func (p *Planner) Hops(name string) (hops []Hop) {
	if state := p.peers[name]; state != nil {
		for _, found := range state.hops {
			if found.err == nil {
				hops = append(hops, found.hop)
			}
		}
	}
	return hops
}

func (p *peer) viewRoute(prefix netip.Prefix, r route) RouteView {
	v := RouteView{
		Prefix: prefix, Attributes: r.want, InKernel: r.have != 0, Announced: r.announced != nothing, Stale: r.stale,
	}
	if r.verdict.Refuses() {
		v.Refusal = r.verdict.Reason().String()
	}
	if r.want != nil {
		found := p.hops[r.want.NextHop]
		v.Hop, v.Unreachable = found.hop, found.err
	}
	return v
}

package endpoint

import (
	"iter"
	"net/netip"

	"hikyaku/egress/speaker"
)

// RouteView is a route of a path, for people.
type RouteView struct {
	Prefix netip.Prefix
	// Route that a reflector has announced; nil where a former run put it there, where it is
	// refused, or about to go.
	Route *speaker.VPNRoute
	// InKernel: the path's table has it.
	InKernel bool
	// Stale: a former run put it there, and no reflector has confirmed it yet.
	Stale bool
	// Draining: its border asks for nothing new.
	Draining bool
	// Refusal is why the route is not taken.
	Refusal Refusal
}

// Refusal is why a route of a path is not taken.
type Refusal uint8

// The refusals.
const (
	// Taken is none.
	Taken Refusal = iota
	// BeyondLimit: the path has limits.routes_per_path others.
	BeyondLimit
	// Strange: its SID is in none of srv6.locators, or its target is another one.
	Strange
)

// Covering yields the routes of a path that hold all of a prefix, longest first, whatever their
// state.
func (p *Planner) Covering(name string, within netip.Prefix) iter.Seq[RouteView] {
	return func(yield func(RouteView) bool) {
		state := p.paths[name]
		if state == nil {
			return
		}
		for bits := within.Bits(); bits >= 0; bits-- {
			prefix := netip.PrefixFrom(within.Addr(), bits).Masked()
			if v, ok := state.viewOf(prefix); ok && !yield(v) {
				return
			}
		}
	}
}

// Routes yields all routes of a path in no particular order, whatever their state.
func (p *Planner) Routes(name string) iter.Seq[RouteView] {
	return func(yield func(RouteView) bool) {
		state := p.paths[name]
		if state == nil {
			return
		}
		for prefix := range state.routes.All() {
			if v, ok := state.viewOf(prefix); ok && !yield(v) {
				return
			}
		}
		for _, set := range []map[netip.Prefix]struct{}{state.refused, state.strange} {
			for prefix := range set {
				if _, known := state.routes.Get(prefix); known {
					continue
				}
				if v, ok := state.viewOf(prefix); ok && !yield(v) {
					return
				}
			}
		}
	}
}

func (p *path) viewOf(prefix netip.Prefix) (RouteView, bool) {
	r, known := p.routes.Get(prefix)
	v := RouteView{Prefix: prefix, Route: r.want, InKernel: r.have != 0, Stale: r.stale, Draining: r.draining}
	if _, strange := p.strange[prefix]; strange {
		v.Refusal = Strange
	} else if _, refused := p.refused[prefix]; refused {
		v.Refusal = BeyondLimit
	}
	return v, known || v.Refusal != Taken
}

package border

import (
	"net/netip"

	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/rib"
	"hikyaku/egress/speaker"
)

// MainTable is the name of the part that puts best paths into the main table, in
// [Planner.Flush] and wherever else a peer is named. No peer can have this name.
const MainTable = "main table"

// bestMetric is better than the kernel's 1024, as that of routing daemons.
const bestMetric = 20

// best is the state of the main table, which has BGP's preferred routes among all peers.
type best struct {
	routes rib.Table[bestRoute]
	queue  []netip.Prefix
	gone   []kernel.Nexthop
	failed error
	// hops are the ways to other borders, which next hops inside of the AS are.
	hops map[netip.Addr]resolution
}

type bestRoute struct {
	// nextHop is that of BGP's choice, invalid without one; peer is whose it is, nil for
	// another border's, learned from reflectors.
	nextHop netip.Addr
	peer    *peer
	want    kernel.Nexthop // without its number; the zero value for none
	have    kernel.NexthopID
	stale   bool
	queued  bool
}

func (b *best) set(prefix netip.Prefix, change func(*bestRoute)) {
	r, _ := b.routes.Get(prefix)
	change(&r)
	if !r.queued {
		r.queued = true
		b.queue = append(b.queue, prefix)
	}
	b.routes.Set(prefix, r)
}

// Best takes BGP's choice for a prefix: a peer, or another border, learned from reflectors.
// Peers that are lost meanwhile take nothing along: their packets stop at the link.
func (p *Planner) Best(event speaker.BestPath) {
	var nextHop netip.Addr
	var found resolution
	state := p.peers[event.Peer]
	if event.Attributes != nil && event.Peer != "" {
		nextHop = event.Attributes.NextHop
		switch {
		case p.refusesBest(state, event.Prefix, event.Attributes): // until the policy changes
		case state != nil:
			found = p.resolve(state, nextHop)
		default:
			found = p.resolveInside(nextHop)
		}
	}
	p.best.set(event.Prefix, func(r *bestRoute) {
		r.want, r.nextHop, r.peer, r.stale = found.bestNexthop(event.Prefix), nextHop, state, false
	})
}

// refusesBest reports whether the import policy refuses BGP's choice.
func (p *Planner) refusesBest(state *peer, prefix netip.Prefix, a *speaker.Attributes) bool {
	policy := p.inside
	if state != nil {
		policy = state.policy
	}
	return policy.Judge(prefix, policy.Attributes(a), p.vrps).Refuses()
}

// bestJudged takes a peer's route out of the main table, or back, after another verdict.
func (p *Planner) bestJudged(state *peer, prefix netip.Prefix, refused bool) {
	r, known := p.best.routes.Get(prefix)
	if !known || r.peer != state || !r.nextHop.IsValid() {
		return
	}
	var want kernel.Nexthop
	if !refused {
		want = p.resolve(state, r.nextHop).bestNexthop(prefix)
	}
	p.best.set(prefix, func(r *bestRoute) { r.want = want })
}

func (r resolution) bestNexthop(prefix netip.Prefix) kernel.Nexthop {
	if r.err != nil || r.hop == (Hop{}) {
		return kernel.Nexthop{}
	}
	return r.nexthop(prefix)
}

// nexthop is the object for routes to a prefix. Its family is the gateway's, which may be
// IPv6 for an IPv4 prefix (RFC 8950).
func (r resolution) nexthop(prefix netip.Prefix) kernel.Nexthop {
	n := kernel.Nexthop{Family: kernel.FamilyOf(prefix.Addr()), Device: r.hop.Device, Gateway: r.hop.Gateway}
	if n.Gateway.IsValid() {
		n.Family = kernel.FamilyOf(n.Gateway)
	}
	return n
}

func (p *Planner) resolveInside(nextHop netip.Addr) resolution {
	found, ok := p.best.hops[nextHop]
	if !ok {
		found.hop, found.err = p.opts.ResolveInside(nextHop)
		p.best.hops[nextHop] = found
	}
	return found
}

// resolveInsideAgain follows interior routing, which may lead to another border by
// another way now.
func (p *Planner) resolveInsideAgain() {
	before := p.best.hops
	if len(before) == 0 {
		return
	}
	p.best.hops = make(map[netip.Addr]resolution)
	changed := false
	for nextHop, was := range before {
		changed = p.resolveInside(nextHop).hop != was.hop || changed
	}
	if !changed {
		return
	}
	for prefix, r := range p.best.routes.All() {
		if r.peer != nil || !r.nextHop.IsValid() {
			continue
		}
		if want := p.best.hops[r.nextHop].bestNexthop(prefix); want != r.want {
			p.best.set(prefix, func(r *bestRoute) { r.want = want })
		}
	}
}

// resolveBestAgain has best paths by a peer follow its next hops.
func (p *Planner) resolveBestAgain(state *peer) {
	for prefix, r := range p.best.routes.All() {
		if r.peer != state || !r.nextHop.IsValid() {
			continue
		}
		if of, _ := state.routes.Get(prefix); of.verdict.Refuses() {
			continue
		}
		if want := p.resolve(state, r.nextHop).bestNexthop(prefix); want != r.want {
			p.best.set(prefix, func(r *bestRoute) { r.want = want })
		}
	}
}

// adoptBest takes over the routes that a former run put into the main table.
func (p *Planner) adoptBest(routes []kernel.Route) {
	for _, r := range routes {
		if r.Table == kernel.MainTable && r.Metric == bestMetric && p.config.Router.BestPaths && p.pool.Use(r.Nexthop) {
			p.best.routes.Set(r.Prefix, bestRoute{have: r.Nexthop, stale: true})
		}
	}
}

// expireBest removes routes that have not been confirmed since the start.
func (p *Planner) expireBest() {
	for prefix, r := range p.best.routes.All() {
		if r.stale {
			p.best.set(prefix, func(r *bestRoute) { r.stale = false })
		}
	}
}

func (p *Planner) setBestFailed(err error) {
	p.best.failed = err
	for prefix := range p.best.routes.All() {
		p.best.set(prefix, func(*bestRoute) {})
	}
}

// flushBest is Flush for the main table.
func (p *Planner) flushBest(limit int) []Step {
	var put, remove kernel.State
	for _, prefix := range take(&p.best.queue, limit) {
		r, _ := p.best.routes.Get(prefix)
		r.queued = false
		was := r.have
		switch {
		case r.stale && p.best.failed == nil:
		case r.want == kernel.Nexthop{} || p.best.failed != nil:
			if was != 0 {
				remove.Routes = append(remove.Routes, mainRoute(prefix, was))
			}
			r.have, r.stale = 0, false
		default:
			object, placed := p.pool.Acquire(r.want)
			if !placed {
				put.Nexthops = append(put.Nexthops, object)
			}
			put.Routes = append(put.Routes, mainRoute(prefix, object.ID))
			r.have = object.ID
		}
		if was != 0 && !r.stale {
			if n, gone := p.pool.Release(was); gone {
				p.best.gone = append(p.best.gone, n)
			}
		}
		if r.have == 0 && r.want == (kernel.Nexthop{}) && !r.nextHop.IsValid() {
			p.best.routes.Delete(prefix)
		} else {
			p.best.routes.Set(prefix, r)
		}
	}
	var steps []Step
	for _, change := range []kernel.Change{{Remove: remove}, {Put: put}, {Remove: kernel.State{Nexthops: p.best.gone}}} {
		if len(change.Put.Routes)+len(change.Remove.Routes)+len(change.Remove.Nexthops) > 0 {
			steps = append(steps, Step{Change: &change})
		}
	}
	p.best.gone = nil
	return steps
}

func mainRoute(prefix netip.Prefix, id kernel.NexthopID) kernel.Route {
	return kernel.Route{Prefix: prefix, Table: kernel.MainTable, Metric: bestMetric, Nexthop: id}
}

// Devices returns the devices that the next hops of a peer's routes are on, or those of
// best paths.
func (p *Planner) Devices(name string) []string {
	var devices []string
	add := func(hops map[netip.Addr]resolution) {
		for _, found := range hops {
			if found.err == nil {
				devices = append(devices, found.hop.Device)
			}
		}
	}
	if state := p.peers[name]; state != nil {
		add(state.hops)
	}
	if name == MainTable && p.best.routes.Len() > 0 {
		add(p.best.hops)
		for _, state := range p.peers {
			add(state.hops)
		}
	}
	return devices
}

// Config returns the configuration of a peer, nil where there is none.
func (p *Planner) Config(name string) *config.Peer {
	if state := p.peers[name]; state != nil {
		return state.config
	}
	return nil
}

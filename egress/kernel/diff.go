package kernel

import (
	"cmp"
	"slices"
)

// Diff returns the operations that turn have into want.
//
// Make comes before break: nexthops, routes, rules and addresses go in, then addresses,
// rules, routes and nexthops go out. After each operation a packet to a prefix of a table
// takes its old way, its new way, or none, never a third. Routes leave a nexthop object
// before it is repointed. The rule that stops an address's packets is there before the one
// which lets them into a table. An SRv6 endpoint opens after the routes behind it and
// closes before them.
//
// The routes of a removed nexthop are not named: the kernel removes them with it.
// The tunnel source stays where want has none. have and want may be in any order and
// are not changed; of several objects with one key the first counts.
func Diff(have, want State) []Op {
	p := planner{
		changed: make(map[NexthopID]Verb),
		closing: make(map[NexthopID]bool),
		opening: make(map[NexthopID]bool),
	}
	p.tunnelSource(have.TunnelSource, want.TunnelSource)
	p.nexthops(sorted(have.Nexthops, compareNexthops), sorted(want.Nexthops, compareNexthops))
	p.routes(
		sorted(each(have.Routes, Route.normal), compareRoutes),
		sorted(each(want.Routes, Route.normal), compareRoutes))
	p.rules(
		sorted(each(have.Rules, Rule.normal), compareRules),
		sorted(each(want.Rules, Rule.normal), compareRules))
	p.addresses(
		sorted(each(have.Addresses, Address.normal), compareAddresses),
		sorted(each(want.Addresses, Address.normal), compareAddresses))
	return slices.Concat(p.steps[:]...)
}

// The steps of a plan, in the order in which they are applied.
const (
	setTunnelSource = iota
	remakeNexthops
	addNexthops
	// moveRoutes takes routes off the nexthops that are replaced next.
	moveRoutes
	replaceNexthops
	putRoutes
	openEndpoints
	addRules
	addAddresses
	deleteAddresses
	deleteRules
	closeEndpoints
	deleteRoutes
	deleteNexthops
	stepCount
)

type planner struct {
	steps [stepCount][]Op
	// changed holds what happens to nexthops that are there already: Replace, Delete,
	// or Add for one that is removed and made again.
	changed map[NexthopID]Verb
	// closing and opening are the nexthops that were, or will be, an SRv6 endpoint.
	closing, opening map[NexthopID]bool
}

func (p *planner) do(step int, verb Verb, object Object) {
	p.steps[step] = append(p.steps[step], Op{Verb: verb, Object: object})
}

func (p *planner) tunnelSource(have, want TunnelSource) {
	if want.IsValid() && want != have {
		p.do(setTunnelSource, Replace, want)
	}
}

func (p *planner) nexthops(have, want []Nexthop) {
	for h, w := range merge(have, want, compareNexthops) {
		if h != nil {
			p.closing[h.ID] = h.Local.Action != NoLocal
		}
		if w != nil {
			p.opening[w.ID] = w.Local.Action != NoLocal
		}
		switch {
		case h == nil:
			p.do(addNexthops, Add, *w)
		case w == nil:
			p.changed[h.ID] = Delete
			p.do(deleteNexthops, Delete, *h)
		case h.Family != w.Family:
			p.changed[h.ID] = Add
			p.do(remakeNexthops, Delete, *h)
			p.do(remakeNexthops, Add, *w)
		case *h != *w:
			p.changed[h.ID] = Replace
			p.do(replaceNexthops, Replace, *w)
		}
	}
}

func (p *planner) routes(have, want []Route) {
	for h, w := range merge(have, want, compareRoutes) {
		if h != nil && p.changed[h.Nexthop] == Add {
			h = nil // went with its nexthop
		}
		switch {
		case h == nil && w == nil:
		case h == nil:
			p.do(p.putStep(*w), Add, *w)
		case w == nil:
			p.dropRoute(*h)
		case *h == *w:
		case h.Nexthop == w.Nexthop || p.changed[h.Nexthop] != Replace:
			p.do(p.putStep(*w), Replace, *w)
		case p.changed[w.Nexthop] != Replace && !p.opening[w.Nexthop]:
			p.do(moveRoutes, Replace, *w)
		default:
			// Both nexthops are about to change, so neither order avoids a third way; or
			// the route is an endpoint that must not open yet.
			p.do(moveRoutes, Delete, *h)
			p.do(p.putStep(*w), Add, *w)
		}
	}
}

func (p *planner) putStep(r Route) int {
	if p.opening[r.Nexthop] {
		return openEndpoints
	}
	return putRoutes
}

func (p *planner) dropRoute(r Route) {
	switch {
	case p.changed[r.Nexthop] == Replace:
		p.do(moveRoutes, Delete, r)
	case p.closing[r.Nexthop]:
		p.do(closeEndpoints, Delete, r)
	case p.changed[r.Nexthop] == Delete:
		// Goes with its nexthop.
	default:
		p.do(deleteRoutes, Delete, r)
	}
}

func (p *planner) rules(have, want []Rule) {
	for h, w := range merge(have, want, compareRules) {
		switch {
		case h == nil:
			p.do(addRules, Add, *w)
		case w == nil:
			p.do(deleteRules, Delete, *h)
		}
	}
	// A rule that stops packets is there first and goes last. Both sorts are stable.
	slices.SortStableFunc(p.steps[addRules], func(a, b Op) int { return cmp.Compare(stops(b), stops(a)) })
	slices.SortStableFunc(p.steps[deleteRules], func(a, b Op) int { return cmp.Compare(stops(a), stops(b)) })
}

func stops(op Op) int {
	if op.Object.(Rule).Action == Lookup {
		return 0
	}
	return 1
}

func (p *planner) addresses(have, want []Address) {
	for h, w := range merge(have, want, compareAddresses) {
		switch {
		case h == nil:
			p.do(addAddresses, Add, *w)
		case w == nil:
			p.do(deleteAddresses, Delete, *h)
		case h.Prefix != w.Prefix:
			// The kernel cannot change the length, nor hold the address twice.
			p.do(addAddresses, Delete, *h)
			p.do(addAddresses, Add, *w)
		case *h != *w:
			p.do(addAddresses, Replace, *w)
		}
	}
}

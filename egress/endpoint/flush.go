package endpoint

import (
	"net/netip"

	"hikyaku/egress/kernel"
)

// Step is a change of the kernel's state and the prefixes whose routes it changes.
type Step struct {
	Change   kernel.Change
	Prefixes []netip.Prefix
}

// Pending reports whether Flush has something to do for a path.
func (p *Planner) Pending(name string) bool {
	state := p.paths[name]
	return state != nil && (len(state.queue) > 0 || len(state.gone) > 0 || state.entered != state.usable())
}

// Flush returns the next steps for a path, for at most limit prefixes, in their
// order. They count as done: [Planner.Block] the path when they were not.
func (p *Planner) Flush(name string, limit int) []Step {
	state := p.paths[name]
	if state == nil {
		return nil
	}
	if state.entered && !state.usable() {
		// Alone and first: this ends the use of the path, however many routes it has.
		state.entered = false
		return []Step{{Change: kernel.Change{Remove: kernel.State{Rules: p.enter(state.config)}}}}
	}
	n := min(limit, len(state.queue))
	b := batch{planner: p, path: state}
	for _, prefix := range state.queue[:n] {
		b.route(prefix)
	}
	state.queue = state.queue[n:]
	return b.steps()
}

// batch collects the changes of some prefixes of a path.
type batch struct {
	planner      *Planner
	path         *path
	remove, put  kernel.State
	removed, set []netip.Prefix
}

func (b *batch) route(prefix netip.Prefix) {
	was, _ := b.path.routes.Get(prefix)
	now := was
	now.queued = false
	defer func() { b.path.store(prefix, was, now) }()
	want := b.path.wanted(was)
	if want == nil && now.stale && b.path.blocked == nil {
		return
	}
	if want == nil {
		b.removed = append(b.removed, prefix)
		if now.have != 0 {
			b.remove.Routes = append(b.remove.Routes, b.entry(prefix, now.have))
			b.release(now.have)
			now.have, now.stale = 0, false
		}
		return
	}
	b.set = append(b.set, prefix)
	object, placed := b.planner.pool.Acquire(b.planner.object(b.path, prefix, want.Service.SID, 0))
	if !placed {
		b.put.Nexthops = append(b.put.Nexthops, object)
	}
	if now.have != object.ID {
		b.put.Routes = append(b.put.Routes, b.entry(prefix, object.ID))
	}
	if now.have != 0 {
		b.release(now.have)
	}
	now.have = object.ID
}

func (b *batch) entry(prefix netip.Prefix, id kernel.NexthopID) kernel.Route {
	return kernel.Route{Prefix: prefix, Table: b.path.config.Table, Nexthop: id}
}

func (b *batch) release(id kernel.NexthopID) {
	if n, gone := b.planner.pool.Release(id); gone {
		b.path.gone = append(b.path.gone, n)
	}
}

// steps puts removals first: a withdrawn route must not wait for new ones.
func (b *batch) steps() []Step {
	var steps []Step
	if !b.path.entered && b.path.usable() && len(b.path.queue) == 0 {
		// After the table was brought up to date.
		b.path.entered = true
		b.put.Rules = b.planner.enter(b.path.config)
	}
	if len(b.removed) > 0 {
		steps = append(steps, Step{Change: kernel.Change{Remove: b.remove}, Prefixes: b.removed})
	}
	if len(b.set) > 0 || len(b.put.Rules) > 0 {
		steps = append(steps, Step{Change: kernel.Change{Put: b.put}, Prefixes: b.set})
	}
	if len(b.path.gone) > 0 {
		steps = append(steps, Step{Change: kernel.Change{Remove: kernel.State{Nexthops: b.path.gone}}})
		b.path.gone = nil
	}
	return steps
}

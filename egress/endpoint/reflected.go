package endpoint

import (
	"fmt"
	"net/netip"
	"slices"
	"unique"

	"github.com/gaissmai/bart"

	"hikyaku/egress/speaker"
)

// reflected has the best paths of a reflector's unicast families. They are the reflector's
// choice: a border nearer to another exit may prefer that one (hot potato routing).
type reflected struct {
	paths bart.Table[unique.Handle[bestPath]]
	// complete are the families that the reflector has sent everything of.
	complete map[speaker.Family]bool
}

// bestPath is where a best path leads.
type bestPath struct {
	// nextHop is an egress peer's address, or that of the border with next-hop-self.
	nextHop netip.Addr
	// originator is the router ID of the border, where the reflector says so.
	originator netip.Addr
}

func unicast(is4 bool) speaker.Family {
	if is4 {
		return speaker.IPv4Unicast
	}
	return speaker.IPv6Unicast
}

// ReflectorUp begins with a reflector's best paths.
func (p *Planner) ReflectorUp(name string) {
	p.reflected[name] = &reflected{complete: make(map[speaker.Family]bool)}
}

// ReflectorDown forgets a reflector's best paths: nobody says how they change.
func (p *Planner) ReflectorDown(name string) {
	if r := p.reflected[name]; r != nil {
		delete(p.reflected, name)
		p.plain.changed = p.plain.changed || r.paths.Size() > 0
	}
}

// ReflectorSent notes that a reflector has sent all of a family. Its best paths count from then
// on: before, the longest one to a client may be missing.
func (p *Planner) ReflectorSent(name string, family speaker.Family) {
	if r := p.reflected[name]; r != nil && !family.VPN() {
		r.complete[family] = true
		p.plain.changed = p.plain.changed || r.paths.Size() > 0
	}
}

// Best takes best paths, and returns the prefixes that plain packets may leave otherwise to.
func (p *Planner) Best(event speaker.ReflectedBest) []netip.Prefix {
	r := p.reflected[event.Reflector]
	if r == nil || len(event.Prefixes) == 0 {
		return nil
	}
	path := unique.Make(bestPath{event.NextHop, event.Originator})
	for _, prefix := range event.Prefixes {
		if event.NextHop.IsValid() {
			r.paths.Insert(prefix, path)
		} else {
			r.paths.Delete(prefix)
		}
	}
	if !r.complete[unicast(event.Prefixes[0].Addr().Is4())] {
		return nil
	}
	return event.Prefixes
}

// bestTo returns how plain packets to a client leave by the reflectors' best paths. ok is false
// where no reflector is asked for them.
func (p *Planner) bestTo(client netip.Prefix) (found Plain, ok bool) {
	for _, name := range p.config.Plain.Reflectors {
		next := p.bestOf(name, client)
		if next.Path != "" {
			return next, true
		}
		if !ok {
			found, ok = next, true
		}
	}
	return found, ok
}

// bestOf is bestTo for one reflector.
func (p *Planner) bestOf(name string, client netip.Prefix) Plain {
	r := p.reflected[name]
	if r == nil {
		return unknown("reflector %s is not connected", name)
	}
	if family := unicast(client.Addr().Is4()); !r.complete[family] {
		return unknown("reflector %s has not sent all best paths of the family %s", name, family)
	}
	_, best, ok := r.paths.LookupPrefixLPM(client)
	if !ok {
		return unknown("reflector %s has no best path for the client", name)
	}
	for part, other := range r.paths.Subnets(client) {
		if other != best {
			return unknown("the best path of reflector %s to %s is another one", name, part)
		}
	}
	path := best.Value()
	if state := p.behind(path.nextHop); state != nil {
		return p.by(state, client)
	}
	border := p.borderOf(path)
	if !border.IsValid() {
		return unknown("the next hop of reflector %s's best path, %s, is no address of a border; `next_hops` of a path can name it", name, path.nextHop)
	}
	return p.from(border, client)
}

// behind is the path whose egress peer has an address, nil for none.
func (p *Planner) behind(hop netip.Addr) *path {
	for _, state := range p.paths {
		if !state.removed && slices.Contains(state.config.NextHops, hop) {
			return state
		}
	}
	return nil
}

// by is the way of plain packets that leave by a path's peer.
func (p *Planner) by(state *path, client netip.Prefix) Plain {
	_, _, ok := state.routes.Longest(client, func(r route) bool { return r.want != nil })
	if state.lost || !ok {
		return unknown("path %s has no route for the client, and a reflector's best path leads to its peer", state.config.Name)
	}
	return Plain{Path: state.config.Name}
}

// borderOf is the border that a best path leads to, if it is known.
func (p *Planner) borderOf(path bestPath) netip.Addr {
	for border, addresses := range p.plain.addresses {
		if slices.Contains(addresses, path.nextHop) || border == path.originator {
			return border
		}
	}
	return netip.Addr{}
}

// withBest adds the reflectors' best paths to the way that the main tables say, where those are
// not seen.
func (p *Planner) withBest(client netip.Prefix, why string) Plain {
	found, asked := p.bestTo(client)
	switch {
	case !asked:
		return Plain{Unknown: why}
	case found.Path == "":
		return Plain{Unknown: fmt.Sprintf("%s; %s", why, found.Unknown)}
	}
	return found
}

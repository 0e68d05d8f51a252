package addpath

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"hikyaku/egress/speaker/wire"
)

// router is one that paths come from.
type router struct {
	name    string
	address netip.Addr
	up      bool
	terms   wire.Terms
	// ended are the families whose End-of-RIB came in the present session.
	ended     []wire.Family
	unclaimed unclaimed
}

// Up begins a session with a router. Stale paths of families that the router has lost its
// forwarding state for go at once (RFC 4724 §4.2).
func (t *Table) Up(name string, address netip.Addr, terms wire.Terms) []Change {
	r := t.routers[name]
	if r == nil {
		r = &router{name: name}
		t.routers[name] = r
	}
	t.tally.begin(name)
	r.address, r.up, r.terms, r.ended, r.unclaimed = address, true, terms, nil, unclaimed{}
	return t.dropStale(r, func(f wire.Family) bool { return !slices.Contains(terms.Restart.Forwarding, f) })
}

// Down ends a session. The paths of some families are kept as stale ones, until the router
// has sent them again, or [Table.Expire].
func (t *Table) Down(name string, keep []wire.Family) []Change {
	r := t.routers[name]
	if r == nil {
		return nil
	}
	r.up = false
	return t.rework(func(prefix netip.Prefix, p path) (path, bool) {
		if p.router != r {
			return p, true
		}
		p.stale = true
		return p, slices.Contains(keep, familyOf(prefix))
	})
}

// EndOfRIB drops the stale paths of a family, since the router has sent all that it has.
func (t *Table) EndOfRIB(name string, family wire.Family) []Change {
	r := t.routers[name]
	if r == nil || !r.up || slices.Contains(r.ended, family) {
		return nil
	}
	r.ended = append(r.ended, family)
	return t.dropStale(r, func(f wire.Family) bool { return f == family })
}

// Expire drops the stale paths of a router that has not come back.
func (t *Table) Expire(name string) []Change {
	if r := t.routers[name]; r != nil && !r.up {
		return t.dropStale(r, func(wire.Family) bool { return true })
	}
	return nil
}

// RemoveRouter forgets a router. Its session must have ended.
func (t *Table) RemoveRouter(name string) {
	delete(t.routers, name)
	t.tally.forget(name)
}

func (t *Table) dropStale(r *router, family func(wire.Family) bool) []Change {
	return t.drop(func(prefix netip.Prefix, p path) bool {
		return p.router == r && p.stale && family(familyOf(prefix))
	})
}

func familyOf(prefix netip.Prefix) wire.Family {
	if prefix.Addr().Is4() {
		return wire.IPv4Unicast
	}
	return wire.IPv6Unicast
}

// Families are those of a peer that some router sends, and complete those of them whose
// End-of-RIB all these have sent.
func (t *Table) Families(name string) (families, complete []wire.Family) {
	p := t.peers[name]
	if p == nil {
		return nil, nil
	}
	for _, f := range p.Families {
		some, all := false, true
		for _, r := range t.routers {
			if r.up && slices.Contains(r.terms.Families, f) {
				some, all = true, all && slices.Contains(r.ended, f)
			}
		}
		if some {
			families = append(families, f)
			if all {
				complete = append(complete, f)
			}
		}
	}
	return families, complete
}

// Missing says why there is no route of a peer, and what to do.
func (t *Table) Missing(name string) string {
	p := t.peers[name]
	if p == nil {
		return ""
	}
	if p.paused {
		return "its routes are left out, since there were too many"
	}
	var reasons []string
	for _, r := range t.routers {
		switch {
		case !r.up:
			reasons = append(reasons, fmt.Sprintf("router %s is not connected", r.name))
		case len(r.ended) < len(r.terms.Families):
			reasons = append(reasons, fmt.Sprintf("router %s has not yet sent all its routes", r.name))
		default:
			reasons = append(reasons, r.without(p))
		}
	}
	if reasons == nil {
		return "no [[add_path]] router has connected yet"
	}
	slices.Sort(reasons)
	return strings.Join(reasons, "; ")
}

// without says why a router that has sent everything has no route of a peer.
func (r *router) without(p *peer) string {
	text := fmt.Sprintf("router %s sends no route with next hop %s", r.name, list(p.Match.NextHops))
	if p.Match.ByCommunity() {
		text = fmt.Sprintf("router %s sends no route with a community of `add_path.communities`", r.name)
	}
	if p.refused {
		return text + " that is usable: they are malformed, or have the own AS in their path"
	}
	u := r.unclaimed
	if len(u.selfHops) > 0 {
		return text + fmt.Sprintf("; it has routes with an own router as next hop (%s%s), which hides their peer: "+
			"do not set next-hop-self towards this agent, or mark the routes of each peer by a community and name it in `add_path.communities`",
			list(u.selfHops), u.from())
	}
	if len(u.hops) > 0 {
		return text + fmt.Sprintf("; others have %s", list(u.hops))
	}
	return text
}

// unclaimed has addresses of the paths of a session that are of no peer.
type unclaimed struct {
	// selfHops are next hops that are the router itself, or this machine, and originators the
	// routers that such routes come from. hops are those of others.
	selfHops, originators, hops []netip.Addr
}

// maxExamples bounds the examples of addresses.
const maxExamples = 4

func (u *unclaimed) add(hop, originator netip.Addr, self bool) {
	example := func(list *[]netip.Addr, a netip.Addr) {
		if a.IsValid() && len(*list) < maxExamples && !slices.Contains(*list, a) {
			*list = append(*list, a)
		}
	}
	if !self {
		example(&u.hops, hop)
		return
	}
	example(&u.selfHops, hop)
	example(&u.originators, originator)
}

// from names the routers that the routes have come from, where a reflector says so.
func (u unclaimed) from() string {
	if len(u.originators) == 0 {
		return ""
	}
	return ", set by " + list(u.originators)
}

func list(addresses []netip.Addr) string {
	var words []string
	for _, a := range addresses {
		words = append(words, a.String())
	}
	return strings.Join(words, ", ")
}

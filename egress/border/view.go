package border

import (
	"fmt"
	"net/netip"
	"slices"

	"hikyaku/egress/config"
	"hikyaku/egress/speaker"
)

// View is the state of a peer, for people.
type View struct {
	Config *config.Peer
	// Usable: the session is up and the kernel has the peer's routes.
	Usable bool
	// Reason why it is not usable, a sentence.
	Reason string
	// Draining: servers are asked to begin nothing new.
	Draining bool
	// Open: packets to the SID reach the peer. After a restart that may be so
	// before the session is up again.
	Open bool
	// IPv6 and IPv4 count the prefixes that the peer advertises.
	IPv6, IPv4 int
	// Received counts also those that are refused and kept.
	Received Received
	// Refused has the routes that the import policy refuses.
	Refused []Refused
	// Origins of the prefixes by the RPKI.
	Origins Origins
	// Problems that an operator should know of, as sentences.
	Problems []string
}

// Received counts routes by family.
type Received struct{ IPv6, IPv4 int }

// View returns the state of a peer.
func (p *Planner) View(name string) (View, bool) {
	state := p.peers[name]
	if state == nil {
		return View{}, false
	}
	v := View{
		Config: state.config, Usable: state.usable(), Draining: state.drain, Open: state.sid == open,
		IPv6: state.count.ipv6, IPv4: state.count.ipv4, Reason: state.reason,
	}
	v.Received = Received{IPv6: state.count.received - state.count.received4, IPv4: state.count.received4}
	if state.failed != nil {
		v.Reason = state.failed.Error()
		v.Problems = append(v.Problems, fmt.Sprintf("peer %s: %s", name, v.Reason))
	}
	v.Refused, v.Origins = state.refused(), state.count.origins
	v.Problems = append(v.Problems, state.importProblems()...)
	v.Problems = append(v.Problems, state.lostHops()...)
	return v, true
}

// maxLostHops is how many next hops without a way are named.
const maxLostHops = 8

// lostHops are sentences on next hops that nothing leads to.
func (p *peer) lostHops() (problems []string) {
	name := p.config.Name
	for hop, found := range p.hops {
		if found.err != nil {
			problems = append(problems, fmt.Sprintf("peer %s: routes via next hop %s are not used: %s", name, hop, found.err))
		}
	}
	slices.Sort(problems)
	if more := len(problems) - maxLostHops; more > 0 {
		problems = append(problems[:maxLostHops], fmt.Sprintf("peer %s: routes via %d further next hops are not used", name, more))
	}
	return problems
}

// Explain says why there is no session with a peer.
func (p *Planner) Explain(name, reason string) {
	if state := p.peers[name]; state != nil && !state.up {
		state.reason = reason
	}
}

// Lookup returns the route that a usable peer advertises for all of a prefix, as far as the
// kernel has it.
func (p *Planner) Lookup(name string, within netip.Prefix) (netip.Prefix, *speaker.Attributes, bool) {
	state := p.peers[name]
	if state == nil || !state.usable() {
		return netip.Prefix{}, nil, false
	}
	prefix, r, ok := state.routes.Longest(within, func(r route) bool { return r.used() && r.have != 0 })
	return prefix, r.want, ok
}

package border

import (
	"net/netip"
	"slices"

	"hikyaku/egress/fib"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

// Itself is the name of the part that announces the border's own addresses, in
// [Planner.Flush] and wherever else a peer is named. No peer can have this name.
const Itself = "the border itself"

// plain is what servers need to know of packets without a SID: those follow the main
// table. An EPE route by which the main table sends its prefix has the target
// [srv6.MainTarget] besides its own.
type plain struct {
	// macs are the link-layer addresses of neighbours. Routing daemons name a neighbour by
	// its link-local address, peers by another one.
	macs map[kernel.MainHop]string
	// recheck has prefixes whose EPE routes may lead otherwise than the main table now.
	recheck map[netip.Prefix]struct{}
	// uncovered are prefixes of EPE routes that are no prefix of the main table. They
	// depend on shorter routes.
	uncovered map[netip.Prefix]struct{}
	// sweep: uncovered prefixes may lead otherwise, too.
	sweep bool
	// addresses are those to announce, announced those that servers have.
	addresses, announced []netip.Addr
}

// neighbour identifies a machine on a link: by mac where that is known.
type neighbour struct {
	device, mac string
	gateway     netip.Addr
}

func (p *plain) neighbour(hop Hop) neighbour {
	if mac := p.macs[kernel.MainHop(hop)]; mac != "" {
		return neighbour{device: hop.Device, mac: mac}
	}
	return neighbour{device: hop.Device, gateway: hop.Gateway}
}

// isMain reports whether the main table sends a peer's prefix the way of its EPE route, by
// hop. It must send all of it to peers that have announced the prefix. Parts that it sends
// elsewhere must be EPE routes, too: servers could not see them otherwise.
func (p *Planner) isMain(state *peer, prefix netip.Prefix, hop Hop) bool {
	main := p.opts.Main
	if main == nil {
		return false
	}
	longest, hops, ok := main.Longest(prefix)
	if ok && longest == prefix {
		delete(p.plain.uncovered, prefix)
	} else {
		p.plain.uncovered[prefix] = struct{}{}
	}
	if !ok {
		return false
	}
	own, found := p.plain.neighbour(hop), false
	for _, other := range hops.List {
		switch {
		case p.plain.neighbour(Hop(other)) == own:
			found = true
		case !p.isPeers(prefix, other):
			return false
		}
	}
	if !found {
		return false
	}
	main.Within(prefix, func(part netip.Prefix, by *fib.Hops) bool {
		found = by == hops || p.isSeen(part, by)
		return found
	})
	return found
}

// isSeen reports whether servers know how the main table sends a part of a prefix, or need
// not: no client is there.
func (p *Planner) isSeen(part netip.Prefix, by *fib.Hops) bool {
	if slices.ContainsFunc(p.config.Import.Refuse, func(r netip.Prefix) bool { return r.Bits() <= part.Bits() && r.Contains(part.Addr()) }) {
		return true
	}
	for _, hop := range by.List {
		if hop.Gateway.IsValid() && !p.isPeers(part, hop) {
			return false
		}
	}
	return true
}

// isPeers reports whether a hop leads to a peer that has announced the prefix.
func (p *Planner) isPeers(prefix netip.Prefix, hop kernel.MainHop) bool {
	want := p.plain.neighbour(Hop(hop))
	for _, state := range p.peers {
		r, ok := state.routes.Get(prefix)
		if !ok || r.announced == nothing || state.wanted(r) == nil {
			continue
		}
		if found := p.resolve(state, r.want.NextHop); found.err == nil && p.plain.neighbour(found.hop) == want {
			return true
		}
	}
	return false
}

// recheckCovering notes that an EPE route has come or gone. Those to the prefix or to more
// than it may be the main table's now, or no more.
func (p *Planner) recheckCovering(prefix netip.Prefix) {
	if p.opts.Main == nil {
		return
	}
	p.plain.recheck[prefix] = struct{}{}
	for _, covering := range p.opts.Main.Covering(prefix) {
		p.plain.recheck[covering] = struct{}{}
		p.plain.sweep = p.plain.sweep || covering == prefix
	}
}

// MainChanged takes what [fib.Table.Take] returns of Options.Main. Routes that lead otherwise
// now, in comparison with the main table, are announced again.
func (p *Planner) MainChanged(changed []netip.Prefix, many bool) {
	if many {
		p.recheckAll()
		return
	}
	for _, prefix := range changed {
		p.recheckCovering(prefix)
	}
	p.plain.sweep = p.plain.sweep || len(changed) > 0
	p.Recheck()
}

// Recheck compares EPE routes whose surroundings have changed with the main table.
func (p *Planner) Recheck() {
	if len(p.plain.recheck) == 0 {
		return
	}
	for prefix := range p.plain.recheck {
		p.compare(prefix)
	}
	if p.plain.sweep {
		p.sweep()
	}
	clear(p.plain.recheck)
}

// forgetUncovered notes that a peer's route is withdrawn. A peer that announces ever other
// prefixes must not fill the memory.
func (p *Planner) forgetUncovered(of *peer, prefix netip.Prefix) {
	for _, state := range p.peers {
		if r, ok := state.routes.Get(prefix); ok && state != of && r.announced != nothing {
			return
		}
	}
	delete(p.plain.uncovered, prefix)
}

// sweep compares the prefixes that depend on shorter routes of the main table.
func (p *Planner) sweep() {
	p.plain.sweep = false
	for prefix := range p.plain.uncovered {
		if _, done := p.plain.recheck[prefix]; !done && !p.compare(prefix) {
			delete(p.plain.uncovered, prefix)
		}
	}
}

// compare plans a prefix's routes anew that are announced wrongly. It returns whether there
// is any route.
func (p *Planner) compare(prefix netip.Prefix) (found bool) {
	for _, state := range p.peers {
		r, ok := state.routes.Get(prefix)
		found = found || ok
		if ok {
			p.compareOne(state, prefix, r)
		}
	}
	return found
}

func (p *Planner) compareOne(state *peer, prefix netip.Prefix, r route) {
	if r.announced != current || state.wanted(r) == nil {
		return
	}
	hop := p.resolve(state, r.want.NextHop)
	if hop.err == nil && p.isMain(state, prefix, hop.hop) != r.main {
		now := r
		now.announced = outdated
		state.enqueue(prefix, r, now)
	}
}

func (p *Planner) recheckAll() {
	for _, state := range p.peers {
		for prefix, r := range state.routes.All() {
			p.compareOne(state, prefix, r)
		}
	}
	clear(p.plain.recheck)
}

// SetNeighbours takes the link-layer addresses of neighbours. Two hops with one of them are
// one neighbour: a gateway of the main table, and a next hop of a peer.
func (p *Planner) SetNeighbours(macs map[kernel.MainHop]string) {
	same := len(macs) == len(p.plain.macs)
	for hop, mac := range macs {
		same = same && p.plain.macs[hop] == mac
	}
	if !same {
		p.plain.macs = macs
		p.recheckAll()
	}
}

// Gateways returns the gateways of the peers' routes.
func (p *Planner) Gateways() (hops []kernel.MainHop) {
	for _, state := range p.peers {
		for _, found := range state.hops {
			if found.err == nil {
				hops = append(hops, kernel.MainHop(found.hop))
			}
		}
	}
	return hops
}

// SetAddresses takes the border's addresses on interfaces towards content servers. Servers
// get them, with the message that routes show the main table's way: by these addresses they
// recognize the border as a next hop.
func (p *Planner) SetAddresses(addresses []netip.Addr) { p.plain.addresses = addresses }

// itselfPending reports whether servers have other addresses of the border than it has.
func (p *Planner) itselfPending() bool { return !slices.Equal(p.plain.addresses, p.plain.announced) }

// flushItself is Flush for the border's addresses.
func (p *Planner) flushItself() (steps []Step) {
	rd := srv6.NewRouteDistinguisher(p.config.RouterID, srv6.ItselfNumber)
	missing := func(from, in []netip.Addr) (list []netip.Prefix) {
		for _, a := range from {
			if !slices.Contains(in, a) {
				list = append(list, host(a))
			}
		}
		return list
	}
	if gone := missing(p.plain.announced, p.plain.addresses); len(gone) > 0 {
		steps = append(steps, Step{Withdraw: &Withdrawal{RD: rd, Prefixes: gone}})
	}
	if added := missing(p.plain.addresses, p.plain.announced); len(added) > 0 {
		service := srv6.Service{
			SID: p.config.SRv6.Locator.Addr(), Behavior: srv6.EndDT6, Structure: p.config.SRv6.SIDLocator().Structure(),
		}
		steps = append(steps, Step{Announce: &speaker.VPNAnnouncement{
			RD: rd, Route: speaker.NewVPNRoute(service, speaker.Attributes{}, srv6.MainTarget(p.config.RouterID)), Prefixes: added,
		}})
	}
	p.plain.announced = p.plain.addresses
	return steps
}

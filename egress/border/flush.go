package border

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

// dropTypes are the kernel's route types for the configuration's values.
var dropTypes = map[config.Drop]kernel.RouteType{
	config.DropBlackhole:   kernel.Blackhole,
	config.DropUnreachable: kernel.Unreachable,
	config.DropProhibit:    unix.RTN_PROHIBIT,
}

// Marker is the VPN route that stands for a whole path: the SID itself. It is announced
// when the SID opens and withdrawn before all others when the peer is lost. So servers
// leave a path with 200,000 routes by one message. Servers that do not know it see a route
// that no client is in.
func Marker(sid netip.Addr) netip.Prefix { return host(sid) }

// Drops returns the routes of a peer's SIDs, for callers that must close them this moment and
// cannot wait for [Planner.Flush].
func Drops(c *config.Peer, lookup Lookup) []kernel.Route {
	routes := []kernel.Route{{Prefix: host(c.SID), Table: kernel.MainTable}}
	if lookup == ByPair {
		routes = append(routes, kernel.Route{Prefix: host(c.IPv4SID), Table: kernel.MainTable})
	}
	return routes
}

// Pending reports whether Flush has something to do for a peer.
func (p *Planner) Pending(name string) bool {
	switch name {
	case MainTable:
		return len(p.best.queue) > 0
	case Itself:
		return p.itselfPending()
	}
	state := p.peers[name]
	if state == nil {
		return false
	}
	return state.lost || state.again.pending() || len(state.pending) > 0 || len(state.queue) > 0 || len(state.clearing) > 0 || len(state.gone) > 0 ||
		p.mayOpen(state) || p.mayClose(state) || p.mayMark(state)
}

// mayMark reports whether the path can be announced to servers. See [Marker].
func (p *Planner) mayMark(state *peer) bool {
	return state.usable() && state.sid == open && (!state.marked || state.remark)
}

// SetPort takes the state of the port that a peer's packets leave by, as communities; nil for
// none. Servers get it with the path's [Marker]: one route, however many the path has.
func (p *Planner) SetPort(name string, communities []speaker.LargeCommunity) {
	state := p.peers[name]
	if state != nil && !slices.Equal(state.port, communities) {
		state.port, state.remark = communities, true
	}
}

// MarkAgain has a peer's [Marker] announced anew: it was withdrawn without the planner.
func (p *Planner) MarkAgain(name string) {
	if state := p.peers[name]; state != nil {
		state.marked = false
	}
}

func (p *Planner) mayOpen(state *peer) bool {
	return state.usable() && state.sid != open && state.leftover == 0
}

// mayClose reports whether the blackhole of a lost peer can go: its table is empty.
func (p *Planner) mayClose(state *peer) bool {
	return state.sid == dropped && state.local.ID != 0 && !state.usable() && len(state.queue) == 0 && len(state.clearing) == 0
}

// Flush returns the next steps for a peer, for at most limit of its prefixes. So work
// elsewhere need not wait for 200,000 of them. The steps count as done: call [Planner.Fail]
// when they were not.
func (p *Planner) Flush(name string, limit int) []Step {
	switch name {
	case MainTable:
		return p.flushBest(limit)
	case Itself:
		return p.flushItself()
	}
	state := p.peers[name]
	if state == nil {
		return nil
	}
	if state.lost {
		// Nothing else goes along, so that nothing delays it.
		state.lost = false
		state.sid = dropped
		var steps []Step
		for _, drop := range Drops(state.config, state.lookup) {
			steps = append(steps, Step{Drop: &drop})
		}
		if state.marked {
			state.marked = false
			steps = append(steps, Step{Withdraw: &Withdrawal{
				RD: state.config.RD, Prefixes: []netip.Prefix{Marker(state.config.SID)},
			}})
		}
		return steps
	}
	if state.again.pending() {
		p.judgeAgain(state, limit)
	}
	b := batch{planner: p, peer: state}
	withdrawn := len(state.queue) == 0
	for _, prefix := range take(&state.queue, limit) {
		b.route(prefix)
	}
	// Of a lost peer all is withdrawn first; one that is back waits for the clearing.
	if state.usable() || withdrawn {
		for _, prefix := range take(&state.clearing, limit) {
			b.clear(prefix)
		}
	}
	steps := b.steps()
	if len(state.pending) > 0 {
		steps = append(steps, Step{Bar: state.bars.step(name, limit)})
	}
	return steps
}

// batch collects the steps for some prefixes of a peer.
type batch struct {
	planner  *Planner
	peer     *peer
	remove   kernel.State
	put      kernel.State
	withdraw []netip.Prefix
	// announce has groups of prefixes, in order of appearance.
	announce map[group][]netip.Prefix
	order    []group
}

// group has what the prefixes of one announcement have in common.
type group struct {
	attributes *speaker.Attributes
	// ipv4: they are IPv4 prefixes, whose SID may be another one.
	ipv4 bool
	// main: the main table sends the prefixes this way, too.
	main bool
	// port: the large communities hold the state of a port.
	port bool
}

// route plans one prefix.
func (b *batch) route(prefix netip.Prefix) {
	was, _ := b.peer.routes.Get(prefix)
	now := was
	now.queued = false
	want := b.peer.wanted(was)
	switch {
	case want == nil:
		b.unwanted(prefix, &now)
	case b.peer.sid != open && b.peer.leftover > 0 && !b.peer.isLeftover(was):
		// Leftover routes go first, then the SID opens, then this one is added.
		b.peer.queue = append(b.peer.queue, prefix)
		return
	default:
		b.wanted(prefix, &now, want)
	}
	b.peer.store(prefix, was, now)
}

func (b *batch) unwanted(prefix netip.Prefix, now *route) {
	b.withdrawn(prefix, now)
	if now.have == 0 || now.stale {
		return
	}
	if b.peer.sid == open {
		b.removeRoute(prefix, now)
		return
	}
	// Nothing gets there any more: all withdrawals go before the clearing.
	b.peer.clearing = append(b.peer.clearing, prefix)
}

// clear removes a route that a lost peer left in its table.
func (b *batch) clear(prefix netip.Prefix) {
	was, known := b.peer.routes.Get(prefix)
	if !known || !b.peer.isLeftover(was) {
		return
	}
	now := was
	b.removeRoute(prefix, &now)
	b.peer.store(prefix, was, now)
}

func (b *batch) removeRoute(prefix netip.Prefix, now *route) {
	b.remove.Routes = append(b.remove.Routes, tableRoute(b.peer, prefix, now.have))
	b.release(now.have)
	now.have = 0
}

func (b *batch) release(id kernel.NexthopID) {
	if n, gone := b.planner.pool.Release(id); gone {
		b.peer.gone = append(b.peer.gone, n)
	}
}

// unreachable plans a route whose next hop nothing leads to.
func (b *batch) unreachable(prefix netip.Prefix, now *route) {
	b.withdrawn(prefix, now)
	if now.have != 0 {
		b.removeRoute(prefix, now)
	}
}

func (b *batch) wanted(prefix netip.Prefix, now *route, want *speaker.Attributes) {
	found := b.planner.resolve(b.peer, want.NextHop)
	if found.err != nil {
		b.unreachable(prefix, now)
		return
	}
	object, placed := b.planner.pool.Acquire(found.nexthop(prefix))
	if !placed {
		b.put.Nexthops = append(b.put.Nexthops, object)
	}
	if now.have != object.ID {
		b.put.Routes = append(b.put.Routes, tableRoute(b.peer, prefix, object.ID))
	}
	if now.have != 0 {
		b.release(now.have)
	}
	now.have = object.ID
	main := b.planner.isMain(b.peer, prefix, found.hop)
	if now.announced != current || now.main != main {
		b.announced(prefix, now, group{attributes: want, ipv4: prefix.Addr().Is4(), main: main})
	}
}

func (b *batch) announced(prefix netip.Prefix, now *route, of group) {
	if now.announced == nothing {
		b.planner.recheckCovering(prefix)
	}
	now.announced, now.main = current, of.main
	if b.announce == nil {
		b.announce = make(map[group][]netip.Prefix)
	}
	if _, known := b.announce[of]; !known {
		b.order = append(b.order, of)
	}
	b.announce[of] = append(b.announce[of], prefix)
}

// withdrawn takes a route from servers, if they have it.
func (b *batch) withdrawn(prefix netip.Prefix, now *route) {
	if now.announced != nothing {
		b.withdraw = append(b.withdraw, prefix)
		now.announced = nothing
		b.planner.recheckCovering(prefix)
		b.planner.forgetUncovered(b.peer, prefix)
	}
}

// steps returns the collected changes in order.
func (b *batch) steps() []Step {
	var steps []Step
	if len(b.remove.Routes) > 0 {
		steps = append(steps, Step{Change: &kernel.Change{Remove: b.remove}})
	}
	if len(b.withdraw) > 0 {
		steps = append(steps, Step{Withdraw: &Withdrawal{RD: b.peer.config.RD, Prefixes: b.withdraw}})
	}
	if len(b.put.Routes) > 0 || len(b.put.Nexthops) > 0 {
		steps = append(steps, Step{Change: &kernel.Change{Put: b.put}})
	}
	switch {
	case b.planner.mayOpen(b.peer):
		steps = append(steps, b.planner.openSID(b.peer))
	case b.planner.mayClose(b.peer):
		steps = append(steps, b.planner.closeSID(b.peer))
	}
	if b.planner.mayMark(b.peer) {
		b.peer.marked, b.peer.remark = true, false
		steps = append(steps, b.planner.announcement(b.peer, group{attributes: &speaker.Attributes{}, port: len(b.peer.port) > 0}, []netip.Prefix{Marker(b.peer.config.SID)}, b.peer.port...))
	}
	for _, of := range b.order {
		steps = append(steps, b.planner.announcement(b.peer, of, b.announce[of]))
	}
	if len(b.peer.gone) > 0 {
		steps = append(steps, Step{Change: &kernel.Change{Remove: kernel.State{Nexthops: b.peer.gone}}})
		b.peer.gone = nil
	}
	return steps
}

// openSID opens the peer's SID, with the routes that catch the rest behind it.
func (p *Planner) openSID(state *peer) Step {
	if state.local.ID == 0 {
		p.acquire(state)
	}
	state.sid = open
	return Step{Change: &kernel.Change{Put: kernel.State{
		Nexthops: state.endpoints(),
		Routes:   append(p.base(state), sidRoutes(state)...),
	}}}
}

// closeSID removes the remaining state of a lost peer. Without the locator's own route the
// SID stays a blackhole, or its packets would go wherever the main table says.
func (p *Planner) closeSID(state *peer) Step {
	change := kernel.Change{Remove: kernel.State{Routes: p.base(state)}}
	if p.config.SRv6.LocatorRoute {
		change.Remove.Routes = append(change.Remove.Routes, Drops(state.config, state.lookup)...)
	}
	for _, endpoint := range state.endpoints() {
		if object, gone := p.pool.Release(endpoint.ID); gone {
			change.Remove.Nexthops = append(change.Remove.Nexthops, object)
		}
	}
	state.local, state.enter, state.inner = kernel.Nexthop{}, kernel.Nexthop{}, kernel.Nexthop{}
	if p.config.SRv6.LocatorRoute {
		state.sid = closed
	}
	return Step{Change: &change}
}

// announcement announces prefixes of a group to servers, with large communities besides the
// peer's own.
func (p *Planner) announcement(state *peer, of group, prefixes []netip.Prefix, large ...speaker.LargeCommunity) Step {
	sent := of.attributes.ForServers()
	sent.NextHop = netip.Addr{} // ourselves
	if own := state.config.LocalPref; own != 0 {
		sent.LocalPref = own
	}
	targets := []srv6.RouteTarget{state.config.RT}
	if of.main {
		targets = append(targets, srv6.MainTarget(p.config.RouterID))
	}
	if of.port {
		targets = append(targets, srv6.PortTarget(p.config.RouterID))
	}
	communities := sent.Communities()
	large = slices.Clip(large)
	for _, own := range state.config.Communities {
		if own.Large {
			large = append(large, own.Parts)
		} else {
			communities = append(communities, own.Parts[0]<<16|own.Parts[1])
		}
	}
	if state.drain {
		communities = append(communities, gracefulShutdown)
	}
	service := srv6.Service{SID: state.config.SID, Behavior: srv6.EndDT6, Structure: p.config.SRv6.SIDLocator().Structure()}
	switch {
	case state.lookup == ByVRF:
		service.Behavior = srv6.EndDT46
	case state.lookup == ByPair && of.ipv4:
		service.SID, service.Behavior = state.config.IPv4SID, srv6.EndDT4
	}
	return Step{Announce: &speaker.VPNAnnouncement{
		RD:       state.config.RD,
		Route:    speaker.NewVPNRoute(service, sent.WithCommunities(communities...).WithLargeCommunities(large...), targets...),
		Prefixes: prefixes,
	}}
}

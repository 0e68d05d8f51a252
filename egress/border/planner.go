package border

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	"hikyaku/egress/config"
	"hikyaku/egress/fib"
	"hikyaku/egress/importpolicy"
	"hikyaku/egress/kernel"
	"hikyaku/egress/nexthop"
	"hikyaku/egress/rpki"
	"hikyaku/egress/speaker"
)

// Hop is where a next hop's packets go: by a device, to a neighbour on it.
type Hop struct {
	Device  string
	Gateway netip.Addr
}

// Options of a [Planner].
type Options struct {
	// Anchor is the device that endpoints hang on; see [kernel.Applier.EnsureAnchor].
	Anchor string
	// Lookup returns how packets for a peer get into its table.
	Lookup func(*config.Peer) Lookup
	// Pair names the two ends of the peer's pair of devices; see
	// [kernel.Applier.EnsurePair]. It is asked for peers that look up [ByPair].
	Pair func(*config.Peer) (enter, leave string)
	// Resolve finds the route to a peer's next hop. It is asked for each next hop of a
	// session, and again at each [Planner.ResolveAgain]. Routes with a next hop that cannot
	// be resolved are not used until then.
	Resolve func(peer *config.Peer, nextHop netip.Addr) (Hop, error)
	// ResolveInside finds the way to another border by interior routing, for
	// best paths. It is asked again likewise.
	ResolveInside func(nextHop netip.Addr) (Hop, error)
	// Main mirrors the main table; nil: servers get no message of how plain packets leave.
	Main *fib.Table
}

// Planner turns BGP's events into steps. It does no I/O besides Options.Resolve,
// and is not safe for concurrent use.
type Planner struct {
	config *config.Border
	opts   Options
	pool   *nexthop.Pool
	peers  map[string]*peer
	best   best
	// vrps validate the origins of routes, nil without a cache.
	vrps *rpki.Table
	// inside is the import policy for other borders' best paths.
	inside *importpolicy.Policy
	plain  plain
}

// New returns a planner that goes on from the kernel's state: have is all of ours there.
// Make [Planner.Want] the kernel's state first.
func New(c *config.Border, opts Options, have kernel.State) *Planner {
	p := &Planner{config: c, opts: opts, pool: nexthop.NewPool(have.Nexthops), peers: make(map[string]*peer)}
	p.best.hops = make(map[netip.Addr]resolution)
	p.inside = importpolicy.NewInside(c)
	p.plain.recheck, p.plain.uncovered = make(map[netip.Prefix]struct{}), make(map[netip.Prefix]struct{})
	byTable := make(map[uint32]*peer)
	for i := range c.Peers {
		state := p.newPeer(&c.Peers[i])
		p.peers[state.config.Name] = state
		byTable[state.config.Table] = state
		p.adoptEndpoint(state, have.Routes)
	}
	for _, r := range have.Routes {
		// With its SID closed nothing in a table is in use: it is made anew.
		state := byTable[r.Table]
		if state == nil || state.sid != open || r.Nexthop == 0 || r.Nexthop == state.inner.ID || !p.pool.Use(r.Nexthop) {
			continue
		}
		state.routes.Set(r.Prefix, route{have: r.Nexthop, stale: true})
	}
	p.adoptBest(have.Routes)
	p.pool.Prune()
	return p
}

// adoptEndpoint finds out whether a former run left the peer's SID open.
func (p *Planner) adoptEndpoint(state *peer, routes []kernel.Route) {
	id := p.pool.Find(p.local(state))
	i := slices.IndexFunc(routes, func(r kernel.Route) bool {
		return r.Table == kernel.MainTable && r.Prefix == host(state.config.SID)
	})
	if i < 0 || id == 0 || routes[i].Nexthop != id {
		return
	}
	p.acquire(state)
	state.sid = open
}

// PeerUp says that the session with a peer is established.
func (p *Planner) PeerUp(name string) {
	if state := p.peers[name]; state != nil && !state.removed {
		state.up, state.leftOut, state.failed, state.reason = true, false, nil, ""
		state.hops = make(map[netip.Addr]resolution)
		state.requeue(func(*route) {})
	}
}

// PeerDown says that the session ended, and why: nothing that the peer advertised
// holds any more.
func (p *Planner) PeerDown(name, reason string) {
	if state := p.peers[name]; state != nil {
		state.up, state.leftOut, state.reason = false, false, reason
		state.complete = false
		state.stop()
		state.refusals.forget()
	}
}

// Fail says why a peer's routes cannot be used, as a sentence: the peer is out of use until
// [Planner.Retry].
func (p *Planner) Fail(name string, err error) {
	if name == MainTable {
		p.setBestFailed(err)
	}
	if state := p.peers[name]; state != nil && state.failed == nil {
		state.failed = err
		state.lost = state.sid == open
		state.requeue(func(r *route) { r.stale = false })
	}
}

// Retry takes a peer that has failed into use again.
func (p *Planner) Retry(name string) {
	if name == MainTable {
		p.setBestFailed(nil)
	}
	if state := p.peers[name]; state != nil && state.failed != nil {
		state.failed = nil
		state.hops = make(map[netip.Addr]resolution)
		state.requeue(func(*route) {})
	}
}

// stop takes everything back.
func (p *peer) stop() {
	p.lost = p.sid == open
	p.beyond.forget()
	p.requeue(func(r *route) { r.want, r.stale, r.verdict = nil, false, 0 })
}

// isOwn reports whether a prefix has a route of our own in the peer's table.
func (p *peer) isOwn(prefix netip.Prefix) bool {
	return p.lookup == ByPair && prefix == host(p.config.IPv4SID)
}

func (p *Planner) resolve(state *peer, nextHop netip.Addr) resolution {
	found, ok := state.hops[nextHop]
	if !ok && state.crowded(nextHop) { // a best path of which the peer has no route here
		return resolution{err: errCrowded}
	}
	if !ok {
		found.hop, found.err = p.opts.Resolve(state.config, nextHop)
		state.hops[nextHop] = found
	}
	return found
}

var errCrowded = fmt.Errorf("the peer has more than %d next hops", maxNextHops)

// crowded reports whether a next hop would be one too many.
func (p *peer) crowded(nextHop netip.Addr) bool {
	return p.uses[nextHop] == 0 && max(len(p.uses), len(p.hops)) >= maxNextHops
}

// ResolveAgain resolves once more all next hops, of peers and inside of the AS. Interior
// routing may lead to a peer several hops away by another one now, and an address may have
// left a link. The affected routes are planned anew.
func (p *Planner) ResolveAgain() {
	p.resolveInsideAgain()
	for _, state := range p.peers {
		// A peer that has failed keeps its next hops, by whose devices it is found when
		// they come up, and gets new ones then.
		if !state.usable() {
			continue
		}
		changed := make(map[netip.Addr]bool)
		before := state.hops
		state.hops = make(map[netip.Addr]resolution, len(before))
		for nextHop, was := range before {
			now := p.resolve(state, nextHop)
			if now.hop != was.hop || (now.err == nil) != (was.err == nil) {
				changed[nextHop] = true
			}
		}
		if len(changed) == 0 {
			continue
		}
		p.resolveBestAgain(state)
		for prefix, r := range state.routes.All() {
			if r.used() && changed[r.want.NextHop] {
				state.enqueue(prefix, r, r)
			}
		}
	}
}

// EndOfRIB says that the peer has sent all of a family: stale routes go.
func (p *Planner) EndOfRIB(name string, family speaker.Family) {
	state := p.peers[name]
	if state == nil {
		return
	}
	for prefix, was := range state.routes.All() {
		if was.stale && prefix.Addr().Is4() == (family == speaker.IPv4Unicast) {
			state.withdraw(prefix, was)
		}
	}
}

// Complete says that the peer has sent all of every family.
func (p *Planner) Complete(name string) {
	if state := p.peers[name]; state != nil {
		state.complete = state.up
	}
}

// Expire ends the patience with the state of a former run. Peers that did not come back are
// lost, and routes that the others have not announced go.
func (p *Planner) Expire() {
	p.expireBest()
	for _, state := range p.peers {
		if !state.up && state.sid == open {
			state.stop()
			continue
		}
		for prefix, was := range state.routes.All() {
			if was.stale {
				state.withdraw(prefix, was)
			}
		}
	}
}

// gracefulShutdown is GRACEFUL_SHUTDOWN (RFC 8326 §5).
const gracefulShutdown = 65535 << 16

// SetDrain asks servers to begin nothing new over a peer, by the community
// GRACEFUL_SHUTDOWN (RFC 8326) on its routes, or ends that. Connections in progress go on.
func (p *Planner) SetDrain(name string, drain bool) error {
	state := p.peers[name]
	if state == nil {
		return fmt.Errorf("draining %q: no peer has this name", name)
	}
	if state.drain != drain {
		state.drain = drain
		state.announceAgain()
	}
	return nil
}

// Names returns the names of all peers, sorted.
func (p *Planner) Names() []string {
	names := make([]string, 0, len(p.peers))
	for name := range p.peers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Want returns all that the kernel shall hold now.
func (p *Planner) Want() kernel.State {
	state := kernel.State{Nexthops: p.pool.List()}
	if p.config.SRv6.LocatorRoute {
		state.Routes = append(state.Routes, p.locatorRoute())
	}
	for _, name := range p.Names() {
		peer := p.peers[name]
		state.Rules = append(state.Rules, p.pairRules(peer)...)
		if peer.local.ID != 0 {
			state.Routes = append(state.Routes, p.base(peer)...)
		}
		switch peer.sid {
		case open:
			state.Routes = append(state.Routes, sidRoutes(peer)...)
		case dropped:
			for _, r := range Drops(peer.config, peer.lookup) {
				r.Type = kernel.Blackhole
				state.Routes = append(state.Routes, r)
			}
		}
		for prefix, r := range peer.routes.All() {
			if r.have != 0 {
				state.Routes = append(state.Routes, tableRoute(peer, prefix, r.have))
			}
		}
	}
	for prefix, r := range p.best.routes.All() {
		if r.have != 0 {
			state.Routes = append(state.Routes, mainRoute(prefix, r.have))
		}
	}
	return state
}

func (p *Planner) locatorRoute() kernel.Route {
	return kernel.Route{Prefix: p.config.SRv6.Locator, Table: kernel.MainTable, Type: kernel.Blackhole}
}

// base are the routes of a peer's table besides those that the peer advertises. They catch
// all other prefixes: without them a lookup by VRF would go on to the main table. The SID
// itself is an address of this machine there, so that servers can send probes through it
// (see package oam). Behind a VRF the kernel would send its answers to the peer.
func (p *Planner) base(state *peer) []kernel.Route {
	kind := dropTypes[p.config.Kernel.Drop]
	routes := []kernel.Route{{Prefix: allIPv6, Table: state.config.Table, Metric: math.MaxUint32, Type: kind}}
	if state.lookup != ByTable {
		routes = append(routes, kernel.Route{Prefix: allIPv4, Table: state.config.Table, Metric: math.MaxUint32, Type: kind})
	}
	if state.lookup == ByPair {
		routes = append(routes, tableRoute(state, host(state.config.IPv4SID), state.inner.ID))
	}
	if state.lookup != ByVRF {
		routes = append(routes, kernel.Route{Prefix: host(state.config.SID), Table: state.config.Table, Type: kernel.Delivery})
	}
	return routes
}

// local is the object behind a peer's open SID, without its number.
func (p *Planner) local(state *peer) kernel.Nexthop {
	local := kernel.Local{Action: kernel.EndDT6, Table: state.config.Table}
	if state.lookup == ByVRF {
		local.Action, local.VRF = kernel.EndDT46, true
	}
	return kernel.Nexthop{Family: kernel.IPv6, Device: p.opts.Anchor, Local: local}
}

// sidRoutes are the routes of a peer's open SIDs.
func sidRoutes(state *peer) []kernel.Route {
	routes := []kernel.Route{{Prefix: host(state.config.SID), Table: kernel.MainTable, Nexthop: state.local.ID}}
	if state.lookup == ByPair {
		routes = append(routes, kernel.Route{Prefix: host(state.config.IPv4SID), Table: kernel.MainTable, Nexthop: state.enter.ID})
	}
	return routes
}

func tableRoute(state *peer, prefix netip.Prefix, id kernel.NexthopID) kernel.Route {
	return kernel.Route{Prefix: prefix, Table: state.config.Table, Nexthop: id}
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

var (
	allIPv6 = netip.MustParsePrefix("::/0")
	allIPv4 = netip.MustParsePrefix("0.0.0.0/0")
)

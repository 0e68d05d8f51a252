package endpoint

import (
	"fmt"
	"net/netip"
	"slices"

	"hikyaku/egress/config"
	"hikyaku/egress/fib"
	"hikyaku/egress/kernel"
	"hikyaku/egress/nexthop"
	"hikyaku/egress/port"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

// Options of a [Planner].
type Options struct {
	// Anchor returns the device for the SRv6 nexthops of a border's paths, with the MTU of
	// the way to the border. See [kernel.Applier.EnsureAnchor].
	Anchor func(border netip.Addr) string
	// Main mirrors the main table, which plain packets follow; nil: their path is unknown.
	Main *fib.Table
	// Dead returns why packets to a SID are known to be lost, nil where they are not; nil: it is
	// never known.
	Dead func(sid netip.Addr) error
}

// Planner turns VPN routes into kernel changes. It does no I/O and is not safe for
// concurrent use.
type Planner struct {
	config *config.Server
	opts   Options
	pool   *nexthop.Pool
	paths  map[string]*path
	byRD   map[srv6.RouteDistinguisher]*path
	plain  plain
	// reflected has the best paths of reflectors, by their names.
	reflected map[string]*reflected
}

// New returns a planner that goes on from the kernel's state: have is all of ours there.
// Make [Planner.Want] the kernel's state first.
func New(c *config.Server, opts Options, have kernel.State) *Planner {
	p := &Planner{
		config: c, opts: opts, pool: nexthop.NewPool(have.Nexthops),
		paths: make(map[string]*path), byRD: make(map[srv6.RouteDistinguisher]*path),
		reflected: make(map[string]*reflected),
	}
	p.preparePlain(opts.Main)
	objects := make(map[kernel.NexthopID]kernel.Nexthop)
	for _, n := range have.Nexthops {
		objects[n.ID] = n
	}
	byTable := make(map[uint32]*path)
	for i := range c.Paths {
		state := newPath(&c.Paths[i], true)
		p.paths[state.config.Name] = state
		p.byRD[state.config.RD] = state
		byTable[state.config.Table] = state
	}
	for _, r := range have.Routes {
		state, object := byTable[r.Table], objects[r.Nexthop]
		if state == nil || object != p.object(state, r.Prefix, object.SID, object.ID) || !p.trusted(object.SID) {
			continue
		}
		p.pool.Use(r.Nexthop)
		p.noteSID(state, r.Prefix, object.SID)
		state.routes.Set(r.Prefix, route{have: r.Nexthop, stale: true})
	}
	p.pool.Prune()
	return p
}

// object is the nexthop of a path's routes.
func (p *Planner) object(state *path, prefix netip.Prefix, sid netip.Addr, id kernel.NexthopID) kernel.Nexthop {
	return kernel.Nexthop{
		ID: id, Family: kernel.FamilyOf(prefix.Addr()), Device: p.opts.Anchor(state.config.Border), Encap: kernel.Encap, SID: sid,
	}
}

// trusted reports whether a SID lies in one of the borders' locators.
func (p *Planner) trusted(sid netip.Addr) bool {
	locators := p.config.SRv6.Locators
	return len(locators) == 0 || slices.ContainsFunc(locators, func(l netip.Prefix) bool { return l.Contains(sid) })
}

// gracefulShutdown is GRACEFUL_SHUTDOWN (RFC 8326 §5).
const gracefulShutdown = 65535 << 16

// Learned takes VPN routes that are new or changed. Those of no path of ours are
// ignored.
func (p *Planner) Learned(event speaker.VPNLearned) {
	state := p.byRD[event.RD]
	if state == nil {
		p.learnedItself(event)
		return
	}
	if !event.Route.HasTarget(state.config.RT) || !p.trusted(event.Route.Service.SID) {
		p.withdraw(state, event.Prefixes)
		for _, prefix := range event.Prefixes {
			state.strange[prefix] = struct{}{}
		}
		return
	}
	draining := slices.Contains(event.Route.Attributes.Communities(), gracefulShutdown)
	for _, prefix := range event.Prefixes {
		delete(state.strange, prefix)
		if prefix == marker(event.Route.Service.SID) {
			state.lost, state.marker = false, prefix
			state.port = p.portOf(event.Route)
			state.portStripped = state.port == nil && event.Route.HasTarget(srv6.PortTarget(state.config.Border))
			continue
		}
		was, _ := state.routes.Get(prefix)
		if was.want == nil && state.count.ipv6+state.count.ipv4 >= int(p.config.Limits.RoutesPerPath) {
			state.refused[prefix] = struct{}{}
			continue
		}
		delete(state.refused, prefix)
		now := was
		now.want, now.draining, now.stale = event.Route, draining, false
		state.enqueue(prefix, was, now)
	}
	if len(event.Prefixes) > 0 {
		p.noteSID(state, event.Prefixes[0], event.Route.Service.SID)
	}
}

// noteSID notes the SID of a route. Whether packets to another one than before are lost must be
// known before the first one is sent.
func (p *Planner) noteSID(state *path, prefix netip.Prefix, sid netip.Addr) {
	before := state.anySID()
	state.noteSID(prefix, sid)
	if now := state.anySID(); now != before && p.opts.Dead != nil {
		state.dead = p.opts.Dead(now)
	}
}

// Withdrawn takes VPN routes that nobody announces any more. They carry no target,
// so the distinguisher identifies the path.
func (p *Planner) Withdrawn(event speaker.VPNWithdrawn) {
	if state := p.byRD[event.RD]; state != nil {
		if state.marker.IsValid() && slices.Contains(event.Prefixes, state.marker) {
			state.lost, state.port, state.portStripped = true, nil, false
		}
		p.withdraw(state, event.Prefixes)
	}
	if border, known := p.plain.itself[event.RD]; known {
		p.setAddresses(border, event.Prefixes, false)
	}
}

// portOf reads the state of a path's port from its marker.
func (p *Planner) portOf(route *speaker.VPNRoute) *port.State {
	var list []port.LargeCommunity
	for _, c := range route.Attributes.LargeCommunities() {
		list = append(list, c)
	}
	if state, ok := port.FromCommunities(list, p.config.ASN); ok {
		return &state
	}
	return nil
}

// marker is the route that stands for the whole path, as border.Marker does. Its withdrawal
// comes before that of 200,000 others, and takes the path out of use. Borders that do not
// announce it have their routes withdrawn one by one.
func marker(sid netip.Addr) netip.Prefix { return netip.PrefixFrom(sid, sid.BitLen()) }

func (p *Planner) withdraw(state *path, prefixes []netip.Prefix) {
	for _, prefix := range prefixes {
		delete(state.refused, prefix)
		delete(state.strange, prefix)
		state.withdraw(prefix)
	}
}

// Settled says that a path's routes are complete: stale ones go.
func (p *Planner) Settled(rd srv6.RouteDistinguisher) {
	if state := p.byRD[rd]; state != nil {
		state.expire()
	}
}

// Expire ends the patience with the state of a former run.
func (p *Planner) Expire() {
	for _, state := range p.paths {
		state.expire()
	}
}

// Block takes a path out of use, whatever is announced. The reason is that its border
// cannot be reached or the kernel does not take its routes; a nil reason ends that.
func (p *Planner) Block(name string, reason error) {
	if state := p.paths[name]; state != nil && !state.removed {
		p.block(state, reason)
	}
}

func (p *Planner) block(state *path, reason error) {
	changed := (state.blocked == nil) != (reason == nil)
	state.blocked = reason
	if changed {
		state.requeue()
	}
}

// SetDead takes a path out of use, in one step, since packets to its SID are lost. Its routes
// stay in the table and are kept up to date. A nil reason ends that.
func (p *Planner) SetDead(name string, reason error) {
	if state := p.paths[name]; state != nil {
		state.dead = reason
	}
}

// SetDrain asks for nothing new over a path. The kernel's routes stay as they are,
// for connections that use the path already.
func (p *Planner) SetDrain(name string, drain bool) error {
	state := p.paths[name]
	if state == nil {
		return fmt.Errorf("draining %q: no path has this name", name)
	}
	state.drain = drain
	return nil
}

// Names returns the names of all paths, sorted.
func (p *Planner) Names() []string {
	names := make([]string, 0, len(p.paths))
	for name := range p.paths {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Want returns all that the kernel shall hold now.
func (p *Planner) Want() kernel.State {
	state := kernel.State{
		Nexthops:     p.pool.List(),
		TunnelSource: kernel.TunnelSource{Addr: p.config.SRv6.TunnelSource},
	}
	for _, name := range p.Names() {
		path := p.paths[name]
		state.Addresses = append(state.Addresses, p.addresses(path.config)...)
		if path.entered {
			state.Rules = append(state.Rules, p.enter(path.config)...)
		}
		state.Rules = append(state.Rules, p.stop(path.config)...)
		for prefix, r := range path.routes.All() {
			if r.have != 0 {
				state.Routes = append(state.Routes, kernel.Route{Prefix: prefix, Table: path.config.Table, Nexthop: r.have})
			}
		}
	}
	return state
}

// addresses are the EPE addresses of a path.
func (p *Planner) addresses(c *config.Path) (list []kernel.Address) {
	for _, a := range c.Addresses {
		list = append(list, kernel.Address{
			Device: p.config.SRv6.Interface, Prefix: netip.PrefixFrom(a, a.BitLen()),
			Deprecated: true, NoDAD: a.Is6(),
		})
	}
	return list
}

// Priorities of rules, counted from the configured one.
const (
	fromAddress = iota // packets from an EPE address take its path
	dropRest           // or none
	byMark             // marked packets take its path or the plain way
)

var dropActions = map[config.Drop]kernel.RuleAction{
	config.DropBlackhole:   kernel.RuleBlackhole,
	config.DropUnreachable: kernel.RuleUnreachable,
	config.DropProhibit:    kernel.RuleProhibit,
}

// enter are the rules that lead packets into a path's table.
func (p *Planner) enter(c *config.Path) []kernel.Rule {
	first := p.config.Kernel.RulePriority
	var rules []kernel.Rule
	for _, a := range c.Addresses {
		rules = append(rules, kernel.Rule{
			Family: kernel.FamilyOf(a), Priority: first + fromAddress, From: netip.PrefixFrom(a, a.BitLen()),
			Table: c.Table, Action: kernel.Lookup,
		})
	}
	for _, family := range []kernel.Family{kernel.IPv6, kernel.IPv4} {
		rules = append(rules, kernel.Rule{
			Family: family, Priority: first + byMark, Mark: c.Mark, Mask: p.config.Kernel.MarkMask,
			Table: c.Table, Action: kernel.Lookup,
		})
	}
	return rules
}

// stop are the rules for packets that come from an EPE address and found no route.
func (p *Planner) stop(c *config.Path) []kernel.Rule {
	var rules []kernel.Rule
	for _, a := range c.Addresses {
		rules = append(rules, kernel.Rule{
			Family: kernel.FamilyOf(a), Priority: p.config.Kernel.RulePriority + dropRest,
			From: netip.PrefixFrom(a, a.BitLen()), Action: dropActions[p.config.Kernel.Drop],
		})
	}
	return rules
}

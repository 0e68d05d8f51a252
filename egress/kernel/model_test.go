package kernel

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
)

// model follows the kernel's rules for one operation at a time.
type model struct {
	tunnelSource TunnelSource
	nexthops     map[NexthopID]Nexthop
	routes       map[RouteKey]Route
	rules        map[Rule]bool
	addresses    map[addressKey]Address
}

func newModel(s State) *model {
	m := &model{
		tunnelSource: s.TunnelSource, nexthops: make(map[NexthopID]Nexthop), routes: make(map[RouteKey]Route),
		rules: make(map[Rule]bool), addresses: make(map[addressKey]Address),
	}
	for _, n := range s.Nexthops {
		m.nexthops[n.ID] = n
	}
	for _, r := range s.Routes {
		m.routes[r.Key()] = r.normal()
	}
	for _, r := range s.Rules {
		m.rules[r.normal()] = true
	}
	for _, a := range s.Addresses {
		m.addresses[addressKey{a.Device, a.Prefix.Addr()}] = a
	}
	return m
}

// apply does op or says why the kernel would not.
func (m *model) apply(op Op) error {
	switch o := op.Object.(type) {
	case TunnelSource:
		m.tunnelSource = o
	case Nexthop:
		return m.nexthop(op, o)
	case Route:
		return m.route(op, o)
	case Rule:
		if err := allowed(op, m.rules[o.normal()]); err != nil {
			return err
		}
		m.rules[o.normal()] = true
		if op.Verb == Delete {
			delete(m.rules, o.normal())
		}
	case Address:
		key := addressKey{o.Device, o.Prefix.Addr()}
		old, there := m.addresses[key]
		if err := allowed(op, there); err != nil {
			return err
		}
		if op.Verb == Replace && old.Prefix != o.Prefix {
			return fmt.Errorf("%s: the length changes", op)
		}
		m.addresses[key] = o
		if op.Verb == Delete {
			delete(m.addresses, key)
		}
	}
	return nil
}

func (m *model) nexthop(op Op, n Nexthop) error {
	old, there := m.nexthops[n.ID]
	if err := allowed(op, there); err != nil {
		return err
	}
	if op.Verb == Replace && old.Family != n.Family {
		return fmt.Errorf("%s: the family changes", op)
	}
	if op.Verb == Delete {
		delete(m.nexthops, n.ID)
		maps.DeleteFunc(m.routes, func(_ RouteKey, r Route) bool { return r.Nexthop == n.ID })
		return nil
	}
	m.nexthops[n.ID] = n
	return nil
}

func (m *model) route(op Op, r Route) error {
	_, there := m.routes[r.Key()]
	if err := allowed(op, there); err != nil {
		return err
	}
	if op.Verb == Delete {
		delete(m.routes, r.Key())
		return nil
	}
	if n, ok := m.nexthops[r.Nexthop]; r.Nexthop != 0 && (!ok || n.Family != FamilyOf(r.Prefix.Addr())) {
		return fmt.Errorf("%s: no such nexthop for this family", op)
	}
	m.routes[r.Key()] = r.normal()
	return nil
}

// allowed is stricter than the kernel, which would let a Replace create.
func allowed(op Op, there bool) error {
	if there == (op.Verb == Add) {
		return fmt.Errorf("%s: something is there: %t", op, there)
	}
	return nil
}

func (m *model) state() State {
	s := State{
		TunnelSource: m.tunnelSource,
		Nexthops:     slices.SortedFunc(maps.Values(m.nexthops), compareNexthops),
		Routes:       slices.SortedFunc(maps.Values(m.routes), compareRoutes),
		Rules:        slices.SortedFunc(maps.Keys(m.rules), compareRules),
		Addresses:    slices.SortedFunc(maps.Values(m.addresses), compareAddresses),
	}
	return s
}

// outcome is the fate of a route's packets: a nexthop by value, or the type. The
// zero value is none.
type outcome struct {
	kind RouteType
	hop  Nexthop
}

func (m *model) outcome(key RouteKey) outcome {
	r := m.routes[key]
	if r.Type != Unicast {
		return outcome{kind: r.Type}
	}
	hop := m.nexthops[r.Nexthop]
	hop.ID = 0
	return outcome{Unicast, hop}
}

// randomState draws from so few keys that two states collide often, and breaks no
// rule of the kernel. The devices must exist where it is applied.
func randomState(rng *rand.Rand, devices ...string) State {
	m := newModel(State{})
	if rng.IntN(2) == 0 {
		m.tunnelSource = TunnelSource{addr(fmt.Sprintf("2001:db8::%d", 1+rng.IntN(2)))}
	}
	m.randomNexthops(rng, devices)
	m.randomRoutes(rng)
	m.randomRules(rng)
	for range rng.IntN(4) {
		a := Address{Device: devices[rng.IntN(len(devices))], NoDAD: true, Deprecated: rng.IntN(2) == 0}
		a.Prefix = netip.PrefixFrom(addr(fmt.Sprintf("2001:db8:eeee::%d", 1+rng.IntN(3))), 128-64*rng.IntN(2))
		m.addresses[addressKey{a.Device, a.Prefix.Addr()}] = a
	}
	return m.state()
}

func (m *model) randomNexthops(rng *rand.Rand, devices []string) {
	device := func() string { return devices[rng.IntN(len(devices))] }
	for range rng.IntN(6) {
		n := Nexthop{ID: FirstNexthopID + NexthopID(rng.IntN(6)), Family: IPv6}
		switch rng.IntN(5) {
		case 0:
			n.Blackhole = true
		case 1:
			n.Device, n.Local = device(), Local{Action: EndDT6, Table: uint32(900 + rng.IntN(2))}
		case 2:
			n.Family, n.Device = IPv4, device()
			n.Encap, n.SID = Encap, addr("fc00::4")
		default:
			n.Device, n.Encap = device(), Encap
			n.SID = addr(fmt.Sprintf("fc00::%d", 1+rng.IntN(3)))
		}
		m.nexthops[n.ID] = n
	}
}

func (m *model) randomRoutes(rng *rand.Rand) {
	ids := slices.Sorted(maps.Keys(m.nexthops))
	for range rng.IntN(12) {
		r := Route{Type: Blackhole, Table: uint32(900 + rng.IntN(2)), Metric: uint32(rng.IntN(2) * 7)}
		family := IPv6
		if rng.IntN(4) > 0 && len(ids) > 0 {
			id := ids[rng.IntN(len(ids))]
			r.Type, r.Nexthop, family = Unicast, id, m.nexthops[id].Family
			r.MTU = uint32(rng.IntN(2) * 1400)
		}
		r.Prefix = prefix(fmt.Sprintf("2001:db8:%d::/48", rng.IntN(4)))
		if family == IPv4 {
			r.Prefix = prefix(fmt.Sprintf("198.51.%d.0/24", rng.IntN(4)))
		}
		m.routes[r.Key()] = r
	}
}

func (m *model) randomRules(rng *rand.Rand) {
	for range rng.IntN(5) {
		source := netip.PrefixFrom(addr(fmt.Sprintf("2001:db8:ffff::%d", rng.IntN(2))), 128)
		r := Rule{Family: IPv6, Priority: uint32(500 + rng.IntN(3)), From: source, Table: uint32(900 + rng.IntN(2))}
		switch rng.IntN(3) {
		case 0:
			r.Action, r.Table = RuleUnreachable, 0
		case 1:
			r.From, r.Mark = netip.Prefix{}, uint32(1+rng.IntN(2))
		}
		m.rules[r.normal()] = true
	}
}

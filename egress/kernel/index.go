package kernel

import (
	"encoding/binary"
	"maps"
	"net/netip"
)

// index is a state by its keys. A route takes 32 bytes and no pointer, so that the
// garbage collector does not walk through full tables.
type index struct {
	tunnelSource TunnelSource
	nexthops     map[NexthopID]Nexthop
	rules        map[Rule]struct{}
	addresses    map[addressKey]Address
	tables       map[uint32]*table
	ways         []way
	byWay        map[way]uint32
}

// table holds, for each route, the number of its action in ways.
type table struct {
	routes map[routeKey]uint32
	// users counts the routes of each nexthop.
	users map[NexthopID]int
}

type addressKey struct {
	device string
	addr   netip.Addr
}

// routeKey is a prefix and metric without a pointer.
type routeKey struct {
	high, low uint64
	metric    uint32
	bits      uint8
	family    Family
}

// way is the action of a route, beside its key: few are unlike.
type way struct {
	nexthop     NexthopID
	mtu, advMSS uint32
	kind        RouteType
}

func newIndex() index {
	return index{
		nexthops:  make(map[NexthopID]Nexthop),
		rules:     make(map[Rule]struct{}),
		addresses: make(map[addressKey]Address),
		tables:    make(map[uint32]*table),
		byWay:     make(map[way]uint32),
	}
}

func (x *index) load(s State) {
	x.tunnelSource = s.TunnelSource
	for _, n := range s.Nexthops {
		x.record(Op{Add, n})
	}
	for _, r := range s.Routes {
		x.record(Op{Add, r})
	}
	for _, r := range s.Rules {
		x.record(Op{Add, r})
	}
	for _, a := range s.Addresses {
		x.record(Op{Add, a})
	}
}

// record makes the change in the index that op has made in the kernel.
func (x *index) record(op Op) {
	switch o := op.Object.(type) {
	case TunnelSource:
		x.tunnelSource = o
	case Route:
		x.recordRoute(o.normal(), op.Verb)
	case Nexthop:
		if op.Verb != Delete {
			x.nexthops[o.ID] = o
			return
		}
		delete(x.nexthops, o.ID)
		x.forgetRoutesOf(o.ID)
	case Rule:
		if op.Verb == Delete {
			delete(x.rules, o.normal())
		} else {
			x.rules[o.normal()] = struct{}{}
		}
	case Address:
		key := addressKey{o.Device, o.Prefix.Addr()}
		if op.Verb == Delete {
			delete(x.addresses, key)
		} else {
			x.addresses[key] = o.normal()
		}
	}
}

func (x *index) recordRoute(r Route, verb Verb) {
	t, key := x.tables[r.Table], packKey(r.Prefix, r.Metric)
	if t == nil {
		t = &table{routes: make(map[routeKey]uint32), users: make(map[NexthopID]int)}
		x.tables[r.Table] = t
	}
	if old, ok := t.routes[key]; ok {
		t.users[x.ways[old].nexthop]--
	}
	if verb == Delete {
		delete(t.routes, key)
		x.tidy(r.Table)
		return
	}
	t.routes[key] = x.way(way{r.Nexthop, r.MTU, r.AdvMSS, r.Type})
	t.users[r.Nexthop]++
}

// way returns the number of w, a new one if it has none.
func (x *index) way(w way) uint32 {
	number, known := x.byWay[w]
	if !known {
		number = uint32(len(x.ways))
		x.ways = append(x.ways, w)
		x.byWay[w] = number
	}
	return number
}

// forgetRoutesOf follows the kernel, which removes a nexthop's routes with it. A
// peer's table goes as a whole: all its routes have one nexthop.
func (x *index) forgetRoutesOf(id NexthopID) {
	for number, t := range x.tables {
		switch t.users[id] {
		case 0:
			continue
		case len(t.routes):
			t.routes = nil
		default:
			maps.DeleteFunc(t.routes, func(_ routeKey, w uint32) bool { return x.ways[w].nexthop == id })
		}
		delete(t.users, id)
		x.tidy(number)
	}
}

// tidy frees a table that has become empty.
func (x *index) tidy(number uint32) {
	if len(x.tables[number].routes) == 0 {
		delete(x.tables, number)
	}
}

func (x *index) routes(number uint32) map[routeKey]uint32 {
	if t := x.tables[number]; t != nil {
		return t.routes
	}
	return nil
}

func (x *index) route(key RouteKey) (Route, bool) {
	packed := packKey(key.Prefix, key.Metric)
	w, ok := x.routes(key.Table)[packed]
	if !ok {
		return Route{}, false
	}
	return x.unpack(key.Table, packed, w), true
}

func (x *index) unpack(table uint32, key routeKey, number uint32) Route {
	w := x.ways[number]
	return Route{
		Prefix: key.prefix(), Table: table, Metric: key.metric,
		Nexthop: w.nexthop, MTU: w.mtu, AdvMSS: w.advMSS, Type: w.kind,
	}
}

// state returns everything, in any order.
func (x *index) state() State {
	s := State{TunnelSource: x.tunnelSource}
	for _, n := range x.nexthops {
		s.Nexthops = append(s.Nexthops, n)
	}
	for r := range x.rules {
		s.Rules = append(s.Rules, r)
	}
	for _, a := range x.addresses {
		s.Addresses = append(s.Addresses, a)
	}
	for number, t := range x.tables {
		for key, w := range t.routes {
			s.Routes = append(s.Routes, x.unpack(number, key, w))
		}
	}
	return s
}

// named returns those of the objects which the change names by their keys, but for
// its routes.
func (x *index) named(change Change) State {
	s := State{TunnelSource: x.tunnelSource}
	for _, part := range []State{change.Put, change.Remove} {
		for _, n := range part.Nexthops {
			if held, ok := x.nexthops[n.ID]; ok {
				s.Nexthops = append(s.Nexthops, held)
			}
		}
		for _, r := range part.Rules {
			if _, ok := x.rules[r.normal()]; ok {
				s.Rules = append(s.Rules, r)
			}
		}
		for _, a := range part.Addresses {
			if held, ok := x.addresses[addressKey{a.Device, a.Prefix.Addr()}]; ok {
				s.Addresses = append(s.Addresses, held)
			}
		}
	}
	return s
}

// namedRoutes appends those of the routes that are held, by their keys.
func (x *index) namedRoutes(to, routes []Route) []Route {
	for _, r := range routes {
		if held, ok := x.route(r.Key()); ok {
			to = append(to, held)
		}
	}
	return to
}

// lost returns the held state that was removed, as it was then, and the routes of nexthops
// that were. It returns nothing on devices that are not up.
func (x *index) lost(removed State, up map[string]bool) State {
	var s State
	gone := make(map[NexthopID]bool)
	onUp := func(n Nexthop) bool { return n.Blackhole || up[n.Device] }
	for _, n := range removed.Nexthops {
		if held, ok := x.nexthops[n.ID]; ok && !gone[n.ID] && onUp(held) {
			gone[n.ID] = true
			s.Nexthops = append(s.Nexthops, held)
		}
	}
	for id := range gone {
		s.Routes = append(s.Routes, x.routesOf(id)...)
	}
	for _, r := range removed.Routes {
		held, ok := x.route(r.Key())
		// One that was changed since is there: its removal was reported late.
		if ok && held == r && !gone[r.Nexthop] && (r.Nexthop == 0 || onUp(x.nexthops[r.Nexthop])) {
			s.Routes = append(s.Routes, held)
		}
	}
	for _, r := range removed.Rules {
		if _, ok := x.rules[r]; ok {
			s.Rules = append(s.Rules, r)
		}
	}
	for _, a := range removed.Addresses {
		if held, ok := x.addresses[addressKey{a.Device, a.Prefix.Addr()}]; ok && up[a.Device] {
			s.Addresses = append(s.Addresses, held)
		}
	}
	return s
}

func (x *index) routesOf(id NexthopID) []Route {
	var routes []Route
	for number, t := range x.tables {
		if t.users[id] == 0 {
			continue
		}
		for key, w := range t.routes {
			if x.ways[w].nexthop == id {
				routes = append(routes, x.unpack(number, key, w))
			}
		}
	}
	return routes
}

// forget makes the change in the index that the removal of all in s has made in the kernel.
func (x *index) forget(s State) {
	for _, r := range s.Routes {
		if _, ok := x.route(r.Key()); ok {
			x.record(Op{Delete, r})
		}
	}
	for _, n := range s.Nexthops {
		x.record(Op{Delete, n})
	}
	for _, r := range s.Rules {
		x.record(Op{Delete, r})
	}
	for _, a := range s.Addresses {
		x.record(Op{Delete, a})
	}
}

func packKey(p netip.Prefix, metric uint32) routeKey {
	raw := p.Addr().As16()
	return routeKey{
		high: binary.BigEndian.Uint64(raw[:]), low: binary.BigEndian.Uint64(raw[8:]),
		metric: metric, bits: uint8(p.Bits()), family: FamilyOf(p.Addr()),
	}
}

func (k routeKey) prefix() netip.Prefix {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:], k.high)
	binary.BigEndian.PutUint64(raw[8:], k.low)
	addr := netip.AddrFrom16(raw)
	if k.family == IPv4 {
		addr = addr.Unmap()
	}
	return netip.PrefixFrom(addr, int(k.bits))
}

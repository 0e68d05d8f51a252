// Package fib mirrors a main routing table: where the kernel sends packets that no rule of
// the egress plane concerns. [Table] takes what package kernel reads, and does no I/O.
package fib

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/gaissmai/bart"

	"hikyaku/egress/kernel"
)

// Hops are the next hops of a route, each once. Routes of one table with the same next hops
// have the same *Hops. There are no next hops where a route drops packets.
type Hops struct {
	List []kernel.MainHop
	key  string // of several
	uses int
}

// Table is a main table. It is safe for concurrent use.
type Table struct {
	// News gets a value when [Table.Take] has something to return.
	News chan struct{}

	mu sync.RWMutex
	// best has the route of the lowest metric for each prefix.
	best bart.Table[route]
	// others has all routes, by their metric, of the prefixes that have several.
	others map[netip.Prefix][]route
	// single and several are the next hops in use, of routes with one and of others.
	single  map[kernel.MainHop]*Hops
	several map[string]*Hops
	// reading counts the readings of each family. A route of an earlier one is void.
	reading map[kernel.Family]uint32
	known   map[kernel.Family]bool
	changed map[netip.Prefix]struct{}
	many    bool
}

type route struct {
	hops    *Hops
	metric  uint32
	reading uint32
}

// maxChanged bounds the changed prefixes that are remembered one by one.
const maxChanged = 1 << 17

// New returns an empty table.
func New() *Table {
	return &Table{
		News: make(chan struct{}, 1), others: make(map[netip.Prefix][]route), single: make(map[kernel.MainHop]*Hops), several: make(map[string]*Hops),
		reading: make(map[kernel.Family]uint32), known: make(map[kernel.Family]bool),
		changed: make(map[netip.Prefix]struct{}),
	}
}

// Begin implements [kernel.MainWatcher].
func (t *Table) Begin(family kernel.Family) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading[family]++
}

// End implements [kernel.MainWatcher]. Routes that were not read again are gone.
func (t *Table) End(family kernel.Family) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.best.All6()
	if family == kernel.IPv4 {
		all = t.best.All4()
	}
	var void []netip.Prefix
	for prefix, best := range all {
		list := t.routes(prefix, best)
		if slices.ContainsFunc(list, t.isVoid(family)) {
			void = append(void, prefix)
		}
	}
	for _, prefix := range void {
		best, _ := t.best.Get(prefix)
		t.store(prefix, slices.DeleteFunc(slices.Clone(t.routes(prefix, best)), t.isVoid(family)))
	}
	t.known[family] = true
}

func (t *Table) isVoid(family kernel.Family) func(route) bool {
	return func(r route) bool { return r.reading != t.reading[family] }
}

// routes are those of a prefix, of which best is the first.
func (t *Table) routes(prefix netip.Prefix, best route) []route {
	if list, several := t.others[prefix]; several {
		return list
	}
	return []route{best}
}

// Put implements [kernel.MainWatcher].
func (t *Table) Put(r kernel.MainRoute, replaces bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	family := kernel.FamilyOf(r.Prefix.Addr())
	list, i := t.find(r)
	hops := r.Hops
	switch {
	case list == nil: // as most are
		first := route{hops: t.intern(hops), metric: r.Metric, reading: t.reading[family]}
		first.hops.uses++
		t.best.Insert(r.Prefix, first)
		t.note(r.Prefix)
		return
	case i < 0:
		list = append(list, route{metric: r.Metric})
		i = len(list) - 1
	default:
		if before := list[i]; !replaces && before.reading == t.reading[family] && len(hops) > 0 {
			hops = slices.Concat(before.hops.List, hops)
		}
	}
	list[i].hops, list[i].reading = t.intern(hops), t.reading[family]
	t.store(r.Prefix, list)
}

// Delete implements [kernel.MainWatcher].
func (t *Table) Delete(r kernel.MainRoute) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list, i := t.find(r)
	if i < 0 {
		return
	}
	left := slices.DeleteFunc(slices.Clone(list[i].hops.List), func(h kernel.MainHop) bool { return slices.Contains(r.Hops, h) })
	if len(left) == 0 || len(r.Hops) == 0 {
		list = slices.Delete(list, i, i+1)
	} else {
		list[i].hops = t.intern(left)
	}
	t.store(r.Prefix, list)
}

// find returns a copy of a prefix's routes, and the place of that with the same metric, or
// a number below zero.
func (t *Table) find(r kernel.MainRoute) ([]route, int) {
	best, known := t.best.Get(r.Prefix)
	if !known {
		return nil, -1
	}
	list := slices.Clone(t.routes(r.Prefix, best))
	return list, slices.IndexFunc(list, func(other route) bool { return other.metric == r.Metric })
}

// store replaces the routes of a prefix.
func (t *Table) store(prefix netip.Prefix, list []route) {
	slices.SortFunc(list, func(a, b route) int { return cmp.Compare(a.metric, b.metric) })
	best, known := t.best.Get(prefix)
	for _, r := range list {
		r.hops.uses++
	}
	if known {
		for _, r := range t.routes(prefix, best) {
			t.release(r.hops)
		}
	}
	if len(list) > 1 {
		t.others[prefix] = list
	} else {
		delete(t.others, prefix)
	}
	if len(list) == 0 {
		t.best.Delete(prefix)
	} else {
		t.best.Insert(prefix, list[0])
	}
	if known != (len(list) > 0) || known && list[0].hops != best.hops {
		t.note(prefix)
	}
}

// intern returns the one *Hops of a list.
func (t *Table) intern(list []kernel.MainHop) *Hops {
	if len(list) == 1 {
		found := t.single[list[0]]
		if found == nil {
			found = &Hops{List: slices.Clone(list)}
			t.single[list[0]] = found
		}
		return found
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b kernel.MainHop) int {
		return cmp.Or(strings.Compare(a.Device, b.Device), a.Gateway.Compare(b.Gateway))
	})
	if list = slices.Compact(list); len(list) == 1 {
		return t.intern(list)
	}
	var key []byte
	for _, hop := range list {
		key = append(append(key, hop.Device...), 0)
		key = append(key, byte(hop.Gateway.BitLen()))
		key = append(key, hop.Gateway.AsSlice()...)
	}
	found := t.several[string(key)]
	if found == nil {
		found = &Hops{List: list, key: string(key)}
		t.several[found.key] = found
	}
	return found
}

func (t *Table) release(hops *Hops) {
	hops.uses--
	switch {
	case hops.uses > 0:
	case len(hops.List) == 1:
		delete(t.single, hops.List[0])
	default:
		delete(t.several, hops.key)
	}
}

func (t *Table) note(prefix netip.Prefix) {
	if len(t.changed) < maxChanged {
		t.changed[prefix] = struct{}{}
	} else {
		t.many = true
	}
	select {
	case t.News <- struct{}{}:
	default:
	}
}

// Take returns the prefixes whose route has changed since the last call, and whether there
// were too many to remember.
func (t *Table) Take() (changed []netip.Prefix, many bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for prefix := range t.changed {
		changed = append(changed, prefix)
	}
	many = t.many
	t.changed, t.many = make(map[netip.Prefix]struct{}), false
	return changed, many
}

// Known reports whether the routes of a family were read once.
func (t *Table) Known(family kernel.Family) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.known[family]
}

// Len is the number of prefixes.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.best.Size()
}

// Longest returns the longest route that holds all of a prefix.
func (t *Table) Longest(within netip.Prefix) (netip.Prefix, *Hops, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	prefix, r, ok := t.best.LookupPrefixLPM(within)
	return prefix, r.hops, ok
}

// Covering returns the prefixes of the table that hold all of a prefix, and itself if it is
// there.
func (t *Table) Covering(within netip.Prefix) (list []netip.Prefix) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for prefix := range t.best.Supernets(within) {
		list = append(list, prefix)
	}
	return list
}

// Within calls each for the routes to parts of a prefix, and for that to all of it, until it
// returns false. It must not call the table.
func (t *Table) Within(all netip.Prefix, each func(netip.Prefix, *Hops) bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for prefix, r := range t.best.Subnets(all) {
		if !each(prefix, r.hops) {
			return
		}
	}
}

// Neighbours returns the gateways that some route names, by device.
func (t *Table) Neighbours() map[string][]netip.Addr {
	t.mu.RLock()
	defer t.mu.RUnlock()
	found := make(map[string][]netip.Addr)
	add := func(hop kernel.MainHop) {
		if hop.Gateway.IsValid() && !slices.Contains(found[hop.Device], hop.Gateway) {
			found[hop.Device] = append(found[hop.Device], hop.Gateway)
		}
	}
	for hop := range t.single {
		add(hop)
	}
	for _, hops := range t.several {
		for _, hop := range hops.List {
			add(hop)
		}
	}
	return found
}

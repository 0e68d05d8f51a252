package rpki

import (
	"math"
	"net/netip"
	"slices"
	"sort"
)

// State is the validation state of a route (RFC 6811 §2).
type State uint8

// The states.
const (
	// Unchecked: there is nothing to validate with.
	Unchecked State = iota
	// NotFound: no VRP covers the prefix.
	NotFound
	// Valid: a VRP allows it.
	Valid
	// Invalid: VRPs cover the prefix, and none allows the route.
	Invalid
)

// String returns the name that the API uses.
func (s State) String() string { return [...]string{"unchecked", "not_found", "valid", "invalid"}[s] }

// Table has VRPs to validate with. It never changes. A nil one validates nothing.
type Table struct {
	// vrps are in the order of [Compare], without duplicates.
	vrps []VRP
	// parents are the places of the nearest VRPs before these that cover them, -1 for none.
	parents []int32
	// starts are the places of the first VRPs with these first 16 bits or later ones, of
	// IPv4 and then of IPv6. They save most of a search.
	starts [2 << 16]int32
}

// start is the index into starts.
func (v VRP) start() int {
	if v.is4 {
		return int(v.low >> 16 & 0xffff)
	}
	return 1<<16 + int(v.high>>48)
}

// NewTable returns a table with VRPs, which it keeps: they must be sorted by [Compare],
// without duplicates.
func NewTable(sorted []VRP) *Table {
	t := &Table{vrps: sorted, parents: make([]int32, len(sorted))}
	last, next := int32(-1), 0
	for i, v := range sorted {
		for ; next <= v.start(); next++ {
			t.starts[next] = int32(i)
		}
		for last >= 0 && !sorted[last].contains(v) {
			last = t.parents[last]
		}
		t.parents[i] = last
		last = int32(i)
	}
	for ; next < len(t.starts); next++ {
		t.starts[next] = int32(len(sorted))
	}
	return t
}

// Len is the number of VRPs.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return len(t.vrps)
}

// Validate returns the state of a route from an AS. 0 stands for an origin that cannot be
// determined, as that of an AS_SET, which no VRP allows.
func (t *Table) Validate(prefix netip.Prefix, origin uint32) State {
	if t.Len() == 0 {
		return Unchecked
	}
	route := covering(prefix)
	// Those that cover the route come before it, each a parent of the next one.
	last := route
	last.maxLength, last.as = math.MaxUint8, math.MaxUint32
	from, to := t.starts[route.start()], int32(len(t.vrps))
	if next := route.start() + 1; next < len(t.starts) {
		to = t.starts[next]
	}
	near := t.vrps[from:to]
	i := from + int32(sort.Search(len(near), func(i int) bool { return Compare(near[i], last) > 0 })) - 1
	state := NotFound
	for ; i >= 0; i = t.parents[i] {
		v := &t.vrps[i]
		if !v.contains(route) {
			continue
		}
		state = Invalid
		if v.as == origin && origin != 0 && route.bits <= v.maxLength {
			return Valid
		}
	}
	return state
}

// Difference returns the prefixes whose VRPs differ between two tables. States of routes
// outside of them are the same by both, unless one of the tables is empty.
func Difference(a, b *Table) (prefixes []netip.Prefix) {
	var was, now []VRP
	if a != nil {
		was = a.vrps
	}
	if b != nil {
		now = b.vrps
	}
	add := func(v VRP) {
		if p := v.Prefix(); len(prefixes) == 0 || prefixes[len(prefixes)-1] != p {
			prefixes = append(prefixes, p)
		}
	}
	for len(was) > 0 || len(now) > 0 {
		switch order := compareFirst(was, now); {
		case order < 0:
			add(was[0])
			was = was[1:]
		case order > 0:
			add(now[0])
			now = now[1:]
		default:
			was, now = was[1:], now[1:]
		}
	}
	return prefixes
}

// compareFirst compares the first VRPs of two lists; an empty list comes last.
func compareFirst(a, b []VRP) int {
	switch {
	case len(b) == 0:
		return -1
	case len(a) == 0:
		return 1
	}
	return Compare(a[0], b[0])
}

// Union merges sorted lists of VRPs. The result may be one of them.
func Union(lists ...[]VRP) []VRP {
	var all []VRP
	for _, list := range lists {
		switch {
		case len(list) == 0:
		case len(all) == 0:
			all = list
		default:
			all = merge(all, list)
		}
	}
	return all
}

func merge(a, b []VRP) []VRP {
	merged := make([]VRP, 0, max(len(a), len(b)))
	for len(a) > 0 || len(b) > 0 {
		switch order := compareFirst(a, b); {
		case order < 0:
			merged, a = append(merged, a[0]), a[1:]
		case order > 0:
			merged, b = append(merged, b[0]), b[1:]
		default:
			merged, a, b = append(merged, a[0]), a[1:], b[1:]
		}
	}
	return slices.Clip(merged)
}

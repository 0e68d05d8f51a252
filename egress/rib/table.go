// Package rib is a table of IP prefixes with longest match, for what is known of
// the routes of one peer or path.
package rib

import (
	"iter"
	"net/netip"
)

// Table maps prefixes of both address families to values. The zero value is empty
// and ready for use. It is not safe for concurrent use.
//
// It is a hash map with a count for each prefix length, so that an exact change
// costs one map access and a longest match one for each length in use: Internet
// tables use some thirty.
type Table[V any] struct {
	routes  map[netip.Prefix]V
	lengths [2][129]int
}

func family(p netip.Prefix) int {
	if p.Addr().Is4() {
		return 1
	}
	return 0
}

// Get returns the value of exactly this prefix.
func (t *Table[V]) Get(p netip.Prefix) (V, bool) {
	v, ok := t.routes[p]
	return v, ok
}

// Set gives a prefix, whose host bits must be clear, a value.
func (t *Table[V]) Set(p netip.Prefix, v V) {
	if t.routes == nil {
		t.routes = make(map[netip.Prefix]V)
	}
	if _, ok := t.routes[p]; !ok {
		t.lengths[family(p)][p.Bits()]++
	}
	t.routes[p] = v
}

// Delete removes a prefix, if it is there.
func (t *Table[V]) Delete(p netip.Prefix) {
	if _, ok := t.routes[p]; ok {
		t.lengths[family(p)][p.Bits()]--
		delete(t.routes, p)
	}
}

// Len is the number of prefixes.
func (t *Table[V]) Len() int { return len(t.routes) }

// All yields the prefixes and values in no particular order. What is yielded may be
// changed or deleted meanwhile.
func (t *Table[V]) All() iter.Seq2[netip.Prefix, V] {
	return func(yield func(netip.Prefix, V) bool) {
		for p, v := range t.routes {
			if !yield(p, v) {
				return
			}
		}
	}
}

// Longest returns the longest prefix that holds all of within and whose value
// usable accepts.
func (t *Table[V]) Longest(within netip.Prefix, usable func(V) bool) (netip.Prefix, V, bool) {
	lengths := &t.lengths[family(within)]
	for bits := within.Bits(); bits >= 0; bits-- {
		if lengths[bits] == 0 {
			continue
		}
		p, err := within.Addr().Prefix(bits)
		if err != nil {
			break
		}
		if v, ok := t.routes[p]; ok && usable(v) {
			return p, v, true
		}
	}
	var none V
	return netip.Prefix{}, none, false
}

// Package rib is a table of IP prefixes with longest match, for the routes of one peer or
// path.
package rib

import (
	"iter"
	"net/netip"
)

// Table maps prefixes of both address families to values. The zero value is empty
// and ready for use. It is not safe for concurrent use.
//
// It is a hash map with a count for each prefix length. So an exact change costs one map
// access and a longest match one for each length in use: Internet tables use some thirty.
type Table[V any] struct {
	routes  map[key]V
	lengths [2][129]int
}

// key is a prefix without a pointer: the garbage collector need not follow one for each
// route, and hashes are of plain bytes.
type key struct {
	addr [16]byte
	bits uint8
	is4  bool
}

func keyOf(p netip.Prefix) key {
	return key{addr: p.Addr().As16(), bits: uint8(p.Bits()), is4: p.Addr().Is4()}
}

func (k key) prefix() netip.Prefix {
	addr := netip.AddrFrom16(k.addr)
	if k.is4 {
		addr = addr.Unmap()
	}
	return netip.PrefixFrom(addr, int(k.bits))
}

func family(p netip.Prefix) int {
	if p.Addr().Is4() {
		return 1
	}
	return 0
}

// Get returns the value of exactly this prefix.
func (t *Table[V]) Get(p netip.Prefix) (V, bool) {
	v, ok := t.routes[keyOf(p)]
	return v, ok
}

// Set gives a prefix, whose host bits must be clear, a value.
func (t *Table[V]) Set(p netip.Prefix, v V) {
	if t.routes == nil {
		t.routes = make(map[key]V)
	}
	before := len(t.routes)
	t.routes[keyOf(p)] = v
	t.lengths[family(p)][p.Bits()] += len(t.routes) - before
}

// Delete removes a prefix, if it is there.
func (t *Table[V]) Delete(p netip.Prefix) {
	before := len(t.routes)
	delete(t.routes, keyOf(p))
	t.lengths[family(p)][p.Bits()] += len(t.routes) - before
}

// Len is the number of prefixes.
func (t *Table[V]) Len() int { return len(t.routes) }

// All yields the prefixes and values in no particular order. A yielded entry may be changed
// or deleted meanwhile.
func (t *Table[V]) All() iter.Seq2[netip.Prefix, V] {
	return func(yield func(netip.Prefix, V) bool) {
		for k, v := range t.routes {
			if !yield(k.prefix(), v) {
				return
			}
		}
	}
}

// Covering yields the prefixes that hold all of within, longest first.
func (t *Table[V]) Covering(within netip.Prefix) iter.Seq2[netip.Prefix, V] {
	return func(yield func(netip.Prefix, V) bool) {
		for bits := within.Bits(); bits >= 0; bits-- {
			p := netip.PrefixFrom(within.Addr(), bits).Masked()
			if v, ok := t.Get(p); ok && !yield(p, v) {
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
		if v, ok := t.routes[keyOf(p)]; ok && usable(v) {
			return p, v, true
		}
	}
	var none V
	return netip.Prefix{}, none, false
}

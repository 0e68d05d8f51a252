// Package prefixmap finds the prefixes that hold an address. A look-up costs one map access
// for each prefix length in use.
package prefixmap

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
)

// Map has a value for each of some prefixes. The zero value is an empty one.
type Map[V any] struct {
	values  map[netip.Prefix]V
	lengths [2][]int // in use, longest first; IPv4, then IPv6
}

// Get returns the value of exactly this prefix, the zero value without one.
func (m *Map[V]) Get(p netip.Prefix) V { return m.values[p] }

// Set sets the value of a prefix, whose host bits must be zero.
func (m *Map[V]) Set(p netip.Prefix, v V) {
	if m.values == nil {
		m.values = make(map[netip.Prefix]V)
	}
	m.values[p] = v
	lengths := &m.lengths[familyIndex(p.Addr())]
	if !slices.Contains(*lengths, p.Bits()) {
		*lengths = append(*lengths, p.Bits())
		slices.SortFunc(*lengths, func(a, b int) int { return b - a })
	}
}

// Has reports whether exactly this prefix is there.
func (m *Map[V]) Has(p netip.Prefix) bool {
	_, ok := m.values[p]
	return ok
}

// Prefixes yields all prefixes, in no order.
func (m *Map[V]) Prefixes() iter.Seq[netip.Prefix] { return maps.Keys(m.values) }

// Lengths are the lengths of prefixes of the address's family, longest first.
func (m *Map[V]) Lengths(a netip.Addr) []int { return m.lengths[familyIndex(a)] }

// Covering yields the values of the prefixes that hold all of p, longest first.
func (m *Map[V]) Covering(p netip.Prefix) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, bits := range m.Lengths(p.Addr()) {
			if bits > p.Bits() {
				continue
			}
			prefix, err := p.Addr().Prefix(bits)
			if err != nil {
				return // an address without family matches nothing
			}
			if v, ok := m.values[prefix]; ok && !yield(v) {
				return
			}
		}
	}
}

// Contains reports whether any prefix holds the address.
func (m *Map[V]) Contains(a netip.Addr) bool { return m.Covers(netip.PrefixFrom(a, a.BitLen())) }

// Covers reports whether any prefix holds all of p.
func (m *Map[V]) Covers(p netip.Prefix) bool {
	for range m.Covering(p) {
		return true
	}
	return false
}

// NewSet makes a map of which only the keys matter.
func NewSet(prefixes []netip.Prefix) *Map[struct{}] {
	set := &Map[struct{}]{values: make(map[netip.Prefix]struct{}, len(prefixes))}
	var used [2][129]bool
	for _, p := range prefixes {
		p = p.Masked()
		set.values[p] = struct{}{}
		used[familyIndex(p.Addr())][max(p.Bits(), 0)] = true
	}
	for family := range used {
		for bits := 128; bits >= 0; bits-- {
			if used[family][bits] {
				set.lengths[family] = append(set.lengths[family], bits)
			}
		}
	}
	return set
}

func familyIndex(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

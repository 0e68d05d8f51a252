package mptcp

import (
	"iter"
	"net/netip"
	"slices"
)

// prefixMap finds the prefixes that hold an address, longest first. A look-up
// costs one map access for each prefix length in use.
type prefixMap[V any] struct {
	values  map[netip.Prefix]V
	lengths [2][]int // in use, longest first; IPv4, then IPv6
}

func (m *prefixMap[V]) get(p netip.Prefix) V { return m.values[p] }

func (m *prefixMap[V]) set(p netip.Prefix, v V) {
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

func (m *prefixMap[V]) matches(a netip.Addr) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, bits := range m.lengths[familyIndex(a)] {
			prefix, err := a.Prefix(bits)
			if err != nil {
				return // an address without family matches nothing
			}
			if v, ok := m.values[prefix]; ok && !yield(v) {
				return
			}
		}
	}
}

// contains tells whether any prefix holds the address.
func (m *prefixMap[V]) contains(a netip.Addr) bool {
	for range m.matches(a) {
		return true
	}
	return false
}

// newPrefixSet makes a map of which only the keys matter.
func newPrefixSet(prefixes []netip.Prefix) *prefixMap[struct{}] {
	set := &prefixMap[struct{}]{values: make(map[netip.Prefix]struct{}, len(prefixes))}
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

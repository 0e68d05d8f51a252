// Package policies finds the operator's policies for a client. It is the one place where they
// are matched: [mptcp] uses it for connections, and the agent for answers to look-ups.
//
// [mptcp]: hikyaku/egress/mptcp
package policies

import (
	"net/netip"
	"slices"

	"hikyaku/egress/prefixmap"
)

// Matcher finds policies, which the caller knows by their places in a list.
type Matcher struct {
	everybody []int
	byAS      map[uint32][]int
	byPrefix  prefixmap.Map[[]int]
	// sorted are the keys of byPrefix, by address and then by length.
	sorted []netip.Prefix
}

// Scope is whom a policy is for: clients in one of the prefixes, whose host bits must be
// zero, or of one of the ASes. Without either it is for all.
type Scope struct {
	Prefixes []netip.Prefix
	ASes     []uint32
}

// New returns a matcher of policies with these scopes.
func New(scopes []Scope) *Matcher {
	m := &Matcher{byAS: make(map[uint32][]int)}
	for place, scope := range scopes {
		m.add(place, scope)
	}
	m.sorted = slices.SortedFunc(m.byPrefix.Prefixes(), compare)
	return m
}

func (m *Matcher) add(place int, scope Scope) {
	if len(scope.Prefixes)+len(scope.ASes) == 0 {
		m.everybody = append(m.everybody, place)
	}
	for _, p := range scope.Prefixes {
		if known := m.byPrefix.Get(p); !slices.Contains(known, place) {
			m.byPrefix.Set(p, append(known, place))
		}
	}
	for _, as := range scope.ASes {
		m.byAS[as] = append(m.byAS[as], place)
	}
}

// Match is a policy that matches clients of a prefix.
type Match struct {
	Place int
	// Parts are the prefixes within it whose clients the policy is for; empty: all of it.
	Parts []netip.Prefix
}

// Client returns the places of the policies for a client, in order. as is its AS, 0 where
// that is not known.
func (m *Matcher) Client(client netip.Addr, as uint32) []int {
	return m.covering(netip.PrefixFrom(client, client.BitLen()), as)
}

// Prefix returns the policies for clients of a prefix, in the order of their places. as is
// the AS of all of them, 0 where that is not known.
func (m *Matcher) Prefix(clients netip.Prefix, as uint32) []Match {
	var matches []Match
	for _, place := range m.covering(clients, as) {
		matches = append(matches, Match{Place: place})
	}
	whole := len(matches)
	for _, part := range m.within(clients) {
		for _, place := range m.byPrefix.Get(part) {
			if !slices.ContainsFunc(matches[:whole], func(w Match) bool { return w.Place == place }) {
				matches = addPart(matches, whole, place, part)
			}
		}
	}
	slices.SortFunc(matches, func(a, b Match) int { return a.Place - b.Place })
	return matches
}

// addPart adds a part to the match of a place among those from first on.
func addPart(matches []Match, first, place int, part netip.Prefix) []Match {
	i := slices.IndexFunc(matches[first:], func(m Match) bool { return m.Place == place })
	if i < 0 {
		return append(matches, Match{Place: place, Parts: []netip.Prefix{part}})
	}
	matches[first+i].Parts = append(matches[first+i].Parts, part)
	return matches
}

// covering returns the places of the policies for all of a prefix, in order.
func (m *Matcher) covering(clients netip.Prefix, as uint32) []int {
	places := slices.Clone(m.everybody)
	if as != 0 {
		places = append(places, m.byAS[as]...)
	}
	for some := range m.byPrefix.Covering(clients) {
		places = append(places, some...)
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// within returns the prefixes of policies that are within a prefix, and longer.
func (m *Matcher) within(clients netip.Prefix) []netip.Prefix {
	first, _ := slices.BinarySearchFunc(m.sorted, clients, compare)
	var found []netip.Prefix
	for _, p := range m.sorted[first:] {
		if !clients.Contains(p.Addr()) {
			break
		}
		if p.Bits() > clients.Bits() {
			found = append(found, p)
		}
	}
	return found
}

func compare(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}

package agent

import (
	"cmp"
	"net/netip"
	"slices"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/mptcp"
)

// rules turns the operator's policies into MPTCP's rules. Of policies the first that
// matches counts, by order and name; of rules the one with the longest prefix. So
// every prefix that a policy names gets the rule of the first policy that holds for
// all of it, for each class that any policy names and for all others. Without a
// policy connections are aggregated: who turned MPTCP on wants that.
func rules(policies []api.Policy, paths []config.Path) []mptcp.Rule {
	policies = slices.Clone(policies)
	slices.SortStableFunc(policies, func(a, b api.Policy) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
	policies = append(policies, api.Policy{Mode: api.Adaptive})
	prefixes := []netip.Prefix{{}} // the zero prefix stands for all clients
	classes := []string{""}        // the empty one for all that are not named
	for _, p := range policies {
		prefixes = append(prefixes, p.Clients...)
		classes = append(classes, p.Classes...)
	}
	var list []mptcp.Rule
	for _, prefix := range unique(prefixes) {
		for _, class := range unique(classes) {
			i := slices.IndexFunc(policies, func(p api.Policy) bool { return holds(p, prefix, class) })
			list = append(list, rule(policies[i], prefix, class, paths))
		}
	}
	return list
}

func unique[T comparable](list []T) []T {
	var once []T
	for _, v := range list {
		if !slices.Contains(once, v) {
			once = append(once, v)
		}
	}
	return once
}

// holds tells whether a policy is for all of a prefix and for a class.
func holds(p api.Policy, prefix netip.Prefix, class string) bool {
	covers := func(wide netip.Prefix) bool {
		return prefix.IsValid() && wide.Bits() <= prefix.Bits() && wide.Contains(prefix.Addr())
	}
	return (len(p.Clients) == 0 || slices.ContainsFunc(p.Clients, covers)) &&
		(len(p.Classes) == 0 || slices.Contains(p.Classes, class))
}

func rule(p api.Policy, prefix netip.Prefix, class string, paths []config.Path) mptcp.Rule {
	r := mptcp.Rule{Name: p.Name, Class: class}
	if prefix.IsValid() {
		r.Clients = []netip.Prefix{prefix}
	}
	if p.Mode != api.Aggregated && p.Mode != api.Adaptive {
		return r // plain; steering is the edge server's, by marks
	}
	r.Mode, r.Open = mptcp.Aggregated, p.Mode == api.Adaptive
	for _, path := range paths {
		if len(p.Paths) == 0 || slices.Contains(p.Paths, path.Name) || slices.Contains(p.Backup, path.Name) {
			r.Paths = append(r.Paths, mptcp.PathUse{
				Path: path.Name, Backup: path.Backup || slices.Contains(p.Backup, path.Name),
			})
		}
	}
	return r
}

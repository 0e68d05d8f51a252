package agent

import (
	"cmp"
	"net/netip"
	"slices"

	"hikyaku/egress/api"
	"hikyaku/egress/policies"
)

// verdicts answers which of the operator's policies hold for clients. Policies are compiled
// when they change: look-ups are far more frequent.
type verdicts struct {
	from    []api.Policy
	ordered []api.Policy
	matcher *policies.Matcher
}

// of returns the policies that match clients of a prefix, in the order in which they count.
// as is the clients' AS, 0 where that is not known. Policies that can never count for them
// are left out, since one before them holds for all of the prefix and all classes.
func (v *verdicts) of(current []api.Policy, clients netip.Prefix, as uint32) []api.Verdict {
	v.compile(current)
	var list []api.Verdict
	for _, match := range v.matcher.Prefix(clients, as) {
		p := v.ordered[match.Place]
		list = append(list, api.Verdict{
			Policy: p.Name, Clients: match.Parts, Classes: p.Classes, Mode: p.Mode, Paths: p.Paths, Backup: p.Backup,
		})
		if len(match.Parts) == 0 && len(p.Classes) == 0 {
			break
		}
	}
	return list
}

// compile takes policies. A list of settings is replaced, never changed in place, so that
// the same list has the same policies.
func (v *verdicts) compile(current []api.Policy) {
	same := len(current) == len(v.from) && (len(current) == 0 || &current[0] == &v.from[0])
	if same && v.matcher != nil {
		return
	}
	v.from, v.ordered = current, inOrder(current)
	scopes := make([]policies.Scope, len(current))
	for i, p := range v.ordered {
		scopes[i] = policies.Scope{Prefixes: p.Clients, ASes: p.ASNs}
	}
	v.matcher = policies.New(scopes)
}

// inOrder returns policies in the order in which they count.
func inOrder(list []api.Policy) []api.Policy {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b api.Policy) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
	return list
}

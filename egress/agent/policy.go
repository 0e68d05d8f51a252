package agent

import (
	"slices"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/mptcp"
)

// compiler keeps the policy that was compiled last: paths change far more often than
// policies do.
type compiler struct {
	ports    []uint16
	paths    []config.Path
	from     []api.Policy
	compiled *mptcp.Policy
}

// compile returns the policy that is in force: the same one as before, unless the
// operator's have changed.
func (c *compiler) compile(policies []api.Policy) (*mptcp.Policy, error) {
	if c.compiled != nil && slices.EqualFunc(c.from, policies, samePolicy) {
		return c.compiled, nil
	}
	compiled, err := mptcp.NewPolicy(c.ports, rules(policies, c.paths))
	if err != nil {
		return nil, err
	}
	c.from, c.compiled = policies, compiled
	return compiled, nil
}

func samePolicy(a, b api.Policy) bool {
	return a.Name == b.Name && a.Order == b.Order && a.Mode == b.Mode && slices.Equal(a.Clients, b.Clients) &&
		slices.Equal(a.ASNs, b.ASNs) && slices.Equal(a.Classes, b.Classes) &&
		slices.Equal(a.Paths, b.Paths) && slices.Equal(a.Backup, b.Backup)
}

// rules turns the operator's policies into MPTCP's rules. Of both the first that matches
// counts. Without a policy connections are aggregated, for which MPTCP was turned on.
func rules(policies []api.Policy, paths []config.Path) []mptcp.Rule {
	var list []mptcp.Rule
	for _, p := range append(inOrder(policies), api.Policy{Mode: api.Adaptive}) {
		r := rule(p, paths)
		if len(p.Classes) == 0 {
			list = append(list, r)
		}
		for _, r.Class = range p.Classes {
			list = append(list, r)
		}
	}
	return list
}

func rule(p api.Policy, paths []config.Path) mptcp.Rule {
	r := mptcp.Rule{Name: p.Name, Clients: p.Clients, ASes: p.ASNs}
	if p.Mode != api.Aggregated && p.Mode != api.Adaptive {
		return r // plain; steering is the edge server's, by marks
	}
	for _, path := range paths {
		if len(p.Paths) == 0 || slices.Contains(p.Paths, path.Name) || slices.Contains(p.Backup, path.Name) {
			r.Paths = append(r.Paths, mptcp.PathUse{
				Path: path.Name, Backup: path.Backup || slices.Contains(p.Backup, path.Name),
			})
		}
	}
	if len(r.Paths) == 0 {
		return r // the paths that it names are not configured any more; for MPTCP none means all
	}
	r.Mode, r.Open = mptcp.Aggregated, p.Mode == api.Adaptive
	return r
}

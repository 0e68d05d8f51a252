package agent

import (
	"fmt"

	"hikyaku/egress/api"
)

// sessionList returns the sessions with the numbers that the speaker alone knows. It needs the
// mutex.
func (e *engine) sessionList() []api.Session {
	list := e.sessions.list(e.role.routes)
	for i := range list {
		if list[i].Kind == kindPeer {
			e.role.imports(&list[i])
		}
		if e.bgp == nil || list[i].Kind != kindReflector {
			continue
		}
		withheld := e.bgp.Withheld(list[i].Name)
		list[i].Withheld.Total = withheld.Total
		for _, n := range withheld.Routes {
			list[i].Withheld.Routes += n
		}
	}
	return list
}

// withheld are sentences on the routes of peers that are not announced to reflectors.
func (b *Border) withheld() []string {
	if b.bgp == nil {
		return nil
	}
	var problems []string
	for _, reflector := range b.config.Reflectors {
		routes := b.bgp.Withheld(reflector.Name).Routes
		for _, name := range b.planner.Names() {
			if n := routes[b.planner.Config(name).RD]; n > 0 {
				problems = append(problems, fmt.Sprintf("peer %s: %d of its routes are not announced to %s, "+
					"since their path attributes leave no room in a BGP message", name, n, reflector.Name))
			}
		}
	}
	return problems
}

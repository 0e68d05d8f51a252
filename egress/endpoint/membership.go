package endpoint

import (
	"errors"
	"net/netip"

	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/srv6"
)

func newPath(c *config.Path, entered bool) *path {
	return &path{
		config: c, entered: entered,
		refused: make(map[netip.Prefix]struct{}), strange: make(map[netip.Prefix]struct{}),
	}
}

// errRemoved blocks a path that is being removed.
var errRemoved = errors.New("it is being removed")

// Add takes a further path, without routes. It returns what packets from its addresses need
// before all else.
func (p *Planner) Add(c *config.Path) (first kernel.Change) {
	state := newPath(c, false)
	p.paths[c.Name], p.byRD[c.RD] = state, state
	first.Put = kernel.State{Addresses: p.addresses(c), Rules: p.stop(c)}
	return first
}

// Remove begins to take back everything of a path, for good. When nothing is pending for it any
// more, [Planner.Forget] ends that.
func (p *Planner) Remove(name string) {
	if state := p.paths[name]; state != nil {
		delete(p.byRD, state.config.RD)
		state.removed = true
		p.block(state, errRemoved)
	}
}

// Forget ends the removal of a path. It returns the rest of it in the kernel.
func (p *Planner) Forget(name string) (left kernel.Change) {
	state := p.paths[name]
	if state == nil {
		return left
	}
	delete(p.paths, name)
	left.Remove = kernel.State{Addresses: p.addresses(state.config), Rules: p.stop(state.config)}
	return left
}

// Configure takes another configuration, whose paths are those that there are. The routes of the
// distinguishers that it returns are to be learned once more, and all routes where the locators
// are others.
func (p *Planner) Configure(c *config.Server) (further []srv6.RouteDistinguisher) {
	p.config = c
	further = p.knowBorders()
	for i := range c.Paths {
		if state := p.paths[c.Paths[i].Name]; state != nil {
			state.config = &c.Paths[i]
		}
	}
	return further
}

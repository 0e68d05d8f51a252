package border

import (
	"net/netip"
	"slices"

	"hikyaku/egress/config"
	"hikyaku/egress/importpolicy"
	"hikyaku/egress/kernel"
)

func (p *Planner) newPeer(c *config.Peer) *peer {
	state := &peer{
		config: c, reason: "the session has not come up yet", policy: importpolicy.New(p.config, c),
		hops: make(map[netip.Addr]resolution), uses: make(map[netip.Addr]int),
	}
	state.lookup = p.opts.Lookup(c)
	state.beyond.keeps = c.Routes == config.RoutesByBMP
	if p.config.Router.BestPaths {
		state.pending = make(map[netip.Prefix]bool)
	}
	return state
}

// Add takes a further peer, whose session is not up. It returns what the kernel must have before
// the session comes up.
func (p *Planner) Add(c *config.Peer) (first kernel.Change) {
	state := p.newPeer(c)
	p.peers[c.Name] = state
	first.Put.Rules = p.pairRules(state)
	return first
}

// Remove begins to take back everything of a peer, for good. When nothing is pending for it any
// more, [Planner.Forget] ends that.
func (p *Planner) Remove(name string) {
	if state := p.peers[name]; state != nil {
		state.removed, state.up, state.reason = true, false, "it is being removed"
		state.stop()
	}
}

// Forget ends the removal of a peer. It returns the rest of it in the kernel.
func (p *Planner) Forget(name string) (left kernel.Change) {
	state := p.peers[name]
	if state == nil {
		return left
	}
	if state.sid == dropped {
		left.Remove.Routes = append(left.Remove.Routes, Drops(state.config, state.lookup)...)
	}
	left.Remove.Rules = p.pairRules(state)
	delete(p.peers, name)
	return left
}

// Configure takes another configuration, whose peers are those that there are. A peer may have
// other communities, which its routes are announced with anew. See [Planner.SetImport], too.
func (p *Planner) Configure(c *config.Border) {
	p.config = c
	for i := range c.Peers {
		state := p.peers[c.Peers[i].Name]
		if state == nil {
			continue
		}
		again := !slices.Equal(state.config.Communities, c.Peers[i].Communities)
		state.config = &c.Peers[i]
		if again {
			state.announceAgain()
		}
	}
}

// announceAgain announces all routes once more, with communities as they are now.
func (p *peer) announceAgain() {
	p.remark = true // with other communities
	p.requeue(func(r *route) {
		if r.announced == current {
			r.announced = outdated
		}
	})
}

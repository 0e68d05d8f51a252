package border

import (
	"net/netip"
)

// LeaveOut takes a peer out of use that has too many routes, while the session of the router that
// reports them goes on. Its routes are kept for [Planner.TakeIn], since the router reports them once.
func (p *Planner) LeaveOut(name, reason string) {
	if state := p.peers[name]; state != nil && state.up && !state.leftOut {
		state.leftOut, state.reason = true, reason
		state.lost = state.sid == open
		state.requeue(func(r *route) { r.stale = false })
	}
}

// TakeIn takes a peer into use again that was left out. It reports whether all of its routes were
// kept; otherwise the peer stays out until the router reports it anew.
func (p *Planner) TakeIn(name string) bool {
	state := p.peers[name]
	if state == nil || !state.leftOut {
		return true
	}
	if state.beyond.lost {
		return false
	}
	state.leftOut, state.reason = false, ""
	state.hops = make(map[netip.Addr]resolution)
	state.requeue(func(*route) {})
	state.again = recheck{all: true}
	return true
}

// LeftOut reports whether a peer is left out.
func (p *Planner) LeftOut(name string) bool {
	state := p.peers[name]
	return state != nil && state.leftOut
}

package agent

import (
	"context"
	"net/netip"

	"hikyaku/egress/border"
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
)

// peerDown closes a peer's SID and takes its path from servers the moment its session ends,
// whatever the loop is doing. Reflectors pass the path's marker on before the withdrawals
// of 200,000 routes reach them. The loop then does both in its turn.
func (b *Border) peerDown(ctx context.Context, s *speaker.Speaker, down speaker.PeerDown) {
	found, ok := b.byName.Load(down.Peer)
	if !ok {
		return // it is being removed
	}
	p := found.(known)
	b.shut.Store(p.config.Name, p.drops)
	for _, drop := range p.drops {
		if err := b.tables.Shut(ctx, drop); err != nil {
			b.log.Error("closing the SID of a lost peer", "peer", p.config.Name, "sid", drop.Prefix.Addr(), "error", err)
		}
	}
	if err := s.WithdrawVPN(p.config.RD, []netip.Prefix{border.Marker(p.config.SID)}); err != nil {
		b.log.Error("taking the path of a lost peer from servers", "peer", p.config.Name, "sid", p.config.SID, "error", err)
	}
}

// known is a peer, as peerDown needs it.
type known struct {
	config *config.Peer
	// drops are the routes that close its SIDs.
	drops []kernel.Route
}

func (b *Border) remember(p *config.Peer) {
	b.byName.Store(p.Name, known{p, border.Drops(p, b.lookupOf(p, b.features))})
}

// closedEarly gives the SID that peerDown has shut back to the planner. If the loop had
// meanwhile taken the peer into use for a new session, it repairs the damage. It comes
// behind the loss, so that a SID which is still open for the ended session is not taken for
// that.
func (b *Border) closedEarly(ctx context.Context, name string) {
	if routes, ok := b.shut.LoadAndDelete(name); ok {
		for _, drop := range routes.([]kernel.Route) {
			b.tables.Release(drop)
		}
	}
	var open bool
	b.locked(func() {
		v, _ := b.planner.View(name)
		open = v.Usable && v.Open
	})
	if !open {
		return
	}
	if err := b.repair(ctx); err != nil {
		b.log.Error("opening the SID of a peer that is back", "peer", name, "error", err)
		return
	}
	b.locked(func() { b.planner.MarkAgain(name) })
}

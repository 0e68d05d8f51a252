package session

import (
	"net/netip"
	"slices"

	"hikyaku/egress/speaker/wire"
)

// Match says which routes of own routers are an egress peer's.
type Match struct {
	// NextHops are the peer's. They decide where no community is named.
	NextHops []netip.Addr
	// Communities and Large mark the peer's routes; one of them is enough.
	Communities []uint32
	Large       []wire.LargeCommunity
}

// ByCommunity reports whether communities decide.
func (m Match) ByCommunity() bool { return len(m.Communities)+len(m.Large) > 0 }

// Marks reports whether a route has one of the communities.
func (m Match) Marks(a wire.Attributes) bool {
	return m.ByCommunity() &&
		(slices.ContainsFunc(a.Communities(), func(c uint32) bool { return slices.Contains(m.Communities, c) }) ||
			slices.ContainsFunc(a.LargeCommunities(), func(c wire.LargeCommunity) bool { return slices.Contains(m.Large, c) }))
}

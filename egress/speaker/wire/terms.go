package wire

import (
	"net/netip"
	"time"
)

// Terms are the capabilities that both ends of a session have agreed on.
type Terms struct {
	RouterID netip.Addr // the neighbour's
	// Local is our end's address.
	Local    netip.Addr
	Families []Family
	HoldTime time.Duration // 0: none
	// MaxMessage is the length of an UPDATE that the neighbour accepts, in bytes.
	MaxMessage int
	// RouteRefresh: the neighbour sends its routes again on request (RFC 2918).
	RouteRefresh bool
}

package wire

import (
	"net/netip"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
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
	// Restart is the neighbour's offer of a graceful restart.
	Restart Restart
}

// Restart is a graceful restart that a neighbour offers (RFC 4724 §3).
type Restart struct {
	// Time is how long its routes are worth keeping when the session breaks.
	Time time.Duration
	// Families are those whose routes it sends again. Forwarding are those of them for which
	// it has kept its forwarding state since the last session.
	Families, Forwarding []Family
}

// RestartOf reads the capability of graceful restart; the zero value without one.
func RestartOf(capabilities []bgp.ParameterCapabilityInterface) (r Restart) {
	const forwarding = 0x80
	for _, c := range capabilities {
		offer, ok := c.(*bgp.CapGracefulRestart)
		if !ok {
			continue
		}
		r = Restart{Time: time.Duration(offer.Time) * time.Second}
		for _, t := range offer.Tuples {
			f, known := FamilyFromGoBGP(bgp.NewFamily(t.AFI, t.SAFI))
			if !known {
				continue
			}
			r.Families = append(r.Families, f)
			if t.Flags&forwarding != 0 {
				r.Forwarding = append(r.Forwarding, f)
			}
		}
	}
	return r
}

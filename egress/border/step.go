package border

import (
	"fmt"
	"net/netip"
	"strings"

	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

// Step is one thing to do. Exactly one of Drop, Change, Bar, Withdraw and
// Announce is set. The steps of a peer must be done in the order in which they come.
type Step struct {
	// Drop is a route that must stop at once, before anything that waits.
	Drop *kernel.Route
	// Change is one of the kernel's state.
	Change *kernel.Change
	// Bar has prefixes that best paths must not use, or may again.
	Bar *Bar
	// Withdraw are VPN routes that servers must not use any more.
	Withdraw *Withdrawal
	// Announce are VPN routes that are new or changed.
	Announce *speaker.VPNAnnouncement
}

// Bar has prefixes of a peer that the import policy refuses since the last one, and others
// that it refuses no more.
type Bar struct {
	Peer         string
	Barred, Free []netip.Prefix
}

// Withdrawal is a batch of VPN routes to withdraw.
type Withdrawal struct {
	RD       srv6.RouteDistinguisher
	Prefixes []netip.Prefix
}

// String describes the step, for logs.
func (s Step) String() string {
	switch {
	case s.Drop != nil:
		return fmt.Sprintf("drop what is sent to %s", s.Drop.Prefix)
	case s.Bar != nil:
		return fmt.Sprintf("best paths of %s: without %s, again with %s", s.Bar.Peer, list(s.Bar.Barred), list(s.Bar.Free))
	case s.Withdraw != nil:
		return fmt.Sprintf("withdraw %s: %s", s.Withdraw.RD, list(s.Withdraw.Prefixes))
	case s.Announce != nil:
		return fmt.Sprintf("announce %s via SID %s: %s", s.Announce.RD, s.Announce.Route.Service.SID, list(s.Announce.Prefixes))
	default:
		return fmt.Sprintf("change the kernel: put %d routes, remove %d", len(s.Change.Put.Routes), len(s.Change.Remove.Routes))
	}
}

// list names some prefixes and counts the others.
func list(prefixes []netip.Prefix) string {
	const named = 4
	var words []string
	for _, p := range prefixes[:min(len(prefixes), named)] {
		words = append(words, p.String())
	}
	if more := len(prefixes) - named; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, " ")
}

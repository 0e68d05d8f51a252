package speaker

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"hikyaku/egress/speaker/vpn"
	"hikyaku/egress/speaker/wire"
)

// faultLog counts the faults of a neighbour's routes, and logs them now and then. Each
// line shows one case and has the counts of all.
type faultLog struct {
	log *slog.Logger
	// withdrawn and discarded count faults since the speaker started, by their effect.
	withdrawn, discarded uint64
	faults               seldom
	// unusable counts messages whose VPN routes packets cannot be sent by.
	unusable uint64
	routes   seldom
	// withheld limits lines on routes that are not announced to the neighbour.
	withheld seldom
}

// faulty counts the faults of an UPDATE of a neighbour.
func (d *dispatcher) faulty(ctx context.Context, s *peerState, faults []wire.Fault) {
	counted := countFaults(s.neighbor.Name, faults)
	d.emit(ctx, counted)
	d.logSeldom(&s.faults.faults, s.faults.count(counted, faults[0]))
}

// countFaults is the event of an UPDATE with faults.
func countFaults(peer string, faults []wire.Fault) Faulty {
	event := Faulty{Peer: peer}
	for _, f := range faults {
		if f.Withdraws {
			event.Withdrawn++
		} else {
			event.Discarded++
		}
	}
	return event
}

// count takes the faults of an UPDATE, and returns the line that has one as an example.
func (l *faultLog) count(counted Faulty, example wire.Fault) (line func()) {
	l.withdrawn += counted.Withdrawn
	l.discarded += counted.Discarded
	return func() {
		action := "attribute discarded"
		if example.Withdraws {
			action = "routes taken as withdrawn"
		}
		l.log.Warn("malformed path attribute", slog.String("attribute", example.Kind.String()),
			slog.String("reason", example.Reason), slog.String("action", action),
			slog.Uint64("withdrawn", l.withdrawn), slog.Uint64("discarded", l.discarded))
	}
}

// countUnusable takes VPN routes of an UPDATE that packets cannot be sent by, and returns the
// line that has one of them as an example.
func (l *faultLog) countUnusable(example fmt.Stringer, err error) (line func()) {
	l.unusable++
	return func() {
		l.log.Warn("VPN routes cannot be used", slog.String("route", example.String()),
			slog.Any("error", err), slog.Uint64("messages", l.unusable))
	}
}

// logWithheld logs now and then that routes are withheld from a neighbour, one of them as an
// example. count counts them when the line is written.
func (d *dispatcher) logWithheld(from netip.Addr, count func() Withheld, example vpn.NoRoom) {
	d.inbox.post(func(context.Context) {
		s := d.sessions[from]
		if s == nil {
			return
		}
		d.logSeldom(&s.faults.withheld, func() {
			counted := count()
			now := 0
			for _, n := range counted.Routes {
				now += n
			}
			s.faults.log.Warn("VPN route not announced: its path attributes leave no room in a message",
				slog.String("route", example.Route.String()), slog.String("rd", example.RD.String()),
				slog.Int("attributes", example.Attributes), slog.Int("message", example.Message),
				slog.Int("withheld", now), slog.Uint64("total", counted.Total))
		})
	})
}

package speaker

import (
	"context"
	"fmt"
	"log/slog"
)

// faultLog counts what is wrong with a neighbour's routes, and logs it now and then. Each
// line tells of one case and has the counts of all.
type faultLog struct {
	log *slog.Logger
	// withdrawn and discarded count faults since the speaker started, by what became of
	// them.
	withdrawn, discarded uint64
	faults               seldom
	// unusable counts messages whose VPN routes packets cannot be sent by.
	unusable uint64
	routes   seldom
	// withheld are lines on routes that the neighbour is not told of.
	withheld seldom
}

// faulty counts what was wrong with an UPDATE of a neighbour.
func (d *dispatcher) faulty(ctx context.Context, s *session, faults []attributeFault) {
	counted := countFaults(s.neighbor.Name, faults)
	d.emit(ctx, counted)
	d.logSeldom(&s.faults.faults, s.faults.count(counted, faults[0]))
}

// logger is where to tell of a session of ours with the neighbour.
func (n Neighbor) logger(c Config) *slog.Logger {
	component := "peer"
	if n.AS == c.AS {
		component = "reflector"
	}
	return c.Logger.With(slog.String("component", component), slog.String("neighbour", n.Name))
}

// countFaults is the event of an UPDATE with faults.
func countFaults(peer string, faults []attributeFault) Faulty {
	event := Faulty{Peer: peer}
	for _, f := range faults {
		if f.withdraws {
			event.Withdrawn++
		} else {
			event.Discarded++
		}
	}
	return event
}

// count takes the faults of an UPDATE, and returns the line that has one as an example.
func (l *faultLog) count(counted Faulty, example attributeFault) (line func()) {
	l.withdrawn += counted.Withdrawn
	l.discarded += counted.Discarded
	return func() {
		action := "attribute discarded"
		if example.withdraws {
			action = "routes taken as withdrawn"
		}
		l.log.Warn("malformed path attribute", slog.String("attribute", example.kind.String()),
			slog.String("reason", example.reason), slog.String("action", action),
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

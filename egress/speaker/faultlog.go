package speaker

import (
	"context"
	"log/slog"
	"time"
)

// faultInterval is how often faults of a neighbour are logged: one that a reflector
// passes on may come with each of its routes.
const faultInterval = 10 * time.Second

// faultLog counts the faults of a neighbour, and logs them: the first at once, then at
// most one line an interval. Each line tells of one fault and has the counts of all, so
// that the last line after a burst, an interval later at most, says what was counted.
type faultLog struct {
	log *slog.Logger
	// withdrawn and discarded count faults since the speaker started, by what became of
	// them.
	withdrawn, discarded uint64
	// quiet is set for an interval after each line; unlogged is the first fault that came
	// in the meantime.
	quiet    bool
	unlogged *attributeFault
}

// faulty counts what was wrong with an UPDATE of a neighbour.
func (d *dispatcher) faulty(ctx context.Context, s *session, faults []attributeFault) {
	counted := countFaults(s.neighbor.Name, faults)
	d.emit(ctx, counted)
	if s.faults.note(counted, faults[0]) {
		d.endQuiet(s)
	}
}

// endQuiet ends the interval without lines that begins now.
func (d *dispatcher) endQuiet(s *session) {
	d.after(faultInterval, func(context.Context) {
		if s.faults.resume() {
			d.endQuiet(s)
		}
	})
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

// note takes the faults of an UPDATE, of which one is an example. It tells whether it has
// logged them, so that an interval begins.
func (l *faultLog) note(counted Faulty, example attributeFault) bool {
	l.withdrawn += counted.Withdrawn
	l.discarded += counted.Discarded
	if l.quiet {
		if l.unlogged == nil {
			l.unlogged = &example
		}
		return false
	}
	l.write(example)
	return true
}

// resume ends an interval. It tells whether it has logged what came in it, so that
// another one begins.
func (l *faultLog) resume() bool {
	l.quiet = false
	if l.unlogged == nil {
		return false
	}
	l.write(*l.unlogged)
	return true
}

func (l *faultLog) write(f attributeFault) {
	l.quiet, l.unlogged = true, nil
	action := "attribute discarded"
	if f.withdraws {
		action = "routes taken as withdrawn"
	}
	l.log.Warn("malformed path attribute", slog.String("attribute", f.kind.String()), slog.String("reason", f.reason),
		slog.String("action", action), slog.Uint64("withdrawn", l.withdrawn), slog.Uint64("discarded", l.discarded))
}

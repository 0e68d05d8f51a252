package flows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Reader is the source that [Run] reads from: a [Counter].
type Reader interface {
	Read(now time.Time, s *Sample) error
	Detach() error
}

// Run reads at each interval and writes to all sinks until ctx is done. Then it detaches,
// reads once more, so that nothing is missing, and returns nil. A sink that fails is logged
// and left out from then on. When none is left, Run detaches and returns the errors of all.
func Run(ctx context.Context, r Reader, interval time.Duration, log *slog.Logger, sinks ...Sink) error {
	if len(sinks) == 0 {
		return errors.New("reading flows: no output to write to")
	}
	if interval <= 0 {
		return fmt.Errorf("reading flows each %v: choose an interval above zero", interval)
	}
	l := loop{reader: r, log: log, sinks: sinks}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			err := r.Detach()
			l.step(time.Now())
			return err
		case now := <-ticker.C:
			if l.step(now); len(l.sinks) == 0 {
				return errors.Join(append(l.failed, r.Detach())...)
			}
		}
	}
}

type loop struct {
	reader  Reader
	log     *slog.Logger
	sinks   []Sink
	failed  []error // why sinks were left out
	sample  Sample
	failing bool // the last read failed; said once
}

// step reads once and writes the flows that grew. A read that failed is written, too: it
// holds the readable part, and the rest is in the next one.
func (l *loop) step(now time.Time) {
	err := l.reader.Read(now, &l.sample)
	if err != nil && !l.failing {
		l.log.Warn("flows may be reported late", "error", err)
	}
	l.failing = err != nil
	var left []Sink
	for _, sink := range l.sinks {
		if err := sink.Write(&l.sample); err != nil {
			err = fmt.Errorf("writing flows to %T: %w", sink, err)
			l.log.Error("an output of flows is given up", "error", err)
			l.failed = append(l.failed, err)
			continue
		}
		left = append(left, sink)
	}
	l.sinks = left
}

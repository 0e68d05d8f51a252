package agent

import (
	"context"
	"time"

	"hikyaku/egress/kernel"
)

// watchLosses notifies the loop of removals by others from the kernel, until ctx ends. It
// returns when it watches, with a channel that is closed at the end.
func (e *engine) watchLosses(ctx context.Context, applier *kernel.Applier) <-chan struct{} {
	done := make(chan struct{})
	if e.opts.DryRun != nil { // which puts nothing there
		close(done)
		return done
	}
	watching := make(chan struct{})
	notify := func(loss kernel.Loss) {
		select {
		case e.losses <- loss:
		case <-ctx.Done():
		}
	}
	go func() {
		defer close(done)
		begun := func() { close(watching) }
		for ctx.Err() == nil {
			err := applier.WatchLosses(ctx, begun, notify)
			if ctx.Err() != nil {
				return
			}
			e.log.Warn("what others remove from the kernel is watched anew soon", "error", err)
			select {
			case <-time.After(firstRetry):
			case <-ctx.Done():
			}
			// Removals in the meantime are not known.
			begun = func() { go notify(kernel.Loss{Overrun: true}) }
		}
	}()
	select {
	case <-watching:
	case <-time.After(firstRetry): // it has failed, and tries on
	}
	return done
}

// restore undoes removals by others.
func (e *engine) restore(ctx context.Context, loss kernel.Loss) {
	if loss.Overrun {
		e.readAgain(ctx, time.Now().Add(lastRetry))
		return
	}
	back, err := e.tables.Restore(ctx, loss)
	e.locked(func() { e.counts.restored(back) })
	if n := len(back.Addresses) + len(back.Rules) + len(back.Nexthops) + len(back.Routes); n > 0 {
		e.log.Warn("others have removed what is ours in the kernel; it is put back",
			"addresses", len(back.Addresses), "rules", len(back.Rules), "nexthops", len(back.Nexthops), "routes", len(back.Routes))
	}
	if err != nil && ctx.Err() == nil {
		e.log.Error("putting back what others have removed from the kernel", "error", err)
		e.readAgain(ctx, time.Now().Add(lastRetry))
	}
}

// readAgain repairs the kernel's state by reading all of it, when the planner has no work
// to do or at the deadline. State that the planner is about to change would be repaired in
// vain. Such a repair may not be possible any more, as on a device that is down. It tries
// until the repair succeeds.
func (e *engine) readAgain(ctx context.Context, deadline time.Time) {
	if e.reading {
		return
	}
	e.reading = true
	e.tryToRead(ctx, deadline)
}

func (e *engine) tryToRead(ctx context.Context, deadline time.Time) {
	wait := readPause
	if !e.busy() || time.Now().After(deadline) {
		e.log.Warn("the kernel's state is read again, since others have removed some of it")
		e.locked(func() { e.counts.reads++ })
		err := e.repair(ctx)
		if err == nil || ctx.Err() != nil {
			e.reading = false
			return
		}
		e.log.Error("repairing the kernel's state", "error", err)
		wait = lastRetry
	}
	time.AfterFunc(wait, func() { e.post(ctx, func(ctx context.Context) { e.tryToRead(ctx, deadline) }) })
}

// readPause is how often the planner is checked for work to do.
const readPause = 200 * time.Millisecond

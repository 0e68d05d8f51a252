package speaker

import (
	"context"
	"time"
)

// seldomInterval is how often lines of one kind are logged: a reflector may make the same
// mistake with each of its routes.
const seldomInterval = 10 * time.Second

// seldom logs the first line of a kind at once, then at most one an interval: the first
// that came in it, at its end. Lines have counts, so that the last one after a burst says
// how many there were.
type seldom struct {
	// quiet is set for an interval after each line.
	quiet    bool
	unlogged func()
}

// log logs a line, now or at the end of the interval. It reports whether an interval begins.
func (l *seldom) log(line func()) bool {
	if l.quiet {
		if l.unlogged == nil {
			l.unlogged = line
		}
		return false
	}
	l.quiet = true
	line()
	return true
}

// resume ends an interval. It reports whether it has logged the lines that came in it, so
// that another one begins.
func (l *seldom) resume() bool {
	line := l.unlogged
	l.quiet, l.unlogged = line != nil, nil
	if line != nil {
		line()
	}
	return line != nil
}

// logSeldom logs a line of a kind.
func (d *dispatcher) logSeldom(l *seldom, line func()) {
	if l.log(line) {
		d.endQuiet(l)
	}
}

// endQuiet ends the interval without lines that begins now.
func (d *dispatcher) endQuiet(l *seldom) {
	d.after(seldomInterval, func(context.Context) {
		if l.resume() {
			d.endQuiet(l)
		}
	})
}

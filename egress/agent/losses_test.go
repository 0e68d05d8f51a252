package agent

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
)

// losing is the kernel's tables, of which others remove something.
type losing struct {
	counting
	restored int
	refused  error
}

func (l *losing) Restore(context.Context, kernel.Loss) (kernel.State, error) {
	l.restored++
	return kernel.State{Rules: make([]kernel.Rule, 2)}, l.refused
}

func TestLosses(t *testing.T) {
	for _, test := range []struct {
		name     string
		loss     kernel.Loss
		refused  error
		restored int
		resets   int
	}{
		{"reported removals need no reading", kernel.Loss{}, nil, 1, 0},
		{"what cannot be put back alone is read", kernel.Loss{}, errors.New("refused"), 1, 1},
		{"after an overrun the kernel is read", kernel.Loss{Overrun: true}, nil, 0, 1},
	} {
		tables, part := &losing{refused: test.refused}, &onePart{}
		e := newEngine(&config.Common{}, config.RoleServer, Options{Log: slog.New(slog.DiscardHandler)}, part)
		e.tables = tables
		e.restore(t.Context(), test.loss)
		if tables.restored != test.restored || tables.resets != test.resets {
			t.Errorf("%s: put back %d times, read %d times, want %d and %d",
				test.name, tables.restored, tables.resets, test.restored, test.resets)
		}
	}
}

// The planner may be about to remove the lost state, as the routes of a device that is
// down.
func TestAllIsReadWhenThereIsNothingElseToDo(t *testing.T) {
	tables, part := &losing{}, &onePart{left: 1}
	e := newEngine(&config.Common{}, config.RoleServer, Options{Log: slog.New(slog.DiscardHandler)}, part)
	e.tables = tables
	for range 3 {
		e.restore(t.Context(), kernel.Loss{Overrun: true})
	}
	if tables.resets != 0 {
		t.Errorf("all was read %d times while the planner had work to do", tables.resets)
	}
	part.left = 0
	(<-e.calls)(t.Context())
	if tables.resets != 1 {
		t.Errorf("all was read %d times after three overruns, want once", tables.resets)
	}
	e.restore(t.Context(), kernel.Loss{Overrun: true})
	if tables.resets != 2 {
		t.Errorf("a later overrun is not read")
	}
}

package agent

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
)

// onePart is a role with one part, whose work the test does.
type onePart struct {
	noRoutes
	left    int // pieces of work
	failed  bool
	retried chan struct{}
	do      func(context.Context) error
}

func (p *onePart) names() []string          { return []string{"part"} }
func (p *onePart) pending(string) bool      { return p.left > 0 && !p.failed }
func (p *onePart) want() kernel.State       { return kernel.State{} }
func (p *onePart) fail(string, error)       { p.failed = true }
func (p *onePart) told()                    {}
func (p *onePart) handle(speaker.Event)     {}
func (p *onePart) expire()                  {}
func (p *onePart) problems() []string       { return nil }
func (p *onePart) retry(string)             { p.failed = false; close(p.retried) }
func (p *onePart) link(kernel.Link)         {}
func (p *onePart) drain(string, bool) error { return nil }

func (p *onePart) work(ctx context.Context, _ string) error {
	p.left--
	return p.do(ctx)
}

// unchanging stands for the kernel's tables and the BGP speaker.
type unchanging struct {
	tables
	bgp
}

func (unchanging) Reset(context.Context, kernel.State) error { return nil }
func (unchanging) Events() <-chan speaker.Event              { return nil }
func (unchanging) AnnouncedAll()                             {}

// startPart runs the loop of an engine with the part until the test ends.
func startPart(t *testing.T, p *onePart) *engine {
	t.Helper()
	p.retried = make(chan struct{})
	c := &config.Common{}
	c.BGP.StaleTime = time.Hour
	e := newEngine(c, config.RoleServer, Options{Log: slog.New(slog.DiscardHandler)}, p)
	e.tables, e.bgp = unchanging{}, unchanging{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.loop(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return e
}

// A planned step counts as done: who asked for it may go away, but it must be taken, or
// packets go on to a peer that has withdrawn the prefix.
func TestStepsOutliveTheRequest(t *testing.T) {
	request, leave := context.WithCancel(t.Context())
	outcome := make(chan error, 1)
	p := &onePart{do: func(ctx context.Context) error {
		leave()
		outcome <- ctx.Err()
		return ctx.Err()
	}}
	e := startPart(t, p)
	if err := e.do(request, func() error { e.locked(func() { p.left = 1 }); return nil }); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := <-outcome; err != nil {
		t.Errorf("the step ended with the request: %v", err)
	}
}

func TestWhatFailsInARequestIsTriedAgainAfterIt(t *testing.T) {
	request, leave := context.WithCancel(t.Context())
	p := &onePart{do: func(context.Context) error { return errors.New("refused") }}
	e := startPart(t, p)
	if err := e.do(request, func() error { e.locked(func() { p.left = 1 }); return nil }); err != nil {
		t.Fatal(err)
	}
	leave()
	select {
	case <-p.retried:
	case <-time.After(time.Minute):
		t.Error("the part stays out of use")
	}
}

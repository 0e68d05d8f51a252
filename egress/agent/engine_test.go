package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
)

// onePart is a role with one part, whose work the test does.
type onePart struct {
	noRoutes
	left    int         // pieces of work
	when    func() bool // there is work; nil: always
	failed  bool
	retried chan struct{}
	do      func(context.Context) error
	changed func()
}

func (p *onePart) names() []string          { return []string{"part"} }
func (p *onePart) want() kernel.State       { return kernel.State{} }
func (p *onePart) fail(string, error)       { p.failed = true }
func (p *onePart) handle(speaker.Event)     {}
func (p *onePart) expire()                  {}
func (p *onePart) problems() []string       { return nil }
func (p *onePart) retry(string)             { p.failed = false; close(p.retried) }
func (p *onePart) link(kernel.Link)         {}
func (p *onePart) drain(string, bool) error { return nil }

func (p *onePart) pending(string) bool {
	return p.left > 0 && !p.failed && (p.when == nil || p.when())
}

func (p *onePart) pathsChanged() {
	if p.changed != nil {
		p.changed()
	}
}

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
func (unchanging) Withheld(string) speaker.Withheld          { return speaker.Withheld{} }

// startPart runs the loop of an engine with the part until the test ends.
func startPart(t *testing.T, p *onePart) *engine {
	t.Helper()
	p.retried = make(chan struct{})
	c := &config.Common{}
	c.BGP.StaleTime = time.Hour
	e := newEngine(c, config.RoleServer, Options{Log: slog.New(slog.DiscardHandler)}, p)
	startLoop(t, e)
	return e
}

// startLoop runs the loop of an engine, without kernel and BGP, until the test ends.
func startLoop(t *testing.T, e *engine) {
	t.Helper()
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
}

// endedBGP stands for a speaker that has ended.
type endedBGP struct{ bgp }

func (endedBGP) Events() <-chan speaker.Event {
	events := make(chan speaker.Event)
	close(events)
	return events
}

// A stop ends BGP, too, and which of the two the loop sees first is chance.
func TestTheEndOfBGPIsAFailureUnlessItIsAStop(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, test := range []struct {
		name   string
		ctx    context.Context
		failed bool
	}{
		{"stopped", stopped, false},
		{"running", t.Context(), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 100 {
				e := newEngine(&config.Common{}, config.RoleServer, Options{Log: slog.New(slog.DiscardHandler)}, &onePart{})
				e.common.BGP.StaleTime = time.Hour
				e.bgp = endedBGP{}
				if err := e.loop(test.ctx); (err != nil) != test.failed {
					t.Fatalf("the loop ended with %v", err)
				}
			}
		})
	}
}

// A planned step counts as done. The caller that asked for it may go away, but the step
// must be taken. Else packets go on to a peer that has withdrawn the prefix.
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

func TestFailedStepsOfARequestAreTriedAgainAfterIt(t *testing.T) {
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

// A disk may take seconds. Prefixes that peers withdraw in the meantime must leave the
// tables at once, and requests must be answered.
func TestNothingWaitsForTheDisk(t *testing.T) {
	e := startPart(t, &onePart{})
	saving, saved := make(chan struct{}), make(chan error)
	e.save = func(api.Settings) error {
		saving <- struct{}{}
		return <-saved
	}
	b := backend{e}
	changed := make(chan error)
	go func() { changed <- b.SetPolicy(t.Context(), api.Policy{Name: "one"}) }()
	<-saving

	if err := e.do(t.Context(), func() error { return nil }); err != nil {
		t.Errorf("the loop, while settings are saved: %v", err)
	}
	if policies, err := b.Policies(t.Context()); err != nil || len(policies) != 0 {
		t.Errorf("policies before they are saved: %v, %v; want none", policies, err)
	}
	saved <- nil
	if err := <-changed; err != nil {
		t.Fatal(err)
	}
	if policies, err := b.Policies(t.Context()); err != nil || len(policies) != 1 {
		t.Errorf("policies after one was set: %v, %v", policies, err)
	}
}

func TestUnsavedSettingsDoNotComeIntoForce(t *testing.T) {
	e := startPart(t, &onePart{})
	full := errors.New("no space left")
	e.save = func(api.Settings) error { return full }
	b := backend{e}
	if err := b.SetPolicy(t.Context(), api.Policy{Name: "one"}); !errors.Is(err, full) {
		t.Errorf("setting a policy: %v, want %v", err, full)
	}
	if policies, err := b.Policies(t.Context()); err != nil || len(policies) != 0 {
		t.Errorf("policies: %v, %v; want none", policies, err)
	}
}

// The caller has got an error: the requested settings must not come with the next start.
func TestSettingsNotTakenByTheLoopAreNotSaved(t *testing.T) {
	e := startPart(t, &onePart{})
	var saved []int
	request, leave := context.WithCancel(t.Context())
	e.save = func(settings api.Settings) error {
		saved = append(saved, len(settings.Policies))
		leave()
		return nil
	}
	held, release := make(chan struct{}), make(chan struct{})
	e.post(t.Context(), func(context.Context) { close(held); <-release })
	<-held
	defer close(release)
	err := backend{e}.SetPolicy(request, api.Policy{Name: "one"})
	if !errors.Is(err, errNotTaken) || !errors.Is(err, context.Canceled) {
		t.Errorf("setting a policy of a loop that is busy: %v", err)
	}
	if !slices.Equal(saved, []int{1, 0}) {
		t.Errorf("numbers of policies saved: %v; want one, then none", saved)
	}
}

// MPTCP must hear of a policy that is in force, though nobody waits for the answer.
func TestPoliciesArePublishedThoughTheRequestHasEnded(t *testing.T) {
	request, leave := context.WithCancel(t.Context())
	answered, notified := make(chan struct{}), make(chan struct{})
	p := &onePart{do: func(context.Context) error { leave(); <-answered; return nil }}
	e := startPart(t, p)
	e.save = func(api.Settings) error { return nil }
	e.locked(func() {
		p.left, p.changed = 1, sync.OnceFunc(func() { close(notified) })
		// Work before that would end the request while it waits for the loop.
		p.when = func() bool { return len(e.settings.Policies) > 0 }
	})
	err := backend{e}.SetPolicy(request, api.Policy{Name: "one"})
	close(answered)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a request that ended meanwhile: %v", err)
	}
	select {
	case <-notified:
	case <-time.After(10 * time.Second):
		t.Error("nobody is notified of the policy")
	}
}

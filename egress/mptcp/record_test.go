package mptcp

import (
	"slices"
	"sync"
	"time"
)

// record notes events and commands with their times.
type record struct {
	mu       sync.Mutex
	events   []timedEvent
	commands []Command
}

type timedEvent struct {
	Event
	at time.Time
}

func (r *record) event(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, timedEvent{e, time.Now()})
}

func (r *record) command(c Command, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands = append(r.commands, c)
}

// last returns the latest event of a kind.
func (r *record) last(kind EventKind) (timedEvent, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Backward(r.events) {
		if e.Kind == kind {
			return e, true
		}
	}
	return timedEvent{}, false
}

// all returns the events of a kind.
func (r *record) all(kind EventKind) []timedEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.events), func(e timedEvent) bool { return e.Kind != kind })
}

// sent returns the commands.
func (r *record) sent() []Command {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.commands)
}

// tokenOf returns the token that the client's side has for a stream.
func (r *record) tokenOf(s *stream) Token {
	for _, e := range r.all(EventCreated) {
		if unmap(e.Local) == s.remote() {
			return e.Token
		}
	}
	return 0
}

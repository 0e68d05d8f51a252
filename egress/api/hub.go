package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
)

// Event is something that has happened: exactly one field is set.
type Event struct {
	// Snapshot replaces all that came before, lookups included. It comes
	// first, and when a watcher was too slow for the events.
	Snapshot *Snapshot
	// Path has changed.
	Path *Path
	// Session has changed.
	Session *Session
	// Routes have changed.
	Routes *RouteChange
	// Ready as in [Status] has changed.
	Ready *Readiness
	// Policies have changed; these are all that there are now.
	Policies *PolicyList
}

// maxRoutePrefixes is the number of prefixes that one event names at most.
const maxRoutePrefixes = 1000

// maxQueued is the number of events that a watcher may be behind.
const maxQueued = 1024

// Hub hands events to watchers. The zero value is ready for use.
type Hub struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{}
}

// Publish hands an event to every watcher; it never waits for one. The change
// must be visible through the [Backend] before. Of a Snapshot only its presence
// counts: it makes the server ask the backend anew.
func (h *Hub) Publish(event Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watchers) == 0 {
		return
	}
	if event.Snapshot != nil {
		for w := range h.watchers {
			w.restart()
		}
		return
	}
	message, err := encodeEvent(event)
	if err != nil {
		panic("api: publishing: " + err.Error()) // Only by an event that has no field.
	}
	for w := range h.watchers {
		w.push(message)
	}
}

// watch adds a watcher, which begins with a snapshot.
func (h *Hub) watch() *watcher {
	w := &watcher{wake: make(chan struct{}, 1)}
	w.restart()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == nil {
		h.watchers = map[*watcher]struct{}{}
	}
	h.watchers[w] = struct{}{}
	return w
}

func (h *Hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
}

// watcher is one stream's queue.
type watcher struct {
	// wake has a token while there is something to take.
	wake chan struct{}

	mu       sync.Mutex
	snapshot bool
	queue    [][]byte
}

func (w *watcher) push(message []byte) {
	w.mu.Lock()
	if len(w.queue) == maxQueued {
		w.mu.Unlock()
		w.restart()
		return
	}
	w.queue = append(w.queue, message)
	w.mu.Unlock()
	w.signal()
}

// restart drops the queued messages, since a snapshot holds them.
func (w *watcher) restart() {
	w.mu.Lock()
	w.snapshot, w.queue = true, nil
	w.mu.Unlock()
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take returns the queued messages, and whether a snapshot comes before them.
func (w *watcher) take() (snapshot bool, messages [][]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	snapshot, messages = w.snapshot, w.queue
	w.snapshot, w.queue = false, nil
	return snapshot, messages
}

// encodeEvent returns the event as it goes over the wire.
func encodeEvent(event Event) ([]byte, error) {
	name, data := "", any(nil)
	switch {
	case event.Snapshot != nil:
		name, data = "snapshot", event.Snapshot
	case event.Path != nil:
		name, data = "path", event.Path
	case event.Session != nil:
		name, data = "session", event.Session
	case event.Routes != nil:
		change := *event.Routes
		if len(change.Prefixes) > maxRoutePrefixes {
			change.Prefixes = nil
		}
		name, data = "routes", change
	case event.Ready != nil:
		name, data = "ready", event.Ready
	case event.Policies != nil:
		name, data = "policies", event.Policies
	default:
		return nil, fmt.Errorf("an event without a field")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\ndata: ", name)
	// Encode ends the line; JSON has no line ends of its own.
	if err := json.NewEncoder(&b).Encode(data); err != nil {
		return nil, fmt.Errorf("encoding a %s event: %w", name, err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// decodeEvent reads the output of encodeEvent; false where the name is unknown.
func decodeEvent(name string, data []byte) (Event, bool, error) {
	var event Event
	var into any
	switch name {
	case "snapshot":
		event.Snapshot = new(Snapshot)
		into = event.Snapshot
	case "path":
		event.Path = new(Path)
		into = event.Path
	case "session":
		event.Session = new(Session)
		into = event.Session
	case "routes":
		event.Routes = new(RouteChange)
		into = event.Routes
	case "ready":
		event.Ready = new(Readiness)
		into = event.Ready
	case "policies":
		event.Policies = new(PolicyList)
		into = event.Policies
	default:
		return event, false, nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return Event{}, false, fmt.Errorf("reading a %s event: %w", name, err)
	}
	return event, true, nil
}

package api

// Event is something that has happened: exactly one field is set.
type Event struct {
	// Snapshot replaces all that was told before, lookups included. It comes
	// first, after a reload, and when a watcher was too slow for what happened.
	Snapshot *Snapshot
	// Path has changed.
	Path *Path
	// Session has changed.
	Session *Session
	// Routes have changed.
	Routes *RouteChange
	// Ready as in [Status] has changed.
	Ready *bool
	// Policies are all that there are now.
	Policies *[]Policy
}

// Hub hands events to watchers. The zero value is ready for use.
type Hub struct{}

// Publish hands an event to every watcher; it never waits. The change must be
// visible through the [Backend] before. A Snapshot need not be filled in: it
// asks the server to send a fresh one.
func (h *Hub) Publish(event Event) { panic("not yet") }

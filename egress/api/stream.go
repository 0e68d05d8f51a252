package api

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	// keepAlive is the time after which a stream in which nothing happens gets a
	// comment, so that a dead watcher is noticed.
	keepAlive = 15 * time.Second
	// patience is how long a watcher may take no byte.
	patience = 10 * time.Second
)

// events is GET /v1/events: server-sent events (WHATWG HTML §9.2).
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	process := processOf(r.Context())
	if err := s.streams.begin(process); err != nil {
		return err
	}
	defer s.streams.end(process)
	watcher := s.hub.watch()
	defer s.hub.leave(watcher)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	stream := stream{w, http.NewResponseController(w)}
	// The server's limit is for requests, a stream has no end.
	if err := stream.control.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("opening an event stream: %w", err)
	}
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case <-r.Context().Done():
			return nil
		case <-s.stopping:
			return nil
		case <-tick.C:
			if stream.write([]byte(":\n\n")) != nil {
				return nil // The watcher is gone.
			}
		case <-watcher.wake:
			if s.forward(r.Context(), stream, watcher) != nil {
				return nil
			}
		}
	}
}

// forward sends the messages of a watcher's queue.
func (s *Server) forward(ctx context.Context, to stream, watcher *watcher) error {
	snapshot, messages := watcher.take()
	if snapshot {
		message, err := s.snapshot(ctx)
		if err != nil {
			s.log.Error("sending a snapshot to an event stream", "error", err)
			return err
		}
		messages = append([][]byte{message}, messages...)
	}
	return to.write(messages...)
}

// snapshot asks the backend for the state that events keep up to date.
func (s *Server) snapshot(ctx context.Context) ([]byte, error) {
	status, err := s.backend.Status(ctx)
	if err != nil {
		return nil, err
	}
	paths, err := s.backend.Paths(ctx)
	if err != nil {
		return nil, err
	}
	sessions, err := s.backend.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	policies, err := s.backend.Policies(ctx)
	if err != nil {
		return nil, err
	}
	return encodeEvent(Event{Snapshot: &Snapshot{
		Ready: status.Ready, Paths: paths, Sessions: sessions, Policies: policies,
	}})
}

// stream is the answer that events are written to.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (s stream) write(messages ...[]byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	for _, message := range messages {
		if _, err := s.w.Write(message); err != nil {
			return err
		}
	}
	return s.control.Flush()
}

package api

import (
	"context"
	"log/slog"
	"net"
	"net/http"
)

// Server serves the API.
type Server struct{}

// Options of a [Server].
type Options struct {
	// Log defaults to slog.Default().
	Log *slog.Logger
	// Metrics is served at /metrics; nil: not found.
	Metrics http.Handler
}

// NewServer returns a server of what backend knows and of the hub's events.
func NewServer(backend Backend, hub *Hub, options Options) *Server { panic("not yet") }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { panic("not yet") }

// Serve answers requests until ctx ends or the listener fails, then ends open
// event streams, waits a second for other requests, and closes the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error { panic("not yet") }

package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Server serves the API.
type Server struct {
	backend Backend
	hub     *Hub
	log     *slog.Logger
	mux     *http.ServeMux
	// routes holds the patterns of mux, for the test against the OpenAPI
	// document.
	routes []string
	// stopping ends event streams.
	stopping chan struct{}
	streams  streams
}

// Options of a [Server].
type Options struct {
	// Log defaults to slog.Default().
	Log *slog.Logger
	// Metrics is served at /metrics; nil: not found.
	Metrics http.Handler
}

// NewServer returns a server of backend's knowledge and of the hub's events.
func NewServer(backend Backend, hub *Hub, options Options) *Server {
	s := &Server{
		backend:  backend,
		hub:      hub,
		log:      options.Log,
		mux:      http.NewServeMux(),
		stopping: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.handle("GET /healthz", func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, err := w.Write([]byte("ok\n"))
		return err
	})
	if options.Metrics != nil {
		s.handle("GET /metrics", func(w http.ResponseWriter, r *http.Request) error {
			options.Metrics.ServeHTTP(w, r)
			return nil
		})
	}
	s.handle("GET /v1/status", s.status)
	s.handle("GET /v1/paths", s.paths)
	s.handle("GET /v1/paths/{name}", s.path)
	s.handle("PUT /v1/paths/{name}/drain", s.drain)
	s.handle("DELETE /v1/paths/{name}/drain", s.undrain)
	s.handle("GET /v1/sessions", s.sessions)
	s.handle("GET /v1/routers", s.routers)
	s.handle("GET /v1/lookup", s.lookup)
	s.handle("POST /v1/lookup", s.lookups)
	s.handle("GET /v1/policies", s.policies)
	s.handle("GET /v1/policies/{name}", s.policy)
	s.handle("PUT /v1/policies/{name}", s.setPolicy)
	s.handle("DELETE /v1/policies/{name}", s.deletePolicy)
	s.handle("GET /v1/connections", s.connections)
	s.handle("PUT /v1/connections", s.setConnection)
	s.handle("GET /v1/routes", s.routeList)
	s.handle("GET /v1/why", s.why)
	s.handle("GET /v1/peers", s.peers)
	s.handle("PUT /v1/peers/{name}", s.setPeer)
	s.handle("DELETE /v1/peers/{name}", s.deletePeer)
	s.handle("POST /v1/reload", s.reload)
	s.handle("GET /v1/events", s.events)
	return s
}

// handle adds a route; an error that handler returns becomes the answer.
func (s *Server) handle(pattern string, handler func(http.ResponseWriter, *http.Request) error) {
	s.routes = append(s.routes, pattern)
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := handler(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, pattern := s.mux.Handler(r); pattern == "" {
		s.noRoute(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// noRoute answers as the mux would, but in JSON.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		writeJSON(w, http.StatusNotFound, Failure{fmt.Sprintf("there is nothing at %s", r.URL.Path)})
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeJSON(w, http.StatusMethodNotAllowed,
		Failure{fmt.Sprintf("%s is not possible on %s; %s is", r.Method, r.URL.Path, strings.Join(allowed, ", "))})
}

// statuses are the answers to a backend's errors.
var statuses = []struct {
	err    error
	status int
}{
	{ErrInvalid, http.StatusBadRequest},
	{ErrNotFound, http.StatusNotFound},
	{ErrConflict, http.StatusConflict},
	{ErrUnsupported, http.StatusNotImplemented},
	{errBusy, http.StatusServiceUnavailable},
}

var errBusy = errors.New("busy")

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	i := slices.IndexFunc(statuses, func(known struct {
		err    error
		status int
	}) bool {
		return errors.Is(err, known.err)
	})
	if i >= 0 {
		writeJSON(w, statuses[i].status, Failure{err.Error()})
		return
	}
	if r.Context().Err() != nil {
		return // Whoever asked is gone.
	}
	s.log.Error("answering an API request", "method", r.Method, "path", r.URL.Path, "error", err)
	writeJSON(w, http.StatusInternalServerError, Failure{err.Error()})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// Whoever asked may be gone, which is nobody's fault.
	_ = json.NewEncoder(w).Encode(value)
}

// Serve answers requests until ctx ends or the listener fails. Then it ends open
// event streams, waits a second for other requests, and closes the listener. It
// can be called once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ConnContext:       withProcess,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	stopped := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(stopped)
		close(s.stopping)
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := server.Shutdown(patience); err != nil {
			server.Close()
		}
	})
	err := server.Serve(listener)
	if unhook() {
		return fmt.Errorf("serving the API on %s: %w", listener.Addr(), err)
	}
	<-stopped
	return nil
}

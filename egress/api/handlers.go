package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"
)

func (s *Server) status(w http.ResponseWriter, r *http.Request) error {
	status, err := s.backend.Status(r.Context())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, status)
	return nil
}

func (s *Server) paths(w http.ResponseWriter, r *http.Request) error {
	paths, err := s.backend.Paths(r.Context())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, PathList{paths})
	return nil
}

func (s *Server) path(w http.ResponseWriter, r *http.Request) error {
	paths, err := s.backend.Paths(r.Context())
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	i := slices.IndexFunc(paths, func(p Path) bool { return p.Name == name })
	if i < 0 {
		return fmt.Errorf("%w: there is no path `%s`", ErrNotFound, name)
	}
	writeJSON(w, http.StatusOK, paths[i])
	return nil
}

// maxReason is the length of a drain's reason in bytes.
const maxReason = 256

func (s *Server) drain(w http.ResponseWriter, r *http.Request) error {
	var request DrainRequest
	if err := readBody(w, r, &request); err != nil {
		return err
	}
	if len(request.Reason) > maxReason {
		return fmt.Errorf("%w: `reason` has %d bytes, at most %d are kept", ErrInvalid, len(request.Reason), maxReason)
	}
	return s.setDrain(w, r, &Drain{Reason: request.Reason, Since: time.Now().UTC()})
}

func (s *Server) undrain(w http.ResponseWriter, r *http.Request) error {
	return s.setDrain(w, r, nil)
}

func (s *Server) setDrain(w http.ResponseWriter, r *http.Request, drain *Drain) error {
	path, err := s.backend.SetDrain(r.Context(), r.PathValue("name"), drain)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, path)
	return nil
}

func (s *Server) sessions(w http.ResponseWriter, r *http.Request) error {
	sessions, err := s.backend.Sessions(r.Context())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, SessionList{sessions})
	return nil
}

func (s *Server) lookup(w http.ResponseWriter, r *http.Request) error {
	client, err := parseClient(r.URL.Query().Get("client"))
	if err != nil {
		return fmt.Errorf("parameter `client`: %w", err)
	}
	lookup, err := s.backend.Lookup(r.Context(), client)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, lookup)
	return nil
}

// maxLookups is the number of clients in one request.
const maxLookups = 1000

func (s *Server) lookups(w http.ResponseWriter, r *http.Request) error {
	var request LookupRequest
	if err := readBody(w, r, &request); err != nil {
		return err
	}
	if len(request.Clients) > maxLookups {
		return fmt.Errorf("%w: `clients` has %d entries, at most %d are answered", ErrInvalid, len(request.Clients), maxLookups)
	}
	answer := LookupList{Lookups: make([]Lookup, 0, len(request.Clients))}
	for _, client := range request.Clients {
		lookup, err := s.backend.Lookup(r.Context(), netip.Prefix(client))
		if err != nil {
			return err
		}
		answer.Lookups = append(answer.Lookups, lookup)
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

func (s *Server) policies(w http.ResponseWriter, r *http.Request) error {
	policies, err := s.backend.Policies(r.Context())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, PolicyList{policies})
	return nil
}

func (s *Server) policy(w http.ResponseWriter, r *http.Request) error {
	policies, err := s.backend.Policies(r.Context())
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	i := slices.IndexFunc(policies, func(p Policy) bool { return p.Name == name })
	if i < 0 {
		return fmt.Errorf("%w: there is no policy `%s`", ErrNotFound, name)
	}
	writeJSON(w, http.StatusOK, policies[i])
	return nil
}

func (s *Server) setPolicy(w http.ResponseWriter, r *http.Request) error {
	var request policyRequest
	if err := readBody(w, r, &request); err != nil {
		return err
	}
	name := r.PathValue("name")
	policy := request.policy(name)
	if err := policy.check(); err != nil {
		return err
	}
	if policy.Name != name {
		return fmt.Errorf("%w: `name` is `%s`, but the request is for `%s`", ErrConflict, policy.Name, name)
	}
	if err := s.backend.SetPolicy(r.Context(), policy); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, policy)
	return nil
}

func (s *Server) deletePolicy(w http.ResponseWriter, r *http.Request) error {
	if err := s.backend.DeletePolicy(r.Context(), r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) setConnection(w http.ResponseWriter, r *http.Request) error {
	var connection Connection
	if err := readBody(w, r, &connection); err != nil {
		return err
	}
	if err := connection.check(); err != nil {
		return err
	}
	if err := s.backend.SetConnection(r.Context(), connection); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

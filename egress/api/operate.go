package api

import "net/http"

func (s *Server) reload(w http.ResponseWriter, r *http.Request) error {
	changes, err := s.backend.Reload(r.Context())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, Reloaded{changes})
	return nil
}

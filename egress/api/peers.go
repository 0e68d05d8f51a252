package api

import (
	"net/http"
	"net/netip"
)

// PeerSettings are the keys of a [[peer]] of a border's configuration but `name`, with their
// values. The configuration checks them.
type PeerSettings = map[string]any

// Peer is an egress peer of a border's configuration.
type Peer struct {
	Name    string     `json:"name"`
	Number  uint32     `json:"number"`
	Address netip.Addr `json:"address"`
	ASN     uint32     `json:"asn"`
	// Source is "file", or "api" for a peer that was added by PUT /v1/peers/{name}.
	Source string `json:"source"`
}

// PeerList is the answer to GET /v1/peers.
type PeerList struct {
	Peers List[Peer] `json:"peers"`
}

func (s *Server) peers(w http.ResponseWriter, r *http.Request) error {
	peers, err := s.backend.Peers(r.Context())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, PeerList{peers})
	return nil
}

func (s *Server) setPeer(w http.ResponseWriter, r *http.Request) error {
	var settings PeerSettings
	if err := readBody(w, r, &settings); err != nil {
		return err
	}
	changes, err := s.backend.SetPeer(r.Context(), r.PathValue("name"), settings)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, Reloaded{changes})
	return nil
}

func (s *Server) deletePeer(w http.ResponseWriter, r *http.Request) error {
	changes, err := s.backend.SetPeer(r.Context(), r.PathValue("name"), nil)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, Reloaded{changes})
	return nil
}

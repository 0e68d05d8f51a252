package api

import (
	"net/http"
	"net/netip"
	"time"
)

// ManagedConnection is an MPTCP connection as the agent has it.
type ManagedConnection struct {
	Token uint32 `json:"token"`
	// Local and Remote are those of the first subflow, which may be gone.
	Local  netip.AddrPort `json:"local"`
	Remote netip.AddrPort `json:"remote"`
	// Since when the agent knows it.
	Since time.Time `json:"since"`
	// Class of its content, as the edge server says; empty for none.
	Class string `json:"class"`
	// Mode is [Aggregated] where addresses are announced to it, or [Plain].
	Mode Mode `json:"mode"`
	// Reason for the mode and for the subflows that carry data, a sentence.
	Reason   string               `json:"reason"`
	Subflows List[ManagedSubflow] `json:"subflows"`
}

// ManagedSubflow is a subflow of a [ManagedConnection].
type ManagedSubflow struct {
	Local  netip.AddrPort `json:"local"`
	Remote netip.AddrPort `json:"remote"`
	// Path of the local address; empty where it is no EPE address.
	Path string `json:"path"`
	// Backup: it carries data only while no other subflow can, as the agent wants.
	Backup bool `json:"backup"`
	// ClientBackup: the client wants the same.
	ClientBackup bool `json:"client_backup"`
}

// ConnectionList is the answer to GET /v1/connections.
type ConnectionList struct {
	Connections List[ManagedConnection] `json:"connections"`
	// Total is the number of connections; those beyond the limit are left out.
	Total int `json:"total"`
}

func (s *Server) connections(w http.ResponseWriter, r *http.Request) error {
	within, limit, err := selection(r)
	if err != nil {
		return err
	}
	list, err := s.backend.Connections(r.Context(), within, limit)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

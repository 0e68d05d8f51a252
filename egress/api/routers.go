package api

import (
	"context"
	"net/http"
	"net/netip"
	"time"
)

// RouterKind is the protocol by which a router hands on routes.
type RouterKind string

// The kinds of routers.
const (
	RouterBMP     RouterKind = "bmp"      // RFC 7854
	RouterAddPath RouterKind = "add-path" // RFC 7911
)

// RouterPeerState is the use that is made of a router's peer.
type RouterPeerState string

// The states of a router's peer.
const (
	// RouterPeerUp: its routes are taken from the router.
	RouterPeerUp RouterPeerState = "up"
	// RouterPeerDown: the router has no session with it (BMP), or sends no route of it (ADD-PATH).
	RouterPeerDown RouterPeerState = "down"
	// RouterPeerLeftOut: it has sent more routes than max_prefixes.
	RouterPeerLeftOut RouterPeerState = "left_out"
	// RouterPeerUnused: a BMP router reports it, and its routes are not taken from there.
	RouterPeerUnused RouterPeerState = "unused"
)

// RouterPeerStates are all states.
var RouterPeerStates = []RouterPeerState{RouterPeerUp, RouterPeerDown, RouterPeerLeftOut, RouterPeerUnused}

// Router is a router or route reflector of the own AS that hands on the routes of egress peers.
type Router struct {
	// Name as configured; of a BMP router its address.
	Name    string     `json:"name"`
	Kind    RouterKind `json:"kind"`
	Address netip.Addr `json:"address"`
	// Up: it is connected.
	Up bool `json:"up"`
	// Since is when Up last changed.
	Since time.Time `json:"since"`
	// Description is the router's of itself (BMP); absent where there is none.
	Description string `json:"description,omitempty"`
	// Ends counts how often its connection has ended since the agent started.
	Ends uint64 `json:"ends"`
	// Error is why it is down, a sentence; absent while it is up.
	Error string `json:"error,omitempty"`
	// LastError is why its last connection has ended, also while it is up; absent where none has.
	LastError string `json:"last_error,omitempty"`
	// Routes are the sums of those of its peers.
	Routes Routes `json:"routes"`
	// Peers whose routes it hands on, by address.
	Peers List[RouterPeer] `json:"peers"`
	// Refused counts the routes of the peers that are up which the import policy refuses. The
	// reason "no_peer" has announcements of paths that are of none of the configured peers.
	Refused List[Refused] `json:"refused"`
}

// RouterPeer is a peer of a [Router].
type RouterPeer struct {
	// Name as configured; absent where it is not.
	Name    string          `json:"name,omitempty"`
	Address netip.Addr      `json:"address"`
	ASN     uint32          `json:"asn"`
	State   RouterPeerState `json:"state"`
	// Reason for the state, and the fault of a peer that is up, a sentence; else absent.
	Reason string `json:"reason,omitempty"`
	// Routes that the agent has of it from the router, those that the import policy refuses
	// among them.
	Routes Routes `json:"routes"`
}

// RouterList is the answer to GET /v1/routers.
type RouterList struct {
	Routers List[Router] `json:"routers"`
}

func (s *Server) routers(w http.ResponseWriter, r *http.Request) error {
	routers, err := s.backend.Routers(r.Context())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, RouterList{routers})
	return nil
}

// Routers returns the routers that hand on the routes of egress peers.
func (c *Client) Routers(ctx context.Context) ([]Router, error) {
	var list RouterList
	err := c.ask(ctx, "GET", "/v1/routers", nil, &list)
	return list.Routers, err
}

package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
)

// RouteState is the state of an EPE route at an agent.
type RouteState string

// The states of a route.
const (
	// RouteUsed: packets that take its path go by it.
	RouteUsed RouteState = "used"
	// RouteDraining: it is used, and nothing new shall begin.
	RouteDraining RouteState = "draining"
	// RouteStale: a former run of the agent put it there, and it is not confirmed yet.
	RouteStale RouteState = "stale"
	// RouteWithheld: the border uses it, and a reflector does not get it.
	RouteWithheld RouteState = "withheld"
	// RouteUnreachable: nothing leads to its next hop.
	RouteUnreachable RouteState = "unreachable"
	// RouteRefused: the agent does not take it.
	RouteRefused RouteState = "refused"
	// RouteUnused: its path is down.
	RouteUnused RouteState = "unused"
	// RouteWaiting: it is about to come into the kernel, or to go.
	RouteWaiting RouteState = "waiting"
)

// Route is an EPE route: what one path or egress peer announces for one prefix.
type Route struct {
	// Path is the name of the path, at a border of the egress peer.
	Path   string       `json:"path"`
	Prefix netip.Prefix `json:"prefix"`
	State  RouteState   `json:"state"`
	// Reason for the state, a sentence.
	Reason string `json:"reason"`
	// NextHop is the egress peer's at a border, and the border at a server; absent where it is
	// not known.
	NextHop netip.Addr `json:"next_hop,omitzero"`
	// Interface that a border's packets leave by; empty at a server, and where it is not known.
	Interface string `json:"interface"`
	// SID that packets are sent to; absent where it is not known.
	SID netip.Addr `json:"sid,omitzero"`
	// ASPath from the egress peer on. A set of ASes stands as its members.
	ASPath List[uint32] `json:"as_path"`
	// Communities as they were received, such as "64500:100" (RFC 1997).
	Communities List[string] `json:"communities"`
	// LocalPref is BGP's; 0 where the route has none.
	LocalPref uint32 `json:"local_pref"`
	MED       uint32 `json:"med"`
}

// RouteList is the answer to GET /v1/routes.
type RouteList struct {
	Routes List[Route] `json:"routes"`
	// Total is the number of routes; those beyond the limit are left out.
	Total int `json:"total"`
}

// Explanation is the answer to GET /v1/why: how packets to a client may leave.
type Explanation struct {
	// Client as it was asked for, host bits cleared.
	Client netip.Prefix `json:"client"`
	// Plain is the way of packets that nothing steers.
	Plain PlainWay `json:"plain"`
	// Paths are all paths, by name, also those that do not reach the client.
	Paths List[PathExplanation] `json:"paths"`
	// Policies that match, as in [Lookup].
	Policies List[Verdict] `json:"policies"`
}

// PlainWay is the way of packets that nothing steers.
type PlainWay struct {
	// Path that it is, by name; absent where it is none, or not known.
	Path string `json:"path,omitempty"`
	// Reason says how the agent knows, a sentence.
	Reason string `json:"reason"`
}

// PathExplanation says what a path has for a client.
type PathExplanation struct {
	Path  string    `json:"path"`
	State PathState `json:"state"`
	// Reason says whether packets to the client may take the path, and why, a sentence.
	Reason string `json:"reason"`
	// Routes that hold all of the client's prefix, longest first. The first that is used counts.
	Routes List[Route] `json:"routes"`
}

// The number of routes or connections in one answer.
const (
	defaultListed = 1000
	maxListed     = 100_000
)

// selection reads the parameters that bound a list. The prefix is not valid where there is none.
func selection(r *http.Request) (within netip.Prefix, limit int, err error) {
	query := r.URL.Query()
	limit = defaultListed
	if text := query.Get("within"); text != "" {
		if within, err = parseClient(text); err != nil {
			return within, limit, fmt.Errorf("parameter `within`: %w", err)
		}
	}
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxListed {
			return within, limit, fmt.Errorf("%w: parameter `limit`: %q is no number from 1 to %d", ErrInvalid, text, maxListed)
		}
	}
	return within, limit, nil
}

func (s *Server) routeList(w http.ResponseWriter, r *http.Request) error {
	within, limit, err := selection(r)
	if err != nil {
		return err
	}
	list, err := s.backend.Routes(r.Context(), within, limit)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

func (s *Server) why(w http.ResponseWriter, r *http.Request) error {
	client, err := parseClient(r.URL.Query().Get("client"))
	if err != nil {
		return fmt.Errorf("parameter `client`: %w", err)
	}
	explanation, err := s.backend.Why(r.Context(), client)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, explanation)
	return nil
}

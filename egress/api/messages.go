package api

import "net/netip"

// The parts of requests and answers around the types of this package.

// PathList is the answer to GET /v1/paths.
type PathList struct {
	Paths List[Path] `json:"paths"`
}

// SessionList is the answer to GET /v1/sessions.
type SessionList struct {
	Sessions List[Session] `json:"sessions"`
}

// PolicyList is the answer to GET /v1/policies, and an event.
type PolicyList struct {
	Policies List[Policy] `json:"policies"`
}

// Readiness is an event; see [Status].
type Readiness struct {
	Ready bool `json:"ready"`
}

// Reloaded is the answer to POST /v1/reload.
type Reloaded struct {
	// Changes are sentences; none where the configuration is as before.
	Changes List[string] `json:"changes"`
}

// DrainRequest is the body of PUT /v1/paths/{name}/drain.
type DrainRequest struct {
	// Reason for people, at most 256 bytes; may be empty.
	Reason string `json:"reason"`
}

// LookupRequest is the body of POST /v1/lookup.
type LookupRequest struct {
	// Clients are addresses or prefixes, at most 1000.
	Clients List[ClientPrefix] `json:"clients"`
}

// LookupList is the answer to POST /v1/lookup, in the order of the request.
type LookupList struct {
	Lookups List[Lookup] `json:"lookups"`
}

// Failure is the body of every answer that is no success.
type Failure struct {
	Error string `json:"error"`
}

// policyRequest is a [Policy] that may be without a name, and whose clients may also be addresses,
// or have host bits.
type policyRequest struct {
	Policy
	Name    *string            `json:"name"`
	Clients List[ClientPrefix] `json:"clients"`
}

// policy returns the policy; name is that of the request's address.
func (r policyRequest) policy(name string) Policy {
	r.Policy.Name = name
	if r.Name != nil {
		r.Policy.Name = *r.Name
	}
	for _, client := range r.Clients {
		r.Policy.Clients = append(r.Policy.Clients, netip.Prefix(client))
	}
	return r.Policy
}

// ClientPrefix is a client in a request: an address, or a prefix. Host bits are
// cleared, and IPv4 in IPv6 (::ffff:192.0.2.1) is taken for IPv4.
type ClientPrefix netip.Prefix

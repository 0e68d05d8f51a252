package api

import (
	"net/netip"
	"time"
)

// Session is a BGP session.
type Session struct {
	Name string `json:"name"`
	// Kind is "peer" (an egress peer), "reflector", or "router" (one of the own AS that sends
	// routes by ADD-PATH).
	Kind    string     `json:"kind"`
	Address netip.Addr `json:"address"`
	// ASN of the neighbour.
	ASN uint32 `json:"asn"`
	// Up: the session is established (RFC 4271 §8.2.2).
	Up bool `json:"up"`
	// Since is when Up last changed.
	Since time.Time `json:"since"`
	// EndOfRIB: the neighbour has sent all that it had when the session came up.
	EndOfRIB bool `json:"end_of_rib"`
	// Routes that it has sent and not withdrawn; of a router those of all peers.
	Routes Routes `json:"routes"`
	// Ends counts how often it has ended.
	Ends Ends `json:"ends"`
	// Faults of the neighbour's messages.
	Faults Faults `json:"faults"`
	// Withheld counts routes that are not announced to the neighbour.
	Withheld Withheld `json:"withheld"`
	// Refused counts routes of an egress peer that the import policy refuses, by reason.
	Refused List[Refused] `json:"refused"`
	// Origins counts those of Routes that the RPKI has validated.
	Origins Origins `json:"origins"`
	// Error is why it is down, a sentence; absent while it is up.
	Error string `json:"error,omitempty"`
}

// Ends counts the ends of a session since the agent started, by why. Attempts that led
// to no session are none.
type Ends struct {
	// HoldTimer: nothing came from the neighbour for the hold time (RFC 4271 §6.5), or it
	// took nothing for that long (RFC 9687).
	HoldTimer uint64 `json:"hold_timer"`
	// UpdateError: we refused an UPDATE (RFC 4271 §6.3). Its routes could not be determined
	// (RFC 7606 §3), or a well-known attribute is not known.
	UpdateError uint64 `json:"update_error"`
	// MessageError: we refused another message (RFC 4271 §6.1, §6.6).
	MessageError uint64 `json:"message_error"`
	// Notification: the neighbour sent a NOTIFICATION (RFC 4271 §4.5).
	Notification uint64 `json:"notification"`
	// Connection: the TCP connection was closed or broke.
	Connection uint64 `json:"connection"`
	// Local: the agent ended it otherwise, as with a reflector that does not read.
	Local uint64 `json:"local"`
}

// Total is the number of all ends.
func (e Ends) Total() uint64 {
	return e.HoldTimer + e.UpdateError + e.MessageError + e.Notification + e.Connection + e.Local
}

// Faults counts malformed path attributes since the agent started, by what becomes of
// them (RFC 7606 §2). Where GoBGP keeps the session they are not counted, nor at a border
// those of reflectors, whose routes it does not read. An UPDATE that ends the session
// counts in [Ends] alone.
type Faults struct {
	// Withdrawn: the routes that came with them are taken as withdrawn.
	Withdrawn uint64 `json:"withdrawn"`
	// Discarded: they were left out, and the routes are used.
	Discarded uint64 `json:"discarded"`
}

// Withheld counts routes whose path attributes leave no room for them in a message to a
// reflector: those alone are not announced (RFC 4271 §9.2). Both are 0 for egress peers.
type Withheld struct {
	// Routes that are not announced to the reflector now.
	Routes int `json:"routes"`
	// Total counts since the agent started how often a route has become one of them.
	Total uint64 `json:"total"`
}

// Refused counts the routes of an egress peer that are refused for a reason.
type Refused struct {
	// Reason as in docs/egress-deploy.md, such as "rpki_invalid".
	Reason string `json:"reason"`
	// Routes that are refused now. Of "max_prefixes" and "next_hops" they are announcements
	// since the session came up.
	Routes int `json:"routes"`
	// Total counts since the agent started how often a route was refused.
	Total uint64 `json:"total"`
}

// Origins counts routes by the validation state of their origins (RFC 6811 §2). Without data
// of RPKI caches all are 0.
type Origins struct {
	Valid    int `json:"valid"`
	NotFound int `json:"not_found"`
	// Invalid ones are used only where the configuration takes them.
	Invalid int `json:"invalid"`
}

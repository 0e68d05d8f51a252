package api

import (
	"encoding/json"
	"net/netip"
	"time"
)

// List is a slice that is [] in JSON where it is nil, so that clients need not
// expect null. A []T can be assigned to it.
type List[T any] []T

// MarshalJSON implements json.Marshaler.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// Status is the agent in short.
type Status struct {
	// Version of hikyaku-egress.
	Version string `json:"version"`
	// Role is "border" or "server".
	Role string `json:"role"`
	// ASN is the own AS.
	ASN uint32 `json:"asn"`
	// RouterID is the BGP identifier, an IPv4 address.
	RouterID netip.Addr `json:"router_id"`
	// Started is when the agent started.
	Started time.Time `json:"started"`
	// Ready: each session that is up has sent its End-of-RIB since the start, so
	// that paths and lookups are complete.
	Ready bool `json:"ready"`
	// Features of the kernel that matter here.
	Features List[Feature] `json:"features"`
	// Problems that an operator should know of, as sentences; empty when all is
	// well.
	Problems List[string] `json:"problems"`
	// RPKICaches are the caches whose data validate the origins of routes; empty at a
	// server.
	RPKICaches List[RPKICache] `json:"rpki_caches"`
}

// RPKICache is the state of a cache that validated ROA payloads come from (RFC 8210).
type RPKICache struct {
	Name    string         `json:"name"`
	Address netip.AddrPort `json:"address"`
	// Up: the connection stands, and the cache has answered.
	Up bool `json:"up"`
	// Version of the protocol.
	Version uint8 `json:"version"`
	// VRPs are the payloads that are in use.
	VRPs int `json:"vrps"`
	// Serial is the version of the data, by the cache's count.
	Serial uint32 `json:"serial"`
	// Updated is when the cache confirmed the data; absent without any.
	Updated time.Time `json:"updated,omitzero"`
	// Expires is when they are dropped unless it confirms them before; absent without any.
	Expires time.Time `json:"expires,omitzero"`
	// Error is why there is no connection, a sentence; absent while it is up.
	Error string `json:"error,omitempty"`
}

// Feature is something that the kernel has or lacks.
type Feature struct {
	// Name is short, such as "vrf".
	Name string `json:"name"`
	// Available reports whether the kernel has it.
	Available bool `json:"available"`
	// Effect names the loss without it and the features that still work; empty where it is
	// available.
	Effect string `json:"effect,omitempty"`
}

// PathState limits the use of a path.
type PathState string

// The states of a path.
const (
	// Up: it may be used.
	Up PathState = "up"
	// Draining: connections that use it may go on, none shall begin.
	Draining PathState = "draining"
	// Down: packets do not get through.
	Down PathState = "down"
)

// Path is an egress route. A border has one for each of its egress peers, a
// server those of its configuration.
type Path struct {
	Name string `json:"name"`
	// Number as configured: of the peer at a border, of the path at a server.
	Number uint32    `json:"number"`
	State  PathState `json:"state"`
	// Reason for the state, a sentence.
	Reason string `json:"reason"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// Border is the router ID of the border that the path goes by.
	Border netip.Addr `json:"border"`
	// Peer is the number of the egress peer at that border.
	Peer uint32 `json:"peer"`
	// Mark is the SO_MARK of sockets and packets that shall take the path; 0 at
	// a border. A marked packet to a client that the path does not reach goes
	// the plain way.
	Mark uint32 `json:"mark"`
	// Addresses are the EPE addresses, at most one for each family; none at a border.
	// Packets from them take this path or none.
	Addresses List[netip.Addr] `json:"addresses"`
	// Backup: MPTCP shall use the path only while it has no other.
	Backup bool `json:"backup"`
	// Table of the kernel that holds the path's routes.
	Table uint32 `json:"table"`
	// SID of the path; absent while it has none.
	SID netip.Addr `json:"sid,omitzero"`
	// IPv4SID is the SID for packets of IPv4; absent where it is SID.
	IPv4SID netip.Addr `json:"ipv4_sid,omitzero"`
	// MTU in bytes of packets that are sent over the path, SRv6's overhead taken off; 0
	// where that is not known.
	MTU uint32 `json:"mtu"`
	// Probe is what probes through the SID find; absent at a border, without probes, and
	// while the path has no routes.
	Probe Probe `json:"probe,omitzero"`
	// Routes are the numbers of prefixes that the path reaches.
	Routes Routes `json:"routes"`
	// Port by which the path leaves the AS; absent where the border's configuration has none.
	Port *Port `json:"port,omitempty"`
	// Drain is present while somebody drains the path.
	Drain *Drain `json:"drain,omitempty"`
}

// Probe is the liveness of a path's SID, by probes.
type Probe struct {
	// State is "up", "down", or "unknown" while it has never answered: such a SID is not
	// judged.
	State string `json:"state"`
	// RTT is the smoothed round-trip time in microseconds; 0 while it has never answered.
	RTT uint32 `json:"rtt_us"`
}

// Port is the state of a port that paths leave the AS by. A client has a place in the port
// from 0 to 1. It is a hash of the client, the border and the port's number, the same on all
// servers. The client may use the port where the place is below the share for its class.
type Port struct {
	// Number of the port at its border.
	Number uint8 `json:"number"`
	// Kind is "peering" or "transit".
	Kind string `json:"kind"`
	// Price of a Mbit/s for a month.
	Price float64 `json:"price"`
	// Admitted are the shares of clients that may use the port. More would fill it.
	Admitted PortShares `json:"admitted"`
	// Billed are the shares of clients whose traffic is billed anyway. That of the others
	// raises the bill.
	Billed PortShares `json:"billed"`
	// Spare is the part of its free intervals that the bill has left, 0 to 1. In these the
	// traffic of the others is free, too.
	Spare float64 `json:"spare"`
}

// PortShares are shares of clients, 0 to 1, by what a content class wants.
type PortShares struct {
	Goodput float64 `json:"goodput"`
	Stall   float64 `json:"stall"`
	RTT     float64 `json:"rtt"`
}

// Routes counts prefixes by family.
type Routes struct {
	IPv6 int `json:"ipv6"`
	IPv4 int `json:"ipv4"`
}

// Drain is the wish that a path shall be used no more. It survives restarts.
type Drain struct {
	// Reason as the operator gave it.
	Reason string `json:"reason"`
	// Since is when the drain was set; set by the agent.
	Since time.Time `json:"since"`
}

// Lookup has the paths that reach a client.
type Lookup struct {
	// Client as it was asked for, host bits cleared.
	Client netip.Prefix `json:"client"`
	// Best is the path that plain packets to the client take; absent where that
	// is none of the paths, or not known.
	Best string `json:"best,omitempty"`
	// BestUnknown is why Best is absent, a clause.
	BestUnknown string `json:"best_unknown,omitempty"`
	// Paths that reach the whole of Client, by name. Those that are down are not
	// among them.
	Paths List[Reach] `json:"paths"`
	// Policies that match, in the order in which they count. The first one whose clients
	// and classes fit a connection is in force for it; without one it is adaptive.
	Policies List[Verdict] `json:"policies"`
}

// Verdict is a policy that matches the clients of a [Lookup], and the paths that it allows them.
type Verdict struct {
	// Policy is its name.
	Policy string `json:"policy"`
	// Clients are the prefixes within that of the lookup which it holds for; empty: all
	// of it.
	Clients List[netip.Prefix] `json:"clients"`
	// Classes of content that it holds for; empty: all, also where none is known.
	Classes List[string] `json:"classes"`
	Mode    Mode         `json:"mode"`
	// Paths that may be used, by name; empty: all.
	Paths List[string] `json:"paths"`
	// Backup are those which MPTCP uses only while it has no other.
	Backup List[string] `json:"backup"`
}

// Reach is a path's route to a client.
type Reach struct {
	Name  string    `json:"name"`
	State PathState `json:"state"`
	// Prefix is the longest one that holds the client.
	Prefix netip.Prefix `json:"prefix"`
	// LocalPref is BGP's (RFC 4271 §5.1.5).
	LocalPref uint32 `json:"local_pref"`
	// MED is BGP's (RFC 4271 §5.1.4).
	MED uint32 `json:"med"`
	// ASPath from the egress peer to the client's AS, which is the last one. A
	// set of ASes stands as its members.
	ASPath List[uint32] `json:"as_path"`
}

// Mode is how connections to a client use the paths.
type Mode string

// The modes.
const (
	// Adaptive leaves it to the edge server and the agent.
	Adaptive Mode = "adaptive"
	// Plain: BGP's best path alone.
	Plain Mode = "plain"
	// Steered: one path at a time, chosen by mark.
	Steered Mode = "steered"
	// Aggregated: several paths at once, by MPTCP.
	Aggregated Mode = "aggregated"
)

// Policy is an operator's rule for some clients and content classes. It
// survives restarts. Of those that match a connection the first counts, by
// Order and then by Name.
type Policy struct {
	// Name of letters, digits, `.`, `_` and `-`, at most 64.
	Name string `json:"name"`
	// Order among policies; the smallest comes first. 0 where it is left out.
	Order int32 `json:"order"`
	// Clients and ASNs that it holds for: clients in one of the prefixes or, by BGP's
	// routes to the client, in one of the ASes. Both empty: all.
	Clients List[netip.Prefix] `json:"clients"`
	ASNs    List[uint32]       `json:"asns"`
	// Classes of content that it holds for; empty: all, also where none is known.
	Classes List[string] `json:"classes"`
	Mode    Mode         `json:"mode"`
	// Paths that may be used, by name; empty: all.
	Paths List[string] `json:"paths"`
	// Backup are those which MPTCP uses only while it has no other.
	Backup List[string] `json:"backup"`
}

// Connection has the properties of an MPTCP connection that the agent can't see.
// It is forgotten when the connection ends.
type Connection struct {
	// Token of the connection (`mptcpi_token` of MPTCP_INFO); 0 where it is not
	// known, then Local and Remote name it.
	Token uint32 `json:"token"`
	// Local and Remote are those of the first subflow.
	Local  netip.AddrPort `json:"local,omitzero"`
	Remote netip.AddrPort `json:"remote,omitzero"`
	// Class of its content; empty for none.
	Class string `json:"class"`
	// Mode that the edge server has chosen for it; empty or [Adaptive]: none. It
	// counts where the policy that matches is adaptive, or there is none.
	Mode Mode `json:"mode"`
	// Avoid are paths on which its data are lost, by name. They are taken from it
	// at once, whatever the policy.
	Avoid List[string] `json:"avoid"`
	// Full are paths whose ports have no room for its content, by name. Its subflows by them become
	// backup, whatever the policy, and it gets no others.
	Full List[string] `json:"full"`
	// Order has its subflows, the one to use first. The first one that carries data by
	// policy stays so; all others become backup. Empty: all stay as the policy has them.
	Order List[Subflow] `json:"order"`
}

// Subflow names a subflow of an MPTCP connection by its ends.
type Subflow struct {
	Local  netip.AddrPort `json:"local"`
	Remote netip.AddrPort `json:"remote"`
}

// Snapshot is the state that events keep up to date.
type Snapshot struct {
	// Ready as in [Status].
	Ready    bool          `json:"ready"`
	Paths    List[Path]    `json:"paths"`
	Sessions List[Session] `json:"sessions"`
	Policies List[Policy]  `json:"policies"`
}

// RouteChange says that answers to lookups may have changed.
type RouteChange struct {
	// Path whose routes have changed; empty where the way of plain packets has changed.
	Path string `json:"path"`
	// Prefixes that it reaches now, does not reach any more, or reaches by
	// another route; at most 1000. Empty: more; forget every lookup.
	Prefixes List[netip.Prefix] `json:"prefixes"`
}

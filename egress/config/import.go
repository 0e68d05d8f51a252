package config

import (
	"net/netip"
	"time"
)

// Import is the import policy for all egress peers.
type Import struct {
	// Refuse holds prefixes that are never taken from a peer, nor anything
	// within them: above all the own ones. Default none.
	Refuse []netip.Prefix `toml:"refuse"`
	// IPv6MaxLength is the longest IPv6 prefix taken. Default 48.
	IPv6MaxLength uint8 `toml:"ipv6_max_length"`
	// IPv4MaxLength is the longest IPv4 prefix taken. Default 24.
	IPv4MaxLength uint8 `toml:"ipv4_max_length"`
	// DefaultRoute: take ::/0 and 0.0.0.0/0. Default false.
	DefaultRoute bool `toml:"default_route"`
	// Martians: take prefixes that are nobody's in the Internet (RFC 7454 §6.1). Default
	// false.
	Martians bool `toml:"martians"`
	// ASSets: take routes with AS_SET or AS_CONFED_SET in their AS_PATH (RFC 9774). Default
	// false.
	ASSets bool `toml:"as_sets"`
	// RPKIInvalid: take routes whose origin is invalid by the RPKI caches. Default false.
	RPKIInvalid bool `toml:"rpki_invalid"`
}

// PeerImport is a peer's part of the import policy. A route is refused that matches an
// entry of Refuse*, or none of an Accept* that has entries.
type PeerImport struct {
	// IPv6MaxLength is as in [Import]; 0 stands for that, and is replaced by it.
	IPv6MaxLength uint8 `toml:"ipv6_max_length"`
	// IPv4MaxLength is as in [Import]; 0 stands for that, and is replaced by it.
	IPv4MaxLength uint8 `toml:"ipv4_max_length"`
	// DefaultRoute takes default routes of this peer, also where [Import] does not.
	DefaultRoute bool `toml:"default_route"`
	// RPKIInvalid takes invalid routes of this peer, also where [Import] does not.
	RPKIInvalid bool `toml:"rpki_invalid"`

	AcceptPrefixes    []PrefixRange      `toml:"accept_prefixes"`
	RefusePrefixes    []PrefixRange      `toml:"refuse_prefixes"`
	AcceptASPaths     []ASPathPattern    `toml:"accept_as_paths"`
	RefuseASPaths     []ASPathPattern    `toml:"refuse_as_paths"`
	AcceptCommunities []CommunityPattern `toml:"accept_communities"`
	RefuseCommunities []CommunityPattern `toml:"refuse_communities"`
}

// MaxPrefix bounds the routes of a peer. All count that the peer has sent, also those that
// the import policy refuses, since they are kept for a reload.
type MaxPrefix struct {
	// MaxPrefixes is the bound. Default 1500000.
	MaxPrefixes uint32 `toml:"max_prefixes"`
	// MaxPrefixesWarning is the share of MaxPrefixes, in percent, from which on a problem
	// is reported; 0: none. Default 75.
	MaxPrefixesWarning uint8 `toml:"max_prefixes_warning"`
	// MaxPrefixesAction is what follows a route beyond the bound. Default "refuse".
	MaxPrefixesAction MaxPrefixAction `toml:"max_prefixes_action"`
	// MaxPrefixesRestart is the time after which a session that was torn down may come
	// back; 0: at the next start or reload. Default 0s.
	MaxPrefixesRestart time.Duration `toml:"max_prefixes_restart"`
}

// MaxPrefixAction is what follows a route beyond max_prefixes.
type MaxPrefixAction string

// The actions.
const (
	// MaxPrefixRefuse refuses further routes, and keeps the others.
	MaxPrefixRefuse MaxPrefixAction = "refuse"
	// MaxPrefixWarn takes them all the same, and reports a problem.
	MaxPrefixWarn MaxPrefixAction = "warn"
	// MaxPrefixTeardown ends the session (RFC 4486 §3).
	MaxPrefixTeardown MaxPrefixAction = "teardown"
)

// LocalRole is the own AS's role in a session with another AS (RFC 9234 §3.1).
type LocalRole string

// The roles.
const (
	RoleNone              LocalRole = "none"
	RoleProvider          LocalRole = "provider"
	RoleCustomer          LocalRole = "customer"
	RolePeer              LocalRole = "peer"
	RoleRouteServer       LocalRole = "rs"
	RoleRouteServerClient LocalRole = "rs-client"
)

// RPKICache is a cache that validated ROA payloads come from (RFC 8210).
type RPKICache struct {
	// Name is for people, logs and the API. Needed.
	Name string `toml:"name"`
	// Address of the cache. Needed.
	Address netip.Addr `toml:"address"`
	// Port of the cache. Default 323.
	Port uint16 `toml:"port"`
	// LocalAddress is the source of the connection. Default the kernel's choice.
	LocalAddress netip.Addr `toml:"local_address"`
	// Refresh is the time between questions for changes, with a cache that does not name
	// its own (RFC 8210 §6). Default 1h.
	Refresh time.Duration `toml:"refresh"`
	// Retry is the time until a question that has failed is asked again, likewise.
	// Default 1m.
	Retry time.Duration `toml:"retry"`
	// Expire is how long data of a cache that is away are used, likewise. Default 2h.
	Expire time.Duration `toml:"expire"`
}

// FirstAS reports whether routes must begin with the neighbour's AS.
func (p *Peer) FirstAS() bool {
	if p.EnforceFirstAS == ToggleAuto {
		return p.LocalRole != RoleRouteServerClient
	}
	return p.EnforceFirstAS == ToggleOn
}

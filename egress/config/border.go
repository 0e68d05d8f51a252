package config

import (
	"net/netip"
	"time"

	"hikyaku/egress/srv6"
)

// Border configures the agent of a border router.
type Border struct {
	Common
	Router Router       `toml:"router"`
	SRv6   BorderSRv6   `toml:"srv6"`
	Kernel BorderKernel `toml:"kernel"`
	Import Import       `toml:"import"`
	// Caches are the RPKI caches whose data validate the origins of routes. Default none.
	Caches []RPKICache `toml:"rpki_cache"`
	BMP    BMP         `toml:"bmp"`
	// AddPath are the sessions with routers or route reflectors of the own AS, for peers with
	// [RoutesByAddPath]. They send the routes of their peers by ADD-PATH (RFC 7911). Default
	// none.
	AddPath []Reflector `toml:"add_path"`
	// Peers are the egress peers. At least one is needed.
	Peers []Peer `toml:"peer"`
	// Ports are those whose capacity and price are known. Traffic by others is as it comes.
	// Default none.
	Ports []Port `toml:"port"`
}

// Router is the agent's work besides SRv6, where no other BGP daemon is.
type Router struct {
	// BestPaths makes the agent an ordinary border router, too. It selects best paths among
	// its peers' and those that reflectors have of other borders. It puts them into the
	// main table, and gives its peers' to the reflectors with itself as next hop. Default
	// false.
	BestPaths bool `toml:"best_paths"`
	// Announce holds the own prefixes to announce to peers, which get nothing else. Default
	// none.
	Announce []netip.Prefix `toml:"announce"`
}

// BorderSRv6 is the border's part of the SRv6 domain.
type BorderSRv6 struct {
	// Locator that SIDs are issued from (RFC 8986 §3.1). Needed. Its length is
	// that of block and node together.
	Locator netip.Prefix `toml:"locator"`
	// BlockLength is the length of the SRv6 domain's prefix in bits. Default 32.
	BlockLength uint8 `toml:"block_length"`
	// FunctionLength is the length of a SID's function in bits, 8 to 32.
	// Default 16.
	FunctionLength uint8 `toml:"function_length"`
	// Interfaces that packets of content servers come in by. At least one is
	// needed.
	Interfaces []string `toml:"interfaces"`
	// VRF: "on" makes a VRF device for each peer and issues End.DT46, so that one SID takes
	// IPv6 and IPv4. "off" needs no VRF devices. It issues End.DT6, and for peers with IPv4
	// a second SID with End.DT4, whose packets pass a pair of veth devices. "auto" is "on"
	// for peers with IPv4 where the kernel has VRF devices. Default "auto".
	VRF Toggle `toml:"vrf"`
	// LocatorRoute puts a blackhole route for the locator into the main table. So packets
	// to SIDs which are not in use die here and an IGP daemon has something to announce.
	// Default true.
	LocatorRoute bool `toml:"locator_route"`
}

// SIDLocator returns the locator with its lengths.
func (s BorderSRv6) SIDLocator() srv6.Locator {
	return srv6.Locator{
		Prefix:       s.Locator,
		BlockBits:    s.BlockLength,
		NodeBits:     uint8(max(s.Locator.Bits()-int(s.BlockLength), 0)),
		FunctionBits: s.FunctionLength,
	}
}

// BorderKernel is the part of the kernel's state that a border router sets.
type BorderKernel struct {
	// Tables that routes of peers are put into: peer number N has table First+N.
	// Default "10000-10999".
	Tables Tables `toml:"tables"`
	// RulePriority is the first of ten priorities for policy rules.
	// Default 10000.
	RulePriority uint32 `toml:"rule_priority"`
	// Drop is the fate of packets whose peer is lost or does not advertise
	// their prefix. Default "blackhole".
	Drop Drop `toml:"drop"`
	// SetSysctls lets the agent set the sysctls that it needs; otherwise it says
	// which are wrong and does not start. Default true.
	SetSysctls bool `toml:"set_sysctls"`
}

// BMP says where routers report their own sessions (RFC 7854), for peers with
// [RoutesByBMP].
type BMP struct {
	// Listen holds the addresses to wait for routers on. Default none.
	Listen []netip.AddrPort `toml:"listen"`
	// Routers holds the addresses that connections are accepted from. Needed with Listen.
	Routers []netip.Addr `toml:"routers"`
	// DeadTime is after how long a router counts as lost that TCP does not reach, at least
	// 3s. Default 9s.
	DeadTime time.Duration `toml:"dead_time"`
}

// RouteSource is where a peer's routes come from.
type RouteSource string

// The sources of routes.
const (
	// RoutesBySession: a BGP session of the agent's own with the peer.
	RoutesBySession RouteSource = "session"
	// RoutesByBMP: a router's session with the peer, which the router reports.
	RoutesByBMP RouteSource = "bmp"
	// RoutesByAddPath: the same sessions, whose routes a router or route reflector sends by
	// ADD-PATH.
	RoutesByAddPath RouteSource = "add-path"
)

// AddPathMatch says which of the routes that come by ADD-PATH are a peer's.
type AddPathMatch struct {
	// NextHops are the peer's next hops. Default its address.
	NextHops []netip.Addr `toml:"next_hops"`
	// Communities mark the peer's routes, one of them is enough, whatever their next hop. A
	// next hop that a router of the own AS has put itself for (next-hop-self) is replaced by
	// the first one of NextHops. Default none: the next hop decides.
	Communities []Community `toml:"communities"`
}

// Family is an address family of client prefixes.
type Family string

// The address families.
const (
	FamilyIPv6 Family = "ipv6"
	FamilyIPv4 Family = "ipv4"
)

// Peer is an egress peer: a neighbouring AS that packets can leave to.
type Peer struct {
	Session
	// Routes is where the peer's routes come from. With "bmp" and "add-path" Address is that of
	// the peer in the router's session, and the agent has none. Default "session".
	Routes RouteSource `toml:"routes"`
	// AddPath says which routes are the peer's, with Routes "add-path".
	AddPath AddPathMatch `toml:"add_path"`
	// Number of the peer at this border, from 1 up, never given to another one.
	// Needed.
	Number uint32 `toml:"number"`
	// ASN of the neighbour. Needed.
	ASN uint32 `toml:"asn"`
	// Multihop is the number of hops that the neighbour may be away (eBGP);
	// 1 is directly connected. Default 1.
	Multihop uint8 `toml:"multihop"`
	// TTLSecurity drops packets of the session from farther than one hop
	// (RFC 5082); the neighbour must send with a TTL of 255. Not with Multihop
	// above 1. Default false.
	TTLSecurity bool `toml:"ttl_security"`
	// Families that routes are exchanged for. Default ["ipv6"].
	Families []Family `toml:"families"`
	// Interface that the peer's next hops are on. Default the one that the main
	// table's route to Address names.
	Interface string `toml:"interface"`
	MaxPrefix
	// LocalRole is the own AS's role in the session (RFC 9234). Default "none".
	LocalRole LocalRole `toml:"local_role"`
	// StrictRole refuses a session whose neighbour sends no role. Default false.
	StrictRole bool `toml:"strict_role"`
	// EnforceFirstAS refuses routes whose AS_PATH does not begin with ASN (RFC 4271 §6.3).
	// "auto" is "on" but for the client of a route server, which adds no AS of its own
	// (RFC 7947 §2.2.2). Default "auto".
	EnforceFirstAS Toggle `toml:"enforce_first_as"`
	// Import is the peer's part of the import policy.
	Import PeerImport `toml:"import"`
	// LocalPref is the LOCAL_PREF of the routes that servers get (RFC 4271 §5.1.5), for
	// operators who compare EPE routes. It decides nothing. Default the one that a BMP router
	// reports, else 100.
	LocalPref uint32 `toml:"local_pref"`
	// Communities are added to the routes that servers get.
	Communities []Community `toml:"communities"`
	// SID is the whole SID. Default the locator with Number as its function.
	SID netip.Addr `toml:"sid"`
	// IPv4SID is the SID for IPv4 where the kernel has no VRF devices. Default the SID of
	// Number with the first bit of the function set.
	IPv4SID netip.Addr `toml:"ipv4_sid"`
	// Table that holds this peer's routes alone. Default by Number.
	Table uint32 `toml:"table"`
	// RD is the route distinguisher. Default "ROUTER_ID:NUMBER".
	RD srv6.RouteDistinguisher `toml:"rd"`
	// RT is the route target. Default "ROUTER_ID:NUMBER".
	RT srv6.RouteTarget `toml:"rt"`
}

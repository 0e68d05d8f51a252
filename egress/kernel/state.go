package kernel

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// Protocol is the route protocol number that marks our routes. The numbers which
// others use are in iproute2's rt_protos; 200 is not among them.
const Protocol uint8 = 200

// MainTable is the table which the kernel looks up without any rule of ours.
const MainTable uint32 = unix.RT_TABLE_MAIN

// Family is an address family, as the kernel numbers them.
type Family uint8

// The two families.
const (
	IPv4 Family = unix.AF_INET
	IPv6 Family = unix.AF_INET6
)

// FamilyOf returns the family of addr. A mapped address counts as IPv6.
func FamilyOf(addr netip.Addr) Family {
	if addr.Is4() {
		return IPv4
	}
	return IPv6
}

// String returns "IPv4" or "IPv6".
func (f Family) String() string {
	if f == IPv4 {
		return "IPv4"
	}
	return "IPv6"
}

// State is our part of the kernel's state, as it is or should be. The order of the slices
// does not matter; the result of [Applier.Read] is sorted.
type State struct {
	Addresses []Address
	Rules     []Rule
	Routes    []Route
	Nexthops  []Nexthop
	// TunnelSource is the outer source address of SRv6 encapsulation (ip sr tunsrc).
	// The zero address means "not ours to say": Diff then leaves it alone.
	TunnelSource TunnelSource
}

// TunnelSource is the outer source address of SRv6 encapsulation.
type TunnelSource struct{ netip.Addr }

// Address is an IP address on a device.
type Address struct {
	Device string
	// Prefix is the address itself (host bits kept) and the length of its subnet.
	Prefix netip.Prefix
	// Deprecated sets the preferred lifetime to 0. The kernel answers to the address but
	// never chooses it as the source of a new connection (RFC 6724 §5, rule 3). IPv4 source
	// selection ignores it.
	Deprecated bool
	// NoDAD uses the address at once, without duplicate address detection. IPv6 only.
	NoDAD bool
}

// RouteType is the fate of a packet that matches a route.
type RouteType uint8

// The types of a route.
const (
	// Unicast sends the packet to the route's nexthop object.
	Unicast RouteType = unix.RTN_UNICAST
	// Blackhole drops the packet silently.
	Blackhole RouteType = unix.RTN_BLACKHOLE
	// Unreachable drops the packet and answers with ICMP "no route".
	Unreachable RouteType = unix.RTN_UNREACHABLE
	// Delivery is to this machine, as for an address of its own (type local). IPv6 only.
	Delivery RouteType = unix.RTN_LOCAL
)

// Route is one entry of a routing table. Table, prefix and metric are its key: a
// table holds one route of ours for each.
type Route struct {
	Prefix netip.Prefix
	Table  uint32
	// Metric orders routes to the same prefix, the smallest wins. 0 is the kernel's
	// default: 1024 for IPv6, 0 for IPv4.
	Metric uint32
	// Nexthop is where the packet goes; 0 unless Type is Unicast.
	Nexthop NexthopID
	// MTU in bytes bounds the path MTU; 0 leaves it to the device. Sockets remember the MTU
	// and AdvMSS of IPv6 routes with one nexthop together. Give these routes the same MTU
	// and AdvMSS, or the first one's may count for all.
	MTU uint32
	// AdvMSS in bytes is the TCP MSS to advertise; 0 leaves it to the kernel.
	AdvMSS uint32
	// Type is Unicast when 0.
	Type RouteType
}

// RouteKey names a route.
type RouteKey struct {
	Prefix netip.Prefix
	Table  uint32
	Metric uint32
}

// Key returns the route's name, with the kernel's default metric as 0.
func (r Route) Key() RouteKey {
	n := r.normal()
	return RouteKey{Prefix: n.Prefix, Table: n.Table, Metric: n.Metric}
}

// Drop returns the operation that stops a route at once. Its prefix becomes a blackhole, in
// one message, whatever the size of the tables behind it. On a border this closes a peer's
// SID. [Tables.Drop] sends it past everything that waits.
func (r Route) Drop() Op {
	return Op{Verb: Replace, Object: r.dropped()}
}

func (r Route) dropped() Route {
	return Route{Prefix: r.Prefix, Table: r.Table, Metric: r.Metric, Type: Blackhole}
}

// RuleAction is the fate of a packet that matches a rule.
type RuleAction uint8

// The actions of a rule.
const (
	// Lookup searches the rule's table and goes on to the next rule if it has no route.
	Lookup RuleAction = unix.FR_ACT_TO_TBL
	// RuleBlackhole drops the packet silently.
	RuleBlackhole RuleAction = unix.FR_ACT_BLACKHOLE
	// RuleUnreachable drops the packet and notifies the sender.
	RuleUnreachable RuleAction = unix.FR_ACT_UNREACHABLE
	// RuleProhibit drops the packet and notifies the sender that it is forbidden.
	RuleProhibit RuleAction = unix.FR_ACT_PROHIBIT
)

// Rule is a policy rule. All its fields together are its key: the kernel cannot
// change a rule, so a changed one is added before the old one goes.
type Rule struct {
	Family Family
	// Priority orders the rules, the smallest is first. The main table is at 32766.
	Priority uint32
	// From and To select by address; the zero prefix matches all.
	From, To netip.Prefix
	// Mark selects by SO_MARK under Mask. Both 0 match all packets; a Mask of 0 with
	// a Mark means all bits.
	Mark, Mask uint32
	// InDevice selects packets that came in by a device; "lo" selects our own.
	InDevice string
	// Action is Lookup when 0.
	Action RuleAction
	// Table is searched by Lookup; 0 otherwise.
	Table uint32
}

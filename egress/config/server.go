package config

import (
	"net/netip"
	"time"

	"hikyaku/egress/srv6"
)

// Server configures the agent of a content server.
type Server struct {
	Common
	SRv6   ServerSRv6   `toml:"srv6"`
	Probe  Probe        `toml:"probe"`
	Kernel ServerKernel `toml:"kernel"`
	MPTCP  MPTCP        `toml:"mptcp"`
	Plain  Plain        `toml:"plain"`
	Limits Limits       `toml:"limits"`
	// Paths out of the AS. At least one is needed.
	Paths []Path `toml:"path"`
}

// ServerSRv6 is the server's part of the SRv6 domain.
type ServerSRv6 struct {
	// Interface towards the AS: encapsulated packets leave by it, and it has the
	// EPE addresses. Needed.
	Interface string `toml:"interface"`
	// TunnelSource is the outer source address, the server's own default one.
	// Needed.
	TunnelSource netip.Addr `toml:"tunnel_source"`
	// MTU of the way from here to the borders in bytes, outer header included, at most that
	// of Interface. 0, written "auto", follows Interface. Where probes show that larger
	// packets than some size are lost, that size counts. Inner packets get 64 bytes less.
	// Default "auto".
	MTU MTU `toml:"mtu"`
	// Locators of the borders. Routes with a SID elsewhere are refused.
	// Default [], any.
	Locators []netip.Prefix `toml:"locators"`
}

// Probe says how borders are probed through their SIDs.
type Probe struct {
	// Interval between probes of a border, 10ms to 10s; 0 for none. Default 40ms.
	Interval time.Duration `toml:"interval"`
	// Lost is the number of probes without an answer after which a path is out of use, 3
	// to 100. Default 5.
	Lost uint8 `toml:"lost"`
	// Hold is how long a SID must answer before its path is used again. It doubles with
	// each further failure within ten minutes, up to a minute. 0s to 60s. Default 1s.
	Hold time.Duration `toml:"hold"`
	// MTU: probes of larger sizes find the path MTU. Default true.
	MTU bool `toml:"mtu"`
}

// MTU in bytes, or 0 for the interface's own.
type MTU uint32

// EncapOverhead is the room in bytes that SRv6 takes from each packet. It is an IPv6 header
// (40) and a segment routing header with one SID (24; RFC 8754 §2).
const EncapOverhead = 64

// ServerKernel is the part of the kernel's state that a content server sets.
type ServerKernel struct {
	// Tables that routes of paths are put into: path number N has table First+N.
	// Default "10000-10999".
	Tables Tables `toml:"tables"`
	// RulePriority is the first of ten priorities for policy rules.
	// Default 10000.
	RulePriority uint32 `toml:"rule_priority"`
	// MarkBase: path number N has the socket mark MarkBase+N. Default 0x680000.
	MarkBase uint32 `toml:"mark_base"`
	// MarkMask are the bits of a mark that rules look at. Default 0xffffffff.
	MarkMask uint32 `toml:"mark_mask"`
	// Drop is the fate of packets from an EPE address whose path does not
	// reach the client. Default "unreachable".
	Drop Drop `toml:"drop"`
	// SetSysctls lets the agent set MPTCP's sysctls; otherwise it does not start
	// where the path manager is not the one that it needs. Default true.
	SetSysctls bool `toml:"set_sysctls"`
}

// MPTCPMode is the manager of MPTCP connections' paths.
type MPTCPMode string

// The modes of MPTCP.
const (
	// MPTCPOff leaves MPTCP alone.
	MPTCPOff MPTCPMode = "off"
	// MPTCPKernel gives all connections the same endpoints.
	MPTCPKernel MPTCPMode = "kernel"
	// MPTCPUserspace decides for each connection alone.
	MPTCPUserspace MPTCPMode = "userspace"
)

// MPTCP says which addresses are announced to clients.
type MPTCP struct {
	// Mode is the manager of paths. Default "off".
	Mode MPTCPMode `toml:"mode"`
	// Addresses that are announced to one client at a time, 1 to 8, besides those of
	// draining paths. In mode "kernel" it is the number for each family. Default 2.
	Addresses uint8 `toml:"addresses"`
	// Subflows of one connection besides its first, 1 to 8; further ones are
	// closed or refused. Default 4.
	Subflows uint8 `toml:"subflows"`
	// AddAddrTimeout is after how long an address that a client has not echoed is announced
	// again, at most three times. It is set as net.mptcp.add_addr_timeout where
	// Kernel.SetSysctls allows that. In whole seconds, 1s to 120s. Default 1s.
	AddAddrTimeout time.Duration `toml:"add_addr_timeout"`
	// Ports of the server whose connections are managed, in mode "userspace".
	// Default [], all.
	Ports []uint16 `toml:"ports"`
}

// Plain describes the way of plain packets, which have neither mark nor EPE address.
type Plain struct {
	// Border is the router ID of the border that plain packets come to first. It is for
	// servers whose main table leads to a router that is none of the paths' borders. Give it
	// only where that router hands all packets on to this border. Default: the border to which
	// the main table leads, and unknown where that is another router.
	Border netip.Addr `toml:"border"`
	// Reflectors are names of those whose best paths of IPv4 and IPv6 unicast show the way where
	// main tables do not. The first one that knows it counts. Default [], none.
	Reflectors []string `toml:"reflectors"`
}

// Limits bound the memory of a content server's agent.
type Limits struct {
	// RoutesPerPath from which on further ones are refused, and the log says so.
	// Default 1500000.
	RoutesPerPath uint32 `toml:"routes_per_path"`
	// Connections of MPTCP that are managed at once, in mode "userspace"; no
	// address is announced to clients of further ones. Default 200000.
	Connections uint32 `toml:"connections"`
}

// Path is an egress route: one egress peer of one border router.
type Path struct {
	// Name is for people, logs, the API and the edge server's
	// `policy.path`. Needed.
	Name string `toml:"name"`
	// Number of the path on this server, from 1 up. Needed.
	Number uint32 `toml:"number"`
	// Border is the router ID of the path's border. Needed.
	Border netip.Addr `toml:"border"`
	// Peer is the number that the peer has at that border. Needed.
	Peer uint32 `toml:"peer"`
	// Addresses are the EPE addresses: at least one, and at most one for
	// each family. Needed.
	Addresses []netip.Addr `toml:"addresses"`
	// NextHops are addresses of the path's egress peer, by which a reflector's best paths lead
	// to it: see [Plain]. Default [], none.
	NextHops []netip.Addr `toml:"next_hops"`
	// Backup: MPTCP uses the path only while it has no other. Default false.
	Backup bool `toml:"backup"`
	// Mark of sockets that shall take the path. Default by Number.
	Mark uint32 `toml:"mark"`
	// Table that holds the path's routes. Default by Number.
	Table uint32 `toml:"table"`
	// RD that the path's routes have. Default "BORDER:PEER".
	RD srv6.RouteDistinguisher `toml:"rd"`
	// RT that the path's routes have. Default "BORDER:PEER".
	RT srv6.RouteTarget `toml:"rt"`
}

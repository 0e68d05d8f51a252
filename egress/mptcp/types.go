package mptcp

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Token names an MPTCP connection within its network namespace. It is the
// local one: derived from the key which this host sent (RFC 8684 §3.2).
type Token uint32

// String formats the token as `ss` and `ip mptcp monitor` do.
func (t Token) String() string { return fmt.Sprintf("%08x", uint32(t)) }

// Announcement is an address that was announced to the peer by ADD_ADDR
// (RFC 8684 §3.4.1).
type Announcement struct {
	// ID is the address ID, 1 to 255; 0 is the initial subflow's address.
	ID   uint8
	Addr netip.Addr
	// Port is 0 where the peer shall use the initial subflow's port.
	Port uint16
	// Backup asks that subflows to this address begin as backup. Kernels
	// before 6.11 ignore it; the Manager then sets each subflow after its join.
	Backup bool
}

// Subflow is one TCP connection of an MPTCP connection.
type Subflow struct {
	// Local and Remote may hold IPv4-mapped IPv6 addresses. The kernel gives them for IPv4
	// clients of a socket bound to [::], and wants them back in commands. Compare through
	// netip.Addr.Unmap.
	Local, Remote     netip.AddrPort
	LocalID, RemoteID uint8
	// PeerBackup: the peer asked by MP_PRIO or MP_JOIN to use it last.
	PeerBackup bool
	// LocalBackup: this host asked for that.
	LocalBackup bool
	// Since is when it was established, or first seen after a restart.
	Since time.Time

	// confirmed: LocalBackup comes from the kernel or from a command which
	// succeeded, not from the announcement's flag.
	confirmed bool
}

// Connection is the state of one MPTCP connection.
type Connection struct {
	Token Token
	// Local and Remote are those of the initial subflow, which may be gone.
	Local, Remote netip.AddrPort
	// ServerSide: the peer opened the connection.
	ServerSide bool
	// Established: the fourth packet of the handshake or data were seen, so
	// that the peer can join (RFC 8684 §3.1).
	Established bool
	// Hint is the last one of [Manager.SetHint].
	Hint Hint
	// Adopted: it was there before this Manager, so the hint that an earlier one had is
	// unknown. Ends with the first hint.
	Adopted  bool
	Since    time.Time
	Subflows []Subflow
	// Announced holds the addresses announced to the peer and not withdrawn since.
	Announced []Announcement

	// known keeps IDs of addresses that were taken back. RM_ADDR is not reliable (RFC 8684
	// §3.4.2), so an ID must not come to mean another address.
	known   map[netip.Addr]uint8
	initial initialWay
	// hinted: a hint was set, by [Manager.SetHint].
	hinted bool
	// unmanaged: it began under the in-kernel path manager, which keeps it.
	unmanaged bool
	commands  retryState
	renewals  map[netip.Addr]*retryState
}

// Hint is the server program's knowledge of a connection that the kernel does not have.
type Hint struct {
	// Class is that of its content, or "".
	Class string
	// Plain: it gains nothing by several paths. Only a rule that leaves the mode
	// open heeds it.
	Plain bool
	// Avoid are paths on which its data are lost, see [Routes.Avoid].
	Avoid []string
	// Full are paths whose ports have no room for its content, see [Routes.Full].
	Full []string
	// Order has its subflows, the one to use first. The first one that is regular by the
	// [Decision] stays so, and all others are backup. Without one of them here, all are as
	// decided.
	Order []Ends
}

func (h Hint) equal(other Hint) bool {
	return h.Class == other.Class && h.Plain == other.Plain && slices.Equal(h.Avoid, other.Avoid) &&
		slices.Equal(h.Full, other.Full) && slices.Equal(h.Order, other.Order)
}

// Ends name a subflow within its connection. Its addresses may be IPv4-mapped or not.
type Ends struct{ Local, Remote netip.AddrPort }

// are reports whether these are the ends of a subflow.
func (e Ends) are(s Subflow) bool {
	return tupleOf(e.Local, e.Remote) == tupleOf(s.Local, s.Remote)
}

// Client is the client's address, never IPv4-mapped.
func (c *Connection) Client() netip.Addr { return c.Remote.Addr().Unmap() }

// PathState limits the use of a path.
type PathState uint8

const (
	// PathUp: announce it and use it.
	PathUp PathState = iota
	// PathDraining: announce it no more; subflows that use it become backup.
	PathDraining
	// PathDown: take the announcement back and destroy its subflows.
	PathDown
)

// String returns the state as it is written in the API.
func (s PathState) String() string {
	switch s {
	case PathUp:
		return "up"
	case PathDraining:
		return "draining"
	case PathDown:
		return "down"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Path is an egress route with its own local addresses (EPE addresses).
type Path struct {
	Name string
	// Addresses has at most one for each address family. Replies from them
	// must be routed over this path, see package endpoint.
	Addresses []netip.Addr
	State     PathState
	// Backup: the in-kernel path manager uses it only while there is no other. A
	// [Policy] decides that itself, see [PathUse].
	Backup bool
}

// Routes is BGP's knowledge of a client.
type Routes struct {
	// Best is the path which plain packets to the client take, or "" when that
	// is none of the paths. Its EPE address would only double the initial
	// subflow, which leaves the same way.
	Best string
	// AS is the one that the client is in, 0 where that is not known.
	AS uint32
	// Paths are those whose peer advertises the client's prefix.
	Paths []string
	// Avoid are those on which data to the client are known to be lost,
	// whatever BGP says. They are left at once, by the initial subflow, too,
	// where Best is among them and another subflow is there.
	Avoid []string
	// Full are those whose port has no room for the connection. They are not announced, and
	// subflows by them become backup, the initial one, too, where Best is among them.
	Full []string
}

// Router answers which paths reach a client. It is asked while the Manager is
// locked, so it must answer from memory and must not call the Manager.
type Router interface {
	Routes(client netip.Addr) Routes
}

// EventKind is the kernel's enum mptcp_event_type.
type EventKind uint8

// The kinds of events, with the kernel's numbers.
const (
	EventCreated         EventKind = 1
	EventEstablished     EventKind = 2
	EventClosed          EventKind = 3
	EventAnnounced       EventKind = 6
	EventRemoved         EventKind = 7
	EventSubEstablished  EventKind = 10
	EventSubClosed       EventKind = 11
	EventSubPriority     EventKind = 13
	EventListenerCreated EventKind = 15
	EventListenerClosed  EventKind = 16
)

// String names the event as `ip mptcp monitor` does.
func (k EventKind) String() string {
	switch k {
	case EventCreated:
		return "created"
	case EventEstablished:
		return "established"
	case EventClosed:
		return "closed"
	case EventAnnounced:
		return "announced"
	case EventRemoved:
		return "removed"
	case EventSubEstablished:
		return "sub_established"
	case EventSubClosed:
		return "sub_closed"
	case EventSubPriority:
		return "sub_priority"
	case EventListenerCreated:
		return "listener_created"
	case EventListenerClosed:
		return "listener_closed"
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Event is one message of the multicast group mptcp_pm_events. Which fields
// are set depends on the kind: see include/uapi/linux/mptcp_pm.h.
type Event struct {
	Kind              EventKind
	Token             Token
	Local, Remote     netip.AddrPort
	LocalID, RemoteID uint8
	Backup            bool
	ServerSide        bool
	Interface         int
	// Error is the socket's error for a closed subflow, 0 for an orderly end.
	Error syscall.Errno
	// ResetReason is that of MP_TCPRST (RFC 8684 §3.6), 0 when none came.
	ResetReason uint32
}

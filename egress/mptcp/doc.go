// Package mptcp manages the paths of a content server's MPTCP connections
// (RFC 8684) through the kernel's two path managers.
//
// In the in-kernel path manager every connection of a network namespace gets the same
// endpoints: see [Client.AddEndpoint] and [PlanEndpoints]. In the user-space path manager
// (net.mptcp.pm_type=1) each connection is decided alone. The [Manager] follows the
// kernel's events, and a pure [Policy] says which EPE addresses a client shall know and
// which subflows are backup. [Plan] turns the difference into commands.
//
// The kernel accepts further subflows of a connection under the user-space path
// manager only while somebody listens to its events. If the Manager dies,
// existing subflows go on, announced addresses stay valid but cannot be joined,
// and new connections use their initial subflow alone. That is the safe side: a
// client then has the service that plain TCP would have given it.
//
// A server must listen on the wildcard address: a client joins an announced
// address at the port of its initial subflow.
package mptcp

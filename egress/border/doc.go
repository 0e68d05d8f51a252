// Package border plans what a border router does: what its egress peers announce
// goes in, and steps come out, kernel changes and VPN announcements as data.
//
// # The promise
//
// No packet goes to a peer for a prefix that the peer does not advertise at that
// moment. Each peer has a table with its routes alone and a SID that looks up there
// and nowhere else; a route is in the table before servers hear of it, and leaves
// the table before its withdrawal is sent. When a session is lost the SID becomes a
// blackhole with a single operation, then everything is withdrawn, then the table is
// cleared; the SID opens again when nothing of the former session is left behind it.
//
// # Restarts
//
// A planner starts from what the kernel holds. The tables of peers whose SID is open
// stay in use until the peer has sent its End-of-RIB, or the caller's patience ends
// ([Planner.Expire]); all else is as if it were not there.
package border

// Package border plans the work of a border router. Announcements of its egress peers go
// in, and steps come out: kernel changes and VPN announcements as data.
//
// # The promise
//
// No packet goes to a peer for a prefix that the peer does not advertise at that moment.
// Each peer has a table with its routes alone and a SID that looks up there and nowhere
// else. A route is in the table before servers hear of it, and leaves the table before its
// withdrawal is sent. When a session is lost the SID becomes a blackhole with a single
// operation. Then everything is withdrawn, and then the table is cleared. The SID opens
// again when nothing of the former session is left behind it.
//
// # Restarts
//
// A planner starts from the state of the kernel. The tables of peers whose SID is open stay
// in use until the peer has sent its End-of-RIB, or the caller's patience ends
// ([Planner.Expire]). All else is treated as absent.
package border

// Package endpoint plans the work of a content server: VPN routes of the borders go
// in, and kernel changes come out as data.
//
// Each path has a table with the prefixes that its peer advertises. All point to one
// nexthop object that puts packets into SRv6 towards the peer's SID. Rules bring packets
// there. Packets from the path's EPE address take this path or are dropped. Packets with
// the path's mark go the plain way where the path has no route.
//
// # Restarts
//
// A planner starts from the kernel's state, so that traffic goes on. Routes that are not
// confirmed go when those of their path are complete ([Planner.Settled]), or when the
// caller's patience ends ([Planner.Expire]).
package endpoint

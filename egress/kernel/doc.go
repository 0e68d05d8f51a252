// Package kernel holds the egress agents' part of the Linux network stack as data. The part
// has addresses, policy rules, routes, nexthop objects and the SRv6 tunnel source.
//
// [Applier.Read] returns the state that carries our mark. [Diff] is pure and turns two
// states into operations in a safe order, and [Applier.Apply] executes them. An [Op] prints
// as the ip(8) command which does the same, so a dry run is a loop of Println. [Tables]
// remembers the written state. So a change of one prefix costs one message, however many
// routes there are.
//
// # Ownership
//
// Everything is marked with a route protocol number ([Protocol]): routes (rtm_protocol),
// rules (FRA_PROTOCOL), nexthop objects (nh_protocol) and addresses (IFA_PROTO, Linux
// 5.18). New objects are created exclusively, and removals name the protocol where the
// kernel looks at it. So the objects of others are never overwritten or removed; a
// collision is an error ([ErrForeign]).
//
// The tunnel source is one value for each network namespace and has no mark. It is set when
// a state wants one, and otherwise left alone.
//
// # Nexthop objects
//
// Each unicast route points to a nexthop object. SRv6 encapsulation given with each route
// fails with ENOMEM near 11,000 routes, as each has its own per-CPU cache. Shared objects
// have one, and replacing the object repoints all its routes.
//
// Removing a route that has a nexthop object does not move live IPv6 connections off it.
// Each batch of removals therefore ends with a route that comes and goes, which makes all
// sockets look again.
//
// Two properties of the kernel matter for the choice of a [Nexthop.Device]. First, the
// kernel removes nexthop objects, and with them all their routes, when their device goes
// down or loses its carrier. For SRv6 the device is a formality, since the outer packet is
// routed by its SID. Choose one whose carrier does not follow a cable
// ([Applier.EnsureAnchor]). Second, the path MTU towards a route with SRv6 is the device's
// MTU less the outer header, without any route metric.
package kernel

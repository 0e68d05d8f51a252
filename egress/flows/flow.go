// Package flows counts packets that leave a physical interface by SRv6 SID and inner
// 5-tuple (SRv6 FlowStats). It counts exactly, to the byte and packet as sent on the wire.
//
// An eBPF program on the interface's tc egress hook counts into a table that user space
// maps into its own memory. A [Counter] attaches the program and reads the table; [Run]
// does so at an interval and hands the flows that grew to sinks. The sinks are [JSONLines],
// [CSV], [Metrics] (Prometheus) and [Terminal] (a live view).
//
// Nothing is lost silently. Packets whose flow finds no room in the table and packets
// without a readable 5-tuple are counted in records of their own. So the sum over all
// records of a SID is the traffic that was sent to it. The agent's own probes are left out.
package flows

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Key names a flow.
type Key struct {
	// SID is the last segment of the packet. With an SRH it is its Segment List[0] (RFC
	// 8754 §2), without one (reduced encapsulation, RFC 8986 §5.2) the outer destination.
	// The zero Addr stands for packets sent without SRv6.
	SID netip.Addr
	// Src and Dst are the inner addresses, both of one family.
	Src, Dst netip.Addr
	// Proto is the inner IP protocol number, after IPv6 extension headers.
	Proto uint8
	// SrcPort and DstPort are those of TCP, UDP, SCTP and DCCP. ICMP has
	// type<<8|code as DstPort (as IPFIX does). Both are 0 for other protocols
	// and for all fragments, so that a datagram stays one flow.
	SrcPort, DstPort uint16
}

// isProbe reports whether the packets are the agent's own, through a SID to that SID. See
// package oam.
func (k Key) isProbe() bool {
	return k.SID.IsValid() && k.Dst == k.SID && k.Proto == unix.IPPROTO_ICMPV6
}

// Counts is the traffic of a flow, or its growth.
type Counts struct {
	// Packets on the wire: a GSO super-packet counts as its segments.
	Packets uint64
	// Bytes of the frames on the wire, headers of each segment and a VLAN tag
	// included, without preamble, padding and frame check sequence.
	Bytes uint64
}

// Plus returns the sum of both counts.
func (c Counts) Plus(d Counts) Counts {
	return Counts{Packets: c.Packets + d.Packets, Bytes: c.Bytes + d.Bytes}
}

// Kind is the kind of traffic that a record counts.
type Kind uint8

const (
	// Flow is one 5-tuple.
	Flow Kind = iota
	// Overflow is the flows of a SID that found no room in the table. Only
	// Key.SID is set.
	Overflow
	// Opaque is the packets of a SID without a readable 5-tuple: malformed
	// ones, fragments of the outer packet, payload that is not IP. Only
	// Key.SID is set.
	Opaque
	// UnknownSID is the packets to SIDs for which the SID table has no room.
	// Key is zero.
	UnknownSID
)

// String returns the kind as the outputs write it.
func (k Kind) String() string {
	switch k {
	case Flow:
		return "flow"
	case Overflow:
		return "overflow"
	case Opaque:
		return "opaque"
	case UnknownSID:
		return "unknown-sid"
	}
	return "invalid"
}

// Record is a flow that grew.
type Record struct {
	Key  Key
	Kind Kind
	// Delta is the growth since the read before.
	Delta Counts
	// Total is the growth since the record's first appearance. A flow that was
	// idle for longer than the idle limit begins at zero again.
	Total Counts
}

// Sample is the outcome of one read.
type Sample struct {
	Time time.Time
	// Elapsed since the read before; for the first read, since attachment.
	Elapsed   time.Duration
	Interface string
	// Records holds the flows that grew, in no particular order. Two records may have the
	// same key (see [Record]); sums over a key are exact.
	Records []Record
	// Flows is the number of places taken in the table, of Capacity.
	Flows, Capacity int
}

// Sink takes samples. The sample and its records are valid until Write returns.
type Sink interface {
	Write(*Sample) error
}

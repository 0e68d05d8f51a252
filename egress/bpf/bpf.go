// Package bpf holds the eBPF program of SRv6 FlowStats, compiled, and the layout
// of the tables that it shares with user space.
//
// flows.o is built from flows.bpf.c by build.sh and committed, so that the
// module builds without a C compiler; "build.sh check" fails when they differ.
package bpf

import (
	"bytes"
	_ "embed"
	"fmt"

	"github.com/cilium/ebpf"
)

//go:embed flows.o
var object []byte

// Names of the parts of the object.
const (
	Program       = "count_flows"
	DrainProgram  = "drain"
	FlowTable     = "flows"
	SIDTable      = "sids"
	BatchTable    = "batches"
	MarkTable     = "marks"
	VarHashKeys   = "hash_keys"
	VarFlowMask   = "flow_mask"
	VarLinkHeader = "link_header"
	VarCountPlain = "count_plain"
)

// States of a table's entry: flows.h says which side may change which.
const (
	StateFree uint32 = iota
	StateClaimed
	StateLive
	StateRetired
)

// Indices of the SID table with a meaning of their own, and its size.
const (
	SIDNone    = 0 // packets without SRv6
	SIDUnknown = 1 // SIDs without room in the table
	SIDSlots   = 1024
)

// GroupPlaces is how many places of the flow table have a mark in common.
const GroupPlaces = 64

// HashKeys is the number of 64-bit keys of the hash function.
const HashKeys = 11

// Flow is an entry of the flow table (struct flow). State, Packets and Bytes
// change at any time: read them atomically; Key is valid once State is
// StateLive, until user space itself frees the entry.
type Flow struct {
	Key     [5]uint64
	State   uint32
	_       uint32
	Packets uint64
	Bytes   uint64
}

// Marks is an entry of the table of marks (struct marks). It has a byte for each group of
// places, not zero when a flow there may have grown. Clear it by an atomic operation on the
// word before looking at the group.
type Marks [8]uint64

// Batch is an entry of the table of batches (struct batch), one for each possible CPU.
// Its fields change at any time: read them atomically.
type Batch struct {
	// Busy is not 0 while the CPU counts a packet.
	Busy uint32
	// Waiting is how many packets wait on the CPU.
	Waiting uint32
	_       [56]byte
	_       [64][64]byte
}

// SID is an entry of the SID table (struct sid).
type SID struct {
	Address         [16]byte
	State           uint32
	_               uint32
	OverflowPackets uint64
	OverflowBytes   uint64
	OpaquePackets   uint64
	OpaqueBytes     uint64
	_               uint64
}

// Spec parses the compiled program.
func Spec() (*ebpf.CollectionSpec, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("parsing the compiled flows program: %w", err)
	}
	return spec, nil
}

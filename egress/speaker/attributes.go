package speaker

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Attributes are the BGP path attributes that path selection and operators need.
// Two can be compared with ==.
type Attributes struct {
	// NextHop is where the peer wants the packets.
	NextHop netip.Addr
	// ASPath is the way to the origin.
	ASPath ASPath
	// Origin is 0 IGP, 1 EGP, 2 incomplete (RFC 4271 §5.1.1).
	Origin uint8
	// HasMED tells whether MED was announced.
	HasMED bool
	// MED is the multi-exit discriminator.
	MED uint32
	// LocalPref is only there from reflectors; 0 means none.
	LocalPref uint32

	communities string
	large       string // only to send: nobody here asks for those that come
}

// Communities returns the RFC 1997 communities.
func (a Attributes) Communities() []uint32 {
	list := make([]uint32, 0, len(a.communities)/4)
	for c := a.communities; len(c) >= 4; c = c[4:] {
		list = append(list, binary.BigEndian.Uint32([]byte(c[:4])))
	}
	return list
}

// WithCommunities returns a copy with these communities instead.
func (a Attributes) WithCommunities(list ...uint32) Attributes {
	b := make([]byte, 0, 4*len(list))
	for _, c := range list {
		b = binary.BigEndian.AppendUint32(b, c)
	}
	a.communities = string(b)
	return a
}

// LargeCommunity is one of RFC 8092: an AS number and two of its own choice.
type LargeCommunity [3]uint32

// WithLargeCommunities returns a copy that is sent with these large communities instead.
func (a Attributes) WithLargeCommunities(list ...LargeCommunity) Attributes {
	b := make([]byte, 0, 12*len(list))
	for _, c := range list {
		for _, part := range c {
			b = binary.BigEndian.AppendUint32(b, part)
		}
	}
	a.large = string(b)
	return a
}

// ASPath is an AS_PATH attribute (RFC 4271 §4.3). The zero value is the empty
// path. Two can be compared with ==.
type ASPath struct {
	// raw is the attribute with 4-byte AS numbers: type, count, numbers.
	raw string
}

// NewASPath returns the path that is one sequence, nearest AS first. Longer
// than 255 it becomes several segments.
func NewASPath(sequence ...uint32) ASPath {
	var b []byte
	for len(sequence) > 0 {
		n := min(len(sequence), 255)
		b = append(b, bgp.BGP_ASPATH_ATTR_TYPE_SEQ, byte(n))
		for _, as := range sequence[:n] {
			b = binary.BigEndian.AppendUint32(b, as)
		}
		sequence = sequence[n:]
	}
	return ASPath{raw: string(b)}
}

// segments calls yield for each segment; it stops at what is malformed, which
// no constructor makes.
func (p ASPath) segments(yield func(kind byte, numbers []uint32) bool) {
	for raw := []byte(p.raw); len(raw) >= 2 && len(raw) >= 2+4*int(raw[1]); raw = raw[2+4*int(raw[1]):] {
		numbers := make([]uint32, raw[1])
		for i := range numbers {
			numbers[i] = binary.BigEndian.Uint32(raw[2+4*i:])
		}
		if !yield(raw[0], numbers) {
			return
		}
	}
}

// Contains tells whether the AS is anywhere in the path, also in sets.
func (p ASPath) Contains(as uint32) bool {
	found := false
	p.segments(func(_ byte, numbers []uint32) bool {
		for _, n := range numbers {
			found = found || n == as
		}
		return !found
	})
	return found
}

// Len is the length that path selection counts: a set is one (RFC 4271
// §9.1.2.2 a), confederation segments are none (RFC 5065 §5.3).
func (p ASPath) Len() int {
	n := 0
	p.segments(func(kind byte, numbers []uint32) bool {
		switch kind {
		case bgp.BGP_ASPATH_ATTR_TYPE_SEQ:
			n += len(numbers)
		case bgp.BGP_ASPATH_ATTR_TYPE_SET:
			n++
		}
		return true
	})
	return n
}

// Origin is the AS that the route came from, 0 for an empty path or a set.
func (p ASPath) Origin() uint32 {
	var origin uint32
	p.segments(func(kind byte, numbers []uint32) bool {
		origin = 0
		if kind == bgp.BGP_ASPATH_ATTR_TYPE_SEQ && len(numbers) > 0 {
			origin = numbers[len(numbers)-1]
		}
		return true
	})
	return origin
}

// String returns the usual form, sets in braces: "64501 64502 {64503,64504}".
func (p ASPath) String() string {
	var parts []string
	p.segments(func(kind byte, numbers []uint32) bool {
		words := make([]string, len(numbers))
		for i, n := range numbers {
			words[i] = fmt.Sprint(n)
		}
		switch kind {
		case bgp.BGP_ASPATH_ATTR_TYPE_SEQ:
			parts = append(parts, words...)
		case bgp.BGP_ASPATH_ATTR_TYPE_SET:
			parts = append(parts, "{"+strings.Join(words, ",")+"}")
		default:
			parts = append(parts, "("+strings.Join(words, " ")+")")
		}
		return true
	})
	return strings.Join(parts, " ")
}

// attributesFromGoBGP reads a path's attributes; unknown ones are left out.
func attributesFromGoBGP(attrs []bgp.PathAttributeInterface) Attributes {
	var a Attributes
	for _, attr := range attrs {
		switch attr := attr.(type) {
		case *bgp.PathAttributeOrigin:
			a.Origin = attr.Value
		case *bgp.PathAttributeAsPath:
			a.ASPath = asPathFromGoBGP(attr)
		case *bgp.PathAttributeNextHop:
			a.NextHop = attr.Value
		case *bgp.PathAttributeMpReachNLRI:
			a.NextHop = attr.Nexthop
		case *bgp.PathAttributeMultiExitDisc:
			a.MED, a.HasMED = attr.Value, true
		case *bgp.PathAttributeLocalPref:
			a.LocalPref = attr.Value
		case *bgp.PathAttributeCommunities:
			a = a.WithCommunities(attr.Value...)
		}
	}
	return a
}

func asPathFromGoBGP(attr *bgp.PathAttributeAsPath) ASPath {
	var b []byte
	for _, segment := range attr.Value {
		numbers := segment.GetAS()
		if len(numbers) == 0 || len(numbers) > 255 {
			continue
		}
		b = append(b, segment.GetType(), byte(len(numbers)))
		for _, as := range numbers {
			b = binary.BigEndian.AppendUint32(b, as)
		}
	}
	return ASPath{raw: string(b)}
}

// gobgp returns the attributes other than the next hop, which goes with the NLRI.
func (a Attributes) gobgp() []bgp.PathAttributeInterface {
	var segments []bgp.AsPathParamInterface
	a.ASPath.segments(func(kind byte, numbers []uint32) bool {
		segments = append(segments, bgp.NewAs4PathParam(kind, numbers))
		return true
	})
	attrs := []bgp.PathAttributeInterface{
		bgp.NewPathAttributeOrigin(a.Origin),
		bgp.NewPathAttributeAsPath(segments),
	}
	if a.HasMED {
		attrs = append(attrs, bgp.NewPathAttributeMultiExitDisc(a.MED))
	}
	if a.LocalPref != 0 {
		attrs = append(attrs, bgp.NewPathAttributeLocalPref(a.LocalPref))
	}
	if list := a.Communities(); len(list) > 0 {
		attrs = append(attrs, bgp.NewPathAttributeCommunities(list))
	}
	var large []*bgp.LargeCommunity
	for c := []byte(a.large); len(c) >= 12; c = c[12:] {
		large = append(large, &bgp.LargeCommunity{
			ASN:        binary.BigEndian.Uint32(c),
			LocalData1: binary.BigEndian.Uint32(c[4:]),
			LocalData2: binary.BigEndian.Uint32(c[8:]),
		})
	}
	if len(large) > 0 {
		attrs = append(attrs, bgp.NewPathAttributeLargeCommunities(large))
	}
	return attrs
}

package wire

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

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

// segments calls yield for each segment; it stops at a malformed one, which no constructor
// makes.
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

// WithoutLeading returns the path behind the numbers of an AS at its beginning.
func (p ASPath) WithoutLeading(as uint32) ASPath {
	raw := []byte(p.raw)
	for len(raw) >= 6 && raw[0] == bgp.BGP_ASPATH_ATTR_TYPE_SEQ && binary.BigEndian.Uint32(raw[2:]) == as {
		if raw[1] == 1 {
			raw = raw[6:]
		} else {
			raw = append([]byte{raw[0], raw[1] - 1}, raw[6:]...)
		}
	}
	return ASPath{raw: string(raw)}
}

// Contains reports whether the AS is anywhere in the path, also in sets.
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

// First is the AS that the route came from last, 0 for an empty path or a set.
func (p ASPath) First() uint32 {
	var first uint32
	p.segments(func(kind byte, numbers []uint32) bool {
		if kind == bgp.BGP_ASPATH_ATTR_TYPE_SEQ && len(numbers) > 0 {
			first = numbers[0]
		}
		return false
	})
	return first
}

// HasSet reports whether there is a set, also of a confederation.
func (p ASPath) HasSet() bool {
	found := false
	p.segments(func(kind byte, _ []uint32) bool {
		found = kind == bgp.BGP_ASPATH_ATTR_TYPE_SET || kind == bgp.BGP_ASPATH_ATTR_TYPE_CONFED_SET
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

// String returns the common form, sets in braces: "64501 64502 {64503,64504}".
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

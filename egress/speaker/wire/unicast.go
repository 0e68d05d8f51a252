package wire

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// parsePlain reads the fields for IPv4 routes of an UPDATE, which only those of peers
// have. bare: it has no attribute, and without routes is End-of-RIB (RFC 4724 §2).
func (u *Update) parsePlain(withdrawn, nlri []byte, bare bool) (err error) {
	if u.from == FromReflector {
		return nil
	}
	if bare && len(withdrawn) == 0 && len(nlri) == 0 {
		u.EndOfRIB = IPv4Unicast
	}
	if u.Unreach, err = u.parseRoutes(u.Unreach, withdrawn, IPv4Unicast); err != nil {
		return err
	}
	u.Plain, err = u.parseRoutes(u.Plain, nlri, IPv4Unicast)
	return err
}

// parseUnicast appends the routes of an NLRI field (RFC 4271 §4.3, RFC 4760 §5).
func parseUnicast(list []NLRI, b []byte, family Family) ([]NLRI, error) {
	for len(b) > 0 {
		prefix, rest, err := cutPrefix(b, family)
		if err != nil {
			return list, err
		}
		list, b = append(list, NLRI{Prefix: prefix}), rest
	}
	return list, nil
}

// parsePaths appends the paths of an NLRI field, each with an identifier before its prefix
// (RFC 7911 §3).
func parsePaths(list []NLRI, b []byte, family Family) ([]NLRI, error) {
	for len(b) > 0 {
		if len(b) <= pathIDLength {
			return list, fmt.Errorf("%w: a path with %d bytes left", errUpdate, len(b))
		}
		prefix, rest, err := cutPrefix(b[pathIDLength:], family)
		if err != nil {
			return list, err
		}
		list, b = append(list, NLRI{Prefix: prefix, PathID: binary.BigEndian.Uint32(b)}), rest
	}
	return list, nil
}

// pathIDLength is the length of a path identifier in bytes.
const pathIDLength = 4

// cutPrefix returns the first prefix of a field that is not empty.
func cutPrefix(b []byte, family Family) (prefix netip.Prefix, rest []byte, err error) {
	size := 16
	if family == IPv4Unicast {
		size = 4
	}
	bits := int(b[0])
	n := 1 + (bits+7)/8
	if bits > 8*size || len(b) < n {
		return prefix, nil, fmt.Errorf("%w: a route of %d bits with %d bytes left", errUpdate, bits, len(b)-1)
	}
	return prefixOf(b[1:n], bits, size), b[n:], nil
}

// takePlainHop reads the next hop of plain. One that is no host's counts as malformed
// (RFC 7606 §7.3).
func (u *Update) takePlainHop(seen *attributeSet) {
	const kind = bgp.BGP_ATTR_TYPE_NEXT_HOP
	if !seen[kind] {
		u.fault(kind, true, "it is missing") // RFC 7606 §3 d
		return
	}
	for _, a := range u.Attributes {
		if hop, ok := a.(*bgp.PathAttributeNextHop); ok {
			u.PlainHop = hop.Value
		}
	}
	// Where it could not be read it is a fault already.
	if h := u.PlainHop; h.IsValid() && (h.As4()[0] == 0 || h.IsMulticast() || h.IsLoopback()) {
		u.fault(kind, true, "it is %s", h)
	}
}

// confederated reports whether there is a segment that must not leave a confederation
// (RFC 5065 §5).
func confederated(path *bgp.PathAttributeAsPath) bool {
	for _, segment := range path.Value {
		switch segment.GetType() {
		case bgp.BGP_ASPATH_ATTR_TYPE_CONFED_SEQ, bgp.BGP_ASPATH_ATTR_TYPE_CONFED_SET:
			return true
		}
	}
	return false
}

// OfFamilies returns the prefixes of a list that are of one of the families.
func OfFamilies(list []NLRI, families []Family) []netip.Prefix {
	var four, six bool
	for _, f := range families {
		four, six = four || f == IPv4Unicast, six || f == IPv6Unicast
	}
	found := make([]netip.Prefix, 0, len(list))
	for _, p := range list {
		if is4 := p.Prefix.Addr().Is4(); is4 && four || !is4 && six {
			found = append(found, p.Prefix)
		}
	}
	return found
}

package wire

import (
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
	if u.Unreach, err = parseUnicast(u.Unreach, withdrawn, IPv4Unicast); err != nil {
		return err
	}
	u.Plain, err = parseUnicast(u.Plain, nlri, IPv4Unicast)
	return err
}

// parseUnicast appends the routes of an NLRI field (RFC 4271 §4.3, RFC 4760 §5).
func parseUnicast(list []NLRI, b []byte, family Family) ([]NLRI, error) {
	size := 16
	if family == IPv4Unicast {
		size = 4
	}
	for len(b) > 0 {
		bits := int(b[0])
		n := (bits + 7) / 8
		if bits > 8*size || len(b) < 1+n {
			return list, fmt.Errorf("%w: a route of %d bits with %d bytes left", errUpdate, bits, len(b)-1)
		}
		list = append(list, NLRI{Prefix: prefixOf(b[1:1+n], bits, size)})
		b = b[1+n:]
	}
	return list, nil
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

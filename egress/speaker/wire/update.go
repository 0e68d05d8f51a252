package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/srv6"
)

// Lengths of messages and their parts, in bytes.
const (
	HeaderLength = bgp.BGP_HEADER_LENGTH
	MaxMessage   = bgp.BGP_MAX_MESSAGE_LENGTH
	MaxExtended  = bgp.BGP_MAX_EXTENDED_MESSAGE_LENGTH // RFC 8654 §4
	// MaxEndOfRIB is the body of an UPDATE with MP_UNREACH_NLRI of a family alone, whose
	// length takes two bytes. No VPN route fits into it.
	MaxEndOfRIB = 2 + 2 + 4 + 3

	labelLength = 3
	rdLength    = 8
	// extended are the flags of an optional attribute with two bytes of length.
	extended = byte(bgp.BGP_ATTR_FLAG_OPTIONAL | bgp.BGP_ATTR_FLAG_EXTENDED_LENGTH)
	// defaultLocalPref is the preference of routes without LOCAL_PREF: within an AS the
	// attribute must be there (RFC 4271 §5.1.5).
	defaultLocalPref = 100
	// ImplicitNull is the label of a VPN route whose SID is not transposed; RFC 9252 §4
	// leaves "Implicit NULL" as its value.
	ImplicitNull = 3
)

// errUpdate is the error of an UPDATE whose routes cannot be determined. The session must
// end, since nobody knows its meaning (RFC 7606 §3).
var errUpdate = errors.New("malformed UPDATE")

// Source is the kind of neighbour that sends an UPDATE.
type Source uint8

// The kinds of neighbours.
const (
	// FromReflector: VPN routes, within the AS.
	FromReflector Source = iota
	// FromPeer: unicast routes of another AS.
	FromPeer
	// FromMonitor: the same, as an own router's import policy has left them. They may have
	// LOCAL_PREF.
	FromMonitor
	// FromAddPath: the same, on a session within the AS that has several for a prefix, each
	// with a path identifier (RFC 7911).
	FromAddPath
	// FromReflectorWithBest: VPN routes, and the best paths of unicast families, within the AS.
	FromReflectorWithBest
)

// reflects reports whether the neighbour sends VPN routes.
func (s Source) reflects() bool { return s == FromReflector || s == FromReflectorWithBest }

// NLRI is the key of a VPN route, or of a unicast one, whose distinguisher is zero.
type NLRI struct {
	RD     srv6.RouteDistinguisher
	Prefix netip.Prefix
	// PathID distinguishes the paths of a prefix on a session with ADD-PATH (RFC 7911 §3).
	// Elsewhere it is zero.
	PathID uint32
}

// Update is the content of an UPDATE message.
type Update struct {
	Reach, Unreach []NLRI
	// NextHop belongs to Reach.
	NextHop netip.Addr
	// Plain are IPv4 routes outside MP_REACH_NLRI (RFC 4271 §4.3), of peers alone.
	Plain []NLRI
	// PlainHop is the next hop of Plain.
	PlainHop netip.Addr
	// Attributes belong to Reach and Plain.
	Attributes []bgp.PathAttributeInterface
	// Unusable: Reach and Plain count as withdrawn, for one of Faults (RFC 7606 §2).
	Unusable bool
	Faults   []Fault
	// EndOfRIB is the family whose End-of-RIB the message is, or 0.
	EndOfRIB Family

	from Source
}

// ParseUpdate reads the body of an UPDATE message. Routes of families that do not
// come from there are left out. It fails with [errUpdate].
func ParseUpdate(body []byte, from Source) (Update, error) {
	u := Update{from: from}
	withdrawn, rest, ok := cutLength16(body)
	if !ok {
		return u, fmt.Errorf("%w: withdrawn routes are longer than the message", errUpdate)
	}
	attributes, nlri, ok := cutLength16(rest)
	if !ok {
		return u, fmt.Errorf("%w: path attributes are longer than the message", errUpdate)
	}
	if err := u.parsePlain(withdrawn, nlri, len(attributes) == 0); err != nil {
		return u, err
	}
	var seen attributeSet
	reachable := len(nlri) > 0
	for len(attributes) > 0 {
		raw, value, ok := cutAttribute(attributes)
		if !ok {
			if err := u.overrun(attributes, &seen); err != nil {
				return u, err
			}
			break
		}
		attributes = attributes[len(raw):]
		routes, err := u.parseOne(raw, value, &seen)
		if err != nil {
			return u, err
		}
		reachable = reachable || routes
	}
	return u, u.checkWhole(&seen, reachable)
}

// attributeSet is the types of attributes that a message has.
type attributeSet [256]bool

// onlyUnreach reports whether there is none but MP_UNREACH_NLRI.
func (s attributeSet) onlyUnreach() bool {
	s[bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI] = false
	return s == attributeSet{}
}

// parseOne takes one attribute, and reports whether it announces routes of any family.
func (u *Update) parseOne(raw, value []byte, seen *attributeSet) (routes bool, err error) {
	kind := bgp.BGPAttrType(raw[1])
	again := seen[kind]
	seen[kind] = true
	switch {
	case kind == bgp.BGP_ATTR_TYPE_MP_REACH_NLRI, kind == bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI:
		if again {
			return false, fmt.Errorf("%w: a second %s", errUpdate, kind) // RFC 7606 §3 g
		}
		u.flagsFit(raw)
		if kind == bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI {
			return false, u.parseUnreach(value)
		}
		return u.parseReach(value)
	case again:
		u.fault(kind, false, "it is there already") // RFC 7606 §3 g
	default:
		if err := recognize(raw); err != nil {
			return false, err
		}
		u.parseAttribute(raw, value)
	}
	return false, nil
}

// overrun takes attributes of which the first is longer than all of them
// (RFC 7606 §4).
func (u *Update) overrun(attributes []byte, seen *attributeSet) error {
	var kind bgp.BGPAttrType // 0, which is reserved, where the type is cut off
	if len(attributes) > 1 {
		kind = bgp.BGPAttrType(attributes[1])
	}
	if kind == bgp.BGP_ATTR_TYPE_MP_REACH_NLRI || kind == bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI {
		return fmt.Errorf("%w: %s is longer than the message", errUpdate, kind)
	}
	seen[kind] = true
	u.fault(kind, true, "it is longer than the message")
	return nil
}

// mandatory are the attributes that routes must have beside a next hop (RFC 4271 §5):
// within an AS LOCAL_PREF, too (§5.1.5).
var mandatory = [...][]bgp.BGPAttrType{
	FromReflector: {bgp.BGP_ATTR_TYPE_ORIGIN, bgp.BGP_ATTR_TYPE_AS_PATH, bgp.BGP_ATTR_TYPE_LOCAL_PREF},
	FromPeer:      {bgp.BGP_ATTR_TYPE_ORIGIN, bgp.BGP_ATTR_TYPE_AS_PATH},
	FromMonitor:   {bgp.BGP_ATTR_TYPE_ORIGIN, bgp.BGP_ATTR_TYPE_AS_PATH},
	FromAddPath:   {bgp.BGP_ATTR_TYPE_ORIGIN, bgp.BGP_ATTR_TYPE_AS_PATH, bgp.BGP_ATTR_TYPE_LOCAL_PREF},

	FromReflectorWithBest: {bgp.BGP_ATTR_TYPE_ORIGIN, bgp.BGP_ATTR_TYPE_AS_PATH, bgp.BGP_ATTR_TYPE_LOCAL_PREF},
}

// checkWhole checks the attributes together.
func (u *Update) checkWhole(seen *attributeSet, reachable bool) error {
	if len(u.Plain) > 0 {
		u.takePlainHop(seen)
	}
	if len(u.Reach) > 0 || len(u.Plain) > 0 {
		for _, kind := range mandatory[u.from] {
			if !seen[kind] {
				u.fault(kind, true, "it is missing") // RFC 7606 §3 d
			}
		}
	}
	// RFC 7606 §5.2: the intended routes may be in the part that cannot be read.
	if u.Unusable && !reachable && !seen.onlyUnreach() {
		f := u.Faults[slices.IndexFunc(u.Faults, func(f Fault) bool { return f.Withdraws })]
		return fmt.Errorf("%w: %s: %s, and no route to withdraw", errUpdate, f.Kind, f.Reason)
	}
	return nil
}

func cutLength16(b []byte) (value, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	if len(b) < n {
		return nil, nil, false
	}
	return b[2:n], b[n:], true
}

// cutAttribute returns the first attribute with its header, and its value.
func cutAttribute(b []byte) (raw, value []byte, ok bool) {
	if len(b) < 3 {
		return nil, nil, false
	}
	header, n := 3, int(b[2])
	if bgp.BGPAttrFlag(b[0])&bgp.BGP_ATTR_FLAG_EXTENDED_LENGTH != 0 {
		if len(b) < 4 {
			return nil, nil, false
		}
		header, n = 4, int(binary.BigEndian.Uint16(b[2:]))
	}
	if len(b) < header+n {
		return nil, nil, false
	}
	return b[:header+n], b[header : header+n], true
}

// parseReach reads MP_REACH_NLRI (RFC 4760 §3), and reports whether it has routes, also
// those of other families.
func (u *Update) parseReach(value []byte) (routes bool, err error) {
	if len(value) < 5 || len(value) < 5+int(value[3]) {
		return false, fmt.Errorf("%w: MP_REACH_NLRI has %d bytes", errUpdate, len(value))
	}
	hop, rest := value[4:4+int(value[3])], value[5+int(value[3]):]
	family, ok := u.family(value)
	if !ok {
		return len(rest) > 0, nil
	}
	if u.NextHop, ok = parseNextHop(hop, family); !ok {
		return false, fmt.Errorf("%w: next hop of %d bytes", errUpdate, len(hop)) // RFC 7606 §7.11
	}
	if !family.VPN() && (u.NextHop.IsUnspecified() || u.NextHop.IsMulticast()) {
		u.fault(bgp.BGP_ATTR_TYPE_MP_REACH_NLRI, true, "its next hop is %s", u.NextHop)
	}
	u.Reach, err = u.parseRoutes(u.Reach, rest, family)
	return len(u.Reach) > 0, err
}

// parseNextHop reads the next hop of MP_REACH_NLRI, and reports whether its size is one of
// the family's. The next hop of VPN routes has a distinguisher of zeros before it. One of
// IPv6 may have a link-local address behind it. See RFC 4364 §4.3.2 and RFC 2545 §3.
func parseNextHop(b []byte, family Family) (hop netip.Addr, ok bool) {
	if family.VPN() {
		switch len(b) {
		case rdLength + 4:
			return netip.AddrFrom4([4]byte(b[rdLength:])), true
		case rdLength + 16, 2 * (rdLength + 16):
			return netip.AddrFrom16([16]byte(b[rdLength : rdLength+16])), true
		}
		return netip.Addr{}, false
	}
	switch {
	case family == IPv4Unicast && len(b) == 4:
		return netip.AddrFrom4([4]byte(b)), true
	case len(b) == 16 || len(b) == 2*16: // of IPv4 routes by RFC 8950 §3
		return netip.AddrFrom16([16]byte(b[:16])), true
	}
	return netip.Addr{}, false
}

// parseUnreach reads MP_UNREACH_NLRI (RFC 4760 §4). Without routes it is
// End-of-RIB (RFC 4724 §2).
func (u *Update) parseUnreach(value []byte) error {
	if len(value) < 3 {
		return fmt.Errorf("%w: MP_UNREACH_NLRI has %d bytes", errUpdate, len(value))
	}
	family, ok := u.family(value)
	if !ok {
		return nil
	}
	if len(value) == 3 {
		u.EndOfRIB = family
		return nil
	}
	var err error
	u.Unreach, err = u.parseRoutes(u.Unreach, value[3:], family)
	return err
}

// family is that of a multiprotocol attribute, and whether such routes come from there.
func (u *Update) family(value []byte) (Family, bool) {
	f, ok := FamilyFromGoBGP(bgp.NewFamily(binary.BigEndian.Uint16(value), value[2]))
	return f, ok && (f.VPN() == u.from.reflects() || u.from == FromReflectorWithBest)
}

// parseRoutes appends the routes of an NLRI field.
func (u *Update) parseRoutes(list []NLRI, b []byte, family Family) ([]NLRI, error) {
	switch {
	case family.VPN():
		return parseVPN(list, b, family)
	case u.from == FromAddPath:
		return parsePaths(list, b, family)
	}
	return parseUnicast(list, b, family)
}

// parseVPN appends the routes of an NLRI field (RFC 4364 §4.3.4). Each has one label, since
// sessions of ours never offer more. Its bits say nothing (RFC 8277 §2.2).
func parseVPN(list []NLRI, b []byte, family Family) ([]NLRI, error) {
	size := 16
	if family == VPNv4 {
		size = 4
	}
	for len(b) > 0 {
		bits := int(b[0]) - 8*(labelLength+rdLength)
		n := (bits + 7) / 8
		if bits < 0 || bits > 8*size || len(b) < 1+labelLength+rdLength+n {
			return list, fmt.Errorf("%w: a VPN route of %d bits with %d bytes left", errUpdate, b[0], len(b)-1)
		}
		b = b[1+labelLength:]
		prefix := prefixOf(b[rdLength:rdLength+n], bits, size)
		list = append(list, NLRI{RD: srv6.RouteDistinguisher(b[:rdLength]), Prefix: prefix})
		b = b[rdLength+n:]
	}
	return list, nil
}

// prefixOf is the prefix with these first bytes of an address that has size bytes.
func prefixOf(b []byte, bits, size int) netip.Prefix {
	var address [16]byte
	copy(address[:], b)
	addr := netip.AddrFrom16(address)
	if size == 4 {
		addr = netip.AddrFrom4([4]byte(address[:4]))
	}
	return netip.PrefixFrom(addr, bits).Masked()
}

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Fault is a malformed path attribute. The session goes on: either the attribute or the
// message's routes are left out (RFC 7606 §2).
type Fault struct {
	Kind   bgp.BGPAttrType
	Reason string
	// Withdraws: the routes count as withdrawn. Else the attribute alone is discarded.
	Withdraws bool
}

// attributeRule is the length of an attribute, and the fate of one of another length.
type attributeRule struct {
	// size is the length in bytes; with repeats any multiple of it but 0 is right.
	size    int
	repeats bool
	// discards: one of another length is discarded alone.
	discards bool
	// read: we use its value, so that it is decoded, which checks it further.
	read bool
	// raw: we use its value, which has no further form.
	raw bool
	// ignored: it does not count whatever its value, and so is never malformed.
	ignored bool
}

// anySize is the size of attributes whose decoder alone checks it.
const anySize = -1

// attributeRules are the rules of sessions with AS numbers of four bytes. Attributes without
// a rule are left out, and only their flags are checked.
var attributeRules = [...]map[bgp.BGPAttrType]attributeRule{
	FromReflector: internalRules, FromPeer: externalRules(), FromMonitor: monitorRules(), FromAddPath: addPathRules(),
	FromReflectorWithBest: bestRules(),
}

// externalRules are those of sessions with other ASes. There, attributes for use within one
// AS are discarded (RFC 7606 §7.5, §7.9 and §7.10, RFC 8669 §5).
func externalRules() map[bgp.BGPAttrType]attributeRule {
	rules := maps.Clone(internalRules)
	for _, kind := range []bgp.BGPAttrType{
		bgp.BGP_ATTR_TYPE_LOCAL_PREF, bgp.BGP_ATTR_TYPE_ORIGINATOR_ID, bgp.BGP_ATTR_TYPE_CLUSTER_LIST, bgp.BGP_ATTR_TYPE_PREFIX_SID,
	} {
		rules[kind] = attributeRule{ignored: true}
	}
	rules[bgp.BGP_ATTR_TYPE_NEXT_HOP] = attributeRule{size: 4, read: true}
	rules[bgp.BGP_ATTR_TYPE_EXTENDED_COMMUNITIES] = attributeRule{size: 8, repeats: true, raw: true}
	rules[bgp.BGP_ATTR_TYPE_LARGE_COMMUNITY] = attributeRule{size: 12, repeats: true, raw: true}
	rules[onlyToCustomer] = attributeRule{size: 4, raw: true} // RFC 9234 §5
	return rules
}

// monitorRules are those of routes that a router of ours has from another AS, and hands on
// with the LOCAL_PREF that it gives them.
func monitorRules() map[bgp.BGPAttrType]attributeRule {
	rules := externalRules()
	rules[bgp.BGP_ATTR_TYPE_LOCAL_PREF] = internalRules[bgp.BGP_ATTR_TYPE_LOCAL_PREF]
	return rules
}

// addPathRules are those of the same routes on a session within the AS. ORIGINATOR_ID shows
// the router that has a route from the other AS (RFC 4456 §8).
func addPathRules() map[bgp.BGPAttrType]attributeRule {
	rules := monitorRules()
	for _, kind := range []bgp.BGPAttrType{bgp.BGP_ATTR_TYPE_ORIGINATOR_ID, bgp.BGP_ATTR_TYPE_CLUSTER_LIST} {
		rules[kind] = internalRules[kind]
	}
	return rules
}

// bestRules are those of a session within the AS that has unicast routes, too.
func bestRules() map[bgp.BGPAttrType]attributeRule {
	rules := maps.Clone(internalRules)
	rules[bgp.BGP_ATTR_TYPE_NEXT_HOP] = attributeRule{size: 4, read: true}
	return rules
}

// internalRules are those of sessions within an AS.
var internalRules = map[bgp.BGPAttrType]attributeRule{
	bgp.BGP_ATTR_TYPE_ORIGIN:                   {size: 1, read: true},                 // RFC 7606 §7.1
	bgp.BGP_ATTR_TYPE_AS_PATH:                  {size: anySize, read: true},           // §7.2
	bgp.BGP_ATTR_TYPE_NEXT_HOP:                 {size: 4},                             // §7.3; MP_REACH_NLRI has ours
	bgp.BGP_ATTR_TYPE_MULTI_EXIT_DISC:          {size: 4, read: true},                 // §7.4
	bgp.BGP_ATTR_TYPE_LOCAL_PREF:               {size: 4, read: true},                 // §7.5
	bgp.BGP_ATTR_TYPE_ATOMIC_AGGREGATE:         {size: 0, discards: true},             // §7.6
	bgp.BGP_ATTR_TYPE_AGGREGATOR:               {size: 8, discards: true},             // §7.7
	bgp.BGP_ATTR_TYPE_COMMUNITIES:              {size: 4, repeats: true, read: true},  // §7.8
	bgp.BGP_ATTR_TYPE_ORIGINATOR_ID:            {size: 4, read: true},                 // §7.9
	bgp.BGP_ATTR_TYPE_CLUSTER_LIST:             {size: 4, repeats: true},              // §7.10
	bgp.BGP_ATTR_TYPE_EXTENDED_COMMUNITIES:     {size: 8, repeats: true, read: true},  // §7.14
	bgp.BGP_ATTR_TYPE_AS4_PATH:                 {ignored: true},                       // RFC 6793 §4.1
	bgp.BGP_ATTR_TYPE_AS4_AGGREGATOR:           {ignored: true},                       // RFC 6793 §4.1
	bgp.BGP_ATTR_TYPE_AIGP:                     {ignored: true},                       // RFC 7311 §3.2
	bgp.BGP_ATTR_TYPE_IP6_EXTENDED_COMMUNITIES: {size: 20, repeats: true},             // §7.15
	bgp.BGP_ATTR_TYPE_LARGE_COMMUNITY:          {size: 12, repeats: true, read: true}, // RFC 8092 §6
	bgp.BGP_ATTR_TYPE_PREFIX_SID:               {size: anySize, read: true},           // RFC 9252 §7
}

// fits reports whether a length is right.
func (r attributeRule) fits(n int) bool {
	if r.repeats {
		return n > 0 && n%r.size == 0
	}
	return r.size == anySize || n == r.size
}

// unrecognizedError is the error of an UPDATE with an unknown well-known attribute: its
// routes may have another meaning.
type unrecognizedError struct{ raw []byte }

func (e unrecognizedError) Error() string {
	return fmt.Sprintf("%s: attribute %d is not known, and not optional", errUpdate, e.raw[1])
}

func (e unrecognizedError) Unwrap() error { return errUpdate }

// Notification is the NOTIFICATION for an error of [ParseUpdate].
func Notification(err error) error {
	var unrecognized unrecognizedError
	if errors.As(err, &unrecognized) {
		return bgp.NewMessageError(bgp.BGP_ERROR_UPDATE_MESSAGE_ERROR, bgp.BGP_ERROR_SUB_UNRECOGNIZED_WELL_KNOWN_ATTRIBUTE,
			slices.Clone(unrecognized.raw), err.Error()) // RFC 4271 §6.3
	}
	return bgp.NewMessageError(bgp.BGP_ERROR_UPDATE_MESSAGE_ERROR, bgp.BGP_ERROR_SUB_MALFORMED_ATTRIBUTE_LIST, nil, err.Error())
}

// parseAttribute takes an attribute other than MP_REACH_NLRI and MP_UNREACH_NLRI.
func (u *Update) parseAttribute(raw, value []byte) {
	kind := bgp.BGPAttrType(raw[1])
	rule, known := attributeRules[u.from][kind]
	if rule.ignored || !u.flagsFit(raw) || !known {
		return
	}
	if !rule.fits(len(value)) {
		u.fault(kind, !rule.discards, "it has %d bytes", len(value))
		return
	}
	if kind == bgp.BGP_ATTR_TYPE_AGGREGATOR && binary.BigEndian.Uint32(value) == 0 {
		u.fault(kind, false, "it has AS 0") // RFC 7607 §2, RFC 7606 §7.7
		return
	}
	if rule.raw {
		u.Attributes = append(u.Attributes, bgp.NewPathAttributeUnknown(bgp.BGPAttrFlag(raw[0]), kind, value))
	}
	if !rule.read {
		return
	}
	if kind == bgp.BGP_ATTR_TYPE_ORIGIN && value[0] > bgp.BGP_ORIGIN_ATTR_TYPE_INCOMPLETE {
		u.fault(kind, true, "its value is %d", value[0]) // RFC 7606 §7.1
		return
	}
	attribute, err := decode(raw)
	if err != nil {
		u.fault(kind, true, "%s", err)
		return
	}
	if path, ok := attribute.(*bgp.PathAttributeAsPath); ok {
		switch {
		case !u.from.reflects() && confederated(path):
			u.fault(kind, true, "it has a confederation's segment")
			return
		case asPathFromGoBGP(path).Contains(0):
			u.fault(kind, true, "it has AS 0") // RFC 7607 §2
			return
		}
	}
	u.Attributes = append(u.Attributes, attribute)
}

// decode reads an attribute whose flags fit. GoBGP also refuses Partial, and bits that
// have no meaning: those are taken off.
func decode(raw []byte) (bgp.PathAttributeInterface, error) {
	const kept = checkedFlags | bgp.BGP_ATTR_FLAG_EXTENDED_LENGTH
	if flags := raw[0] & byte(kept); flags != raw[0] {
		raw = slices.Clone(raw)
		raw[0] = flags
	}
	attribute, err := bgp.GetPathAttribute(raw)
	if err == nil {
		err = attribute.DecodeFromBytes(raw)
	}
	return attribute, err
}

// fault records a fault of an attribute.
func (u *Update) fault(kind bgp.BGPAttrType, withdraws bool, reason string, args ...any) {
	u.Faults = append(u.Faults, Fault{Kind: kind, Reason: fmt.Sprintf(reason, args...), Withdraws: withdraws})
	u.Unusable = u.Unusable || withdraws
}

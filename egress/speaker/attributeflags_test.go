package speaker

import (
	"encoding/binary"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Each case is an attribute behind a good route with its mandatory attributes.
func TestAttributeFlags(t *testing.T) {
	const partial, lower = byte(bgp.BGP_ATTR_FLAG_PARTIAL), byte(0x0f)
	asPath, value := []byte{2, 1, 0, 0, 0, 1}, []byte{0, 0, 0, 1}
	for _, c := range []struct {
		name              string // with the section of RFC 7606, unless another is named
		extra             []byte
		reflector, byPeer outcome
	}{
		{"3 c: PMSI_TUNNEL", attribute(transitive, 22, value...), accepted, accepted},
		{"3 c: PMSI_TUNNEL that is well-known", attribute(wellKnown, 22, value...), withdrawn, withdrawn},
		{"3 c: tunnel encapsulation that is not transitive", attribute(optional, 23, value...), withdrawn, withdrawn},
		{"3 c: traffic engineering", attribute(optional, 24, value...), accepted, accepted},
		{"3 c and 7.13: traffic engineering that is transitive", attribute(transitive, 24, value...), withdrawn, withdrawn},
		{"3 c: PE distinguisher labels that are well-known", attribute(wellKnown, 27, value...), withdrawn, withdrawn},
		{"3 c: BGP-LS that is transitive", attribute(transitive, 29, value...), withdrawn, withdrawn},
		{"3 c: BGPsec_Path that is well-known", attribute(wellKnown, 33, value...), withdrawn, withdrawn},
		{"3 c: OTC", attribute(transitive, 35, value...), accepted, accepted},
		{"3 c: OTC that is well-known", attribute(wellKnown, 35, value...), withdrawn, withdrawn},
		{"3 c: SFP that is not transitive", attribute(optional, 37, value...), withdrawn, withdrawn},
		{"3 c: BFD discriminator without flags", attribute(0, 38, value...), withdrawn, withdrawn},
		{"3 c and 7.16: ATTR_SET that is well-known", attribute(wellKnown, 128, value...), withdrawn, withdrawn},
		{"3 c: large communities that are not transitive", attribute(optional, 32, make([]byte, 12)...), withdrawn, withdrawn},
		{"3 c: IPv6 extended communities that are not transitive", attribute(optional, 25, make([]byte, 20)...), withdrawn, withdrawn},
		{"RFC 6793 4.1: AS4_PATH", attribute(transitive, 17, asPath...), accepted, accepted},
		{"RFC 6793 4.1: AS4_PATH that is well-known", attribute(wellKnown, 17, asPath...), accepted, accepted},
		{"RFC 6793 4.1: AS4_AGGREGATOR that is not transitive", attribute(optional, 18, value...), accepted, accepted},
		{"RFC 7311 3.2: AIGP that is transitive", attribute(transitive, 26, value...), accepted, accepted},
		{"7.5: LOCAL_PREF that is optional", attribute(transitive, 5, value...), withdrawn, accepted},
		{"7.9: ORIGINATOR_ID that is transitive", attribute(transitive, 9, value...), withdrawn, accepted},
		{"7.10: CLUSTER_LIST that is transitive", attribute(transitive, 10, value...), withdrawn, accepted},
		{"RFC 8669 3: Prefix-SID that is not transitive", attribute(optional, 40, value...), withdrawn, accepted},
		{"3 c: Partial does not count, where it must not be", attribute(optional|partial, 4, value...), accepted, accepted},
		{"3 c: Partial does not count, on a well-known one", attribute(wellKnown|partial, 6), accepted, accepted},
		{"3 c: Partial does not count, where it may be", attribute(transitive|partial, 8, value...), accepted, accepted},
		{"RFC 4271 4.3: the lower bits do not count", attribute(optional|lower, 4, value...), accepted, accepted},
		{"RFC 4271 9: unknown, optional and transitive", attribute(transitive, 200, value...), accepted, accepted},
		{"RFC 4271 9: unknown, passed on by who did not know it", attribute(transitive|partial, 200, value...), accepted, accepted},
		{"RFC 4271 9: unknown, optional and not transitive", attribute(optional, 200, value...), accepted, accepted},
		{"RFC 4271 6.3: unknown, without flags", attribute(0, 200, value...), reset, reset},
		{"RFC 4271 6.3: deprecated, well-known", attribute(wellKnown, 11, value...), reset, reset},
	} {
		for source, want := range map[source]outcome{fromReflector: c.reflector, fromPeer: c.byPeer} {
			if got, u := outcomeFrom(goodUpdate(source, c.extra), source); got != want {
				t.Errorf("%s, from source %d: %s, want %s; faults %+v", c.name, source, got, want, u.faults)
			}
		}
	}
}

// goodUpdate is an UPDATE with a good route from a source, and an attribute more.
func goodUpdate(from source, extra []byte) []byte {
	if from == fromReflector {
		attributes := [][]byte{goodReach, goodOrigin, goodPath, extra}
		if extra[1] != byte(bgp.BGP_ATTR_TYPE_LOCAL_PREF) {
			attributes = append(attributes, goodPref)
		}
		return updateBody(attributes...)
	}
	hop := attribute(wellKnown, byte(bgp.BGP_ATTR_TYPE_NEXT_HOP), 192, 0, 2, 1)
	return append(updateBody(goodOrigin, goodPath, hop, extra), 8, 10)
}

func TestFlagsAreThoseOfGoBGP(t *testing.T) {
	for kind, want := range bgp.PathAttrFlags {
		if got, ok := attributeFlags[kind]; !ok || got != want {
			t.Errorf("%s: %#02x (%t), GoBGP has %#02x", kind, uint8(got), ok, uint8(want))
		}
	}
}

// FuzzOneAttribute has any attribute behind a good route: what becomes of it must follow
// from its flags and type, and where those fit, within what its type allows.
func FuzzOneAttribute(f *testing.F) {
	for kind, flags := range attributeFlags {
		for _, wrong := range []byte{0, optional, wellKnown, 0x10} {
			f.Add(byte(flags)^wrong, byte(kind), []byte{0, 0, 0, 1}, kind%2 == 0)
		}
	}
	f.Add(transitive, byte(200), []byte{}, true)
	f.Add(wellKnown, byte(200), []byte{1}, false)
	f.Fuzz(func(t *testing.T, flags, kind byte, value []byte, peer bool) {
		from := fromReflector
		if peer {
			from = fromPeer
		}
		if kind == reachKind || kind == unreachKind || len(value) > maxMessage/2 {
			return // their values have routes
		}
		extra := binary.BigEndian.AppendUint16([]byte{flags | byte(bgp.BGP_ATTR_FLAG_EXTENDED_LENGTH), kind}, uint16(len(value)))
		got, u := outcomeFrom(goodUpdate(from, append(extra, value...)), from)
		specified, known := attributeFlags[bgp.BGPAttrType(kind)]
		rule, ruled := attributeRules[from][bgp.BGPAttrType(kind)]
		fit := bgp.BGPAttrFlag(flags)&checkedFlags == specified
		allowed := map[outcome]bool{accepted: true}
		switch {
		case !known && flags&optional == 0:
			allowed = map[outcome]bool{reset: true}
		case !known || rule.ignored:
		case duplicated(from, kind):
			allowed = map[outcome]bool{discarded: true}
		case !fit:
			allowed = map[outcome]bool{withdrawn: true}
		case ruled:
			allowed[withdrawn], allowed[discarded] = !rule.discards, rule.discards
		}
		if !allowed[got] {
			t.Fatalf("attribute %d with flags %#02x and %d bytes: %s; faults %+v", kind, flags, len(value), got, u.faults)
		}
	})
}

// duplicated tells whether [goodUpdate] has an attribute of the type already.
func duplicated(from source, kind byte) bool {
	switch bgp.BGPAttrType(kind) {
	case bgp.BGP_ATTR_TYPE_ORIGIN, bgp.BGP_ATTR_TYPE_AS_PATH:
		return true
	case bgp.BGP_ATTR_TYPE_NEXT_HOP:
		return from == fromPeer
	}
	return false
}

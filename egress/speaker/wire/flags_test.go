package wire

import (
	"encoding/binary"
	"testing"

	"hikyaku/egress/speaker/bgptest"

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
		{"3 c: PMSI_TUNNEL", bgptest.Attribute(bgptest.Transitive, 22, value...), accepted, accepted},
		{"3 c: PMSI_TUNNEL that is well-known", bgptest.Attribute(bgptest.WellKnown, 22, value...), withdrawn, withdrawn},
		{"3 c: tunnel encapsulation that is not bgptest.Transitive", bgptest.Attribute(bgptest.Optional, 23, value...), withdrawn, withdrawn},
		{"3 c: traffic engineering", bgptest.Attribute(bgptest.Optional, 24, value...), accepted, accepted},
		{"3 c and 7.13: traffic engineering that is bgptest.Transitive", bgptest.Attribute(bgptest.Transitive, 24, value...), withdrawn, withdrawn},
		{"3 c: PE distinguisher labels that are well-known", bgptest.Attribute(bgptest.WellKnown, 27, value...), withdrawn, withdrawn},
		{"3 c: BGP-LS that is bgptest.Transitive", bgptest.Attribute(bgptest.Transitive, 29, value...), withdrawn, withdrawn},
		{"3 c: BGPsec_Path that is well-known", bgptest.Attribute(bgptest.WellKnown, 33, value...), withdrawn, withdrawn},
		{"3 c: OTC", bgptest.Attribute(bgptest.Transitive, 35, value...), accepted, accepted},
		{"3 c: OTC that is well-known", bgptest.Attribute(bgptest.WellKnown, 35, value...), withdrawn, withdrawn},
		{"3 c: SFP that is not bgptest.Transitive", bgptest.Attribute(bgptest.Optional, 37, value...), withdrawn, withdrawn},
		{"3 c: BFD discriminator without flags", bgptest.Attribute(0, 38, value...), withdrawn, withdrawn},
		{"3 c and 7.16: ATTR_SET that is well-known", bgptest.Attribute(bgptest.WellKnown, 128, value...), withdrawn, withdrawn},
		{"3 c: large communities that are not bgptest.Transitive", bgptest.Attribute(bgptest.Optional, 32, make([]byte, 12)...), withdrawn, withdrawn},
		{"3 c: IPv6 extended communities that are not bgptest.Transitive", bgptest.Attribute(bgptest.Optional, 25, make([]byte, 20)...), withdrawn, withdrawn},
		{"RFC 6793 4.1: AS4_PATH", bgptest.Attribute(bgptest.Transitive, 17, asPath...), accepted, accepted},
		{"RFC 6793 4.1: AS4_PATH that is well-known", bgptest.Attribute(bgptest.WellKnown, 17, asPath...), accepted, accepted},
		{"RFC 6793 4.1: AS4_AGGREGATOR that is not bgptest.Transitive", bgptest.Attribute(bgptest.Optional, 18, value...), accepted, accepted},
		{"RFC 7311 3.2: AIGP that is bgptest.Transitive", bgptest.Attribute(bgptest.Transitive, 26, value...), accepted, accepted},
		{"7.5: LOCAL_PREF that is bgptest.Optional", bgptest.Attribute(bgptest.Transitive, 5, value...), withdrawn, accepted},
		{"7.9: ORIGINATOR_ID that is bgptest.Transitive", bgptest.Attribute(bgptest.Transitive, 9, value...), withdrawn, accepted},
		{"7.10: CLUSTER_LIST that is bgptest.Transitive", bgptest.Attribute(bgptest.Transitive, 10, value...), withdrawn, accepted},
		{"RFC 8669 3: Prefix-SID that is not bgptest.Transitive", bgptest.Attribute(bgptest.Optional, 40, value...), withdrawn, accepted},
		{"3 c: Partial does not count, where it must not be", bgptest.Attribute(bgptest.Optional|partial, 4, value...), accepted, accepted},
		{"3 c: Partial does not count, on a well-known one", bgptest.Attribute(bgptest.WellKnown|partial, 6), accepted, accepted},
		{"3 c: Partial does not count, where it may be", bgptest.Attribute(bgptest.Transitive|partial, 8, value...), accepted, accepted},
		{"RFC 4271 4.3: the lower bits do not count", bgptest.Attribute(bgptest.Optional|lower, 4, value...), accepted, accepted},
		{"RFC 4271 9: unknown, optional and bgptest.Transitive", bgptest.Attribute(bgptest.Transitive, 200, value...), accepted, accepted},
		{"RFC 4271 9: unknown, passed on by who did not know it", bgptest.Attribute(bgptest.Transitive|partial, 200, value...), accepted, accepted},
		{"RFC 4271 9: unknown, optional and not bgptest.Transitive", bgptest.Attribute(bgptest.Optional, 200, value...), accepted, accepted},
		{"RFC 4271 6.3: unknown, without flags", bgptest.Attribute(0, 200, value...), reset, reset},
		{"RFC 4271 6.3: deprecated, well-known", bgptest.Attribute(bgptest.WellKnown, 11, value...), reset, reset},
	} {
		for source, want := range map[Source]outcome{FromReflector: c.reflector, FromPeer: c.byPeer} {
			if got, u := outcomeFrom(goodUpdate(source, c.extra), source); got != want {
				t.Errorf("%s, from Source %d: %s, want %s; faults %+v", c.name, source, got, want, u.Faults)
			}
		}
	}
}

// goodUpdate is an UPDATE with a good route from a source, and an attribute more.
func goodUpdate(from Source, extra []byte) []byte {
	if from == FromReflector {
		attributes := [][]byte{bgptest.GoodReach, bgptest.GoodOrigin, bgptest.GoodPath, extra}
		if extra[1] != byte(bgp.BGP_ATTR_TYPE_LOCAL_PREF) {
			attributes = append(attributes, bgptest.GoodPref)
		}
		return bgptest.UpdateBody(attributes...)
	}
	hop := bgptest.Attribute(bgptest.WellKnown, byte(bgp.BGP_ATTR_TYPE_NEXT_HOP), 192, 0, 2, 1)
	return append(bgptest.UpdateBody(bgptest.GoodOrigin, bgptest.GoodPath, hop, extra), 8, 10)
}

func TestFlagsAreThoseOfGoBGP(t *testing.T) {
	for kind, want := range bgp.PathAttrFlags {
		if got, ok := attributeFlags[kind]; !ok || got != want {
			t.Errorf("%s: %#02x (%t), GoBGP has %#02x", kind, uint8(got), ok, uint8(want))
		}
	}
}

// FuzzOneAttribute has any attribute behind a good route. The result must follow from the
// attribute's flags and type, and where those fit, within the limits of its type.
func FuzzOneAttribute(f *testing.F) {
	for kind, flags := range attributeFlags {
		for _, wrong := range []byte{0, bgptest.Optional, bgptest.WellKnown, 0x10} {
			f.Add(byte(flags)^wrong, byte(kind), []byte{0, 0, 0, 1}, kind%2 == 0)
		}
	}
	f.Add(bgptest.Transitive, byte(200), []byte{}, true)
	f.Add(bgptest.WellKnown, byte(200), []byte{1}, false)
	f.Fuzz(func(t *testing.T, flags, kind byte, value []byte, peer bool) {
		from := FromReflector
		if peer {
			from = FromPeer
		}
		if kind == bgptest.ReachKind || kind == bgptest.UnreachKind || len(value) > MaxMessage/2 {
			return // their values have routes
		}
		extra := binary.BigEndian.AppendUint16([]byte{flags | byte(bgp.BGP_ATTR_FLAG_EXTENDED_LENGTH), kind}, uint16(len(value)))
		got, u := outcomeFrom(goodUpdate(from, append(extra, value...)), from)
		specified, known := attributeFlags[bgp.BGPAttrType(kind)]
		rule, ruled := attributeRules[from][bgp.BGPAttrType(kind)]
		fit := bgp.BGPAttrFlag(flags)&checkedFlags == specified
		allowed := map[outcome]bool{accepted: true}
		switch {
		case !known && flags&bgptest.Optional == 0:
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
			t.Fatalf("attribute %d with flags %#02x and %d bytes: %s; faults %+v", kind, flags, len(value), got, u.Faults)
		}
	})
}

// duplicated reports whether [goodUpdate] has an attribute of the type already.
func duplicated(from Source, kind byte) bool {
	switch bgp.BGPAttrType(kind) {
	case bgp.BGP_ATTR_TYPE_ORIGIN, bgp.BGP_ATTR_TYPE_AS_PATH:
		return true
	case bgp.BGP_ATTR_TYPE_NEXT_HOP:
		return from == FromPeer
	}
	return false
}

package wire

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/bgptest"
)

const aggregateKind = byte(bgp.BGP_ATTR_TYPE_ATOMIC_AGGREGATE)

// outcome is the fate of an UPDATE (RFC 7606 §2).
type outcome string

const (
	accepted  outcome = "accepted"
	discarded outcome = "attribute discard"
	withdrawn outcome = "treat-as-withdraw"
	reset     outcome = "session reset"
)

func outcomeOf(body []byte) (outcome, Update) { return outcomeFrom(body, FromReflector) }

func outcomeFrom(body []byte, from Source) (outcome, Update) {
	u, err := ParseUpdate(body, from)
	switch {
	case err != nil:
		return reset, u
	case u.Unusable:
		return withdrawn, u
	case len(u.Faults) > 0:
		return discarded, u
	default:
		return accepted, u
	}
}

// Each case is an attribute behind a good route with its mandatory attributes.
func TestMalformedAttributes(t *testing.T) {
	for _, c := range []struct {
		name  string // with the section of RFC 7606, unless another is named
		extra []byte
		want  outcome
	}{
		{"nothing more", nil, accepted},
		{"7.3: NEXT_HOP of 4 bytes", bgptest.Attribute(bgptest.WellKnown, 3, 192, 0, 2, 1), accepted},
		{"7.3: NEXT_HOP of 5 bytes", bgptest.Attribute(bgptest.WellKnown, 3, 192, 0, 2, 1, 0), withdrawn},
		{"7.4: MED of 4 bytes", bgptest.Attribute(bgptest.Optional, 4, 0, 0, 0, 1), accepted},
		{"7.4: MED of 3 bytes", bgptest.Attribute(bgptest.Optional, 4, 0, 0, 1), withdrawn},
		{"7.5: LOCAL_PREF of 4 bytes", bgptest.Attribute(bgptest.WellKnown, 5, 0, 0, 0, 100), accepted},
		{"7.5: LOCAL_PREF of 5 bytes", bgptest.Attribute(bgptest.WellKnown, 5, 0, 0, 0, 100, 0), withdrawn},
		{"7.6: ATOMIC_AGGREGATE of no bytes", bgptest.Attribute(bgptest.WellKnown, 6), accepted},
		{"7.6: ATOMIC_AGGREGATE of 1 byte", bgptest.Attribute(bgptest.WellKnown, 6, 0), discarded},
		{"7.7: AGGREGATOR of 8 bytes", bgptest.Attribute(bgptest.Transitive, 7, 0, 0, 0xfc, 0x59, 192, 0, 2, 1), accepted},
		{"7.7: AGGREGATOR of 6 bytes, with an AS number of two", bgptest.Attribute(bgptest.Transitive, 7, 0xfc, 0x59, 192, 0, 2, 1), discarded},
		{"7.8: COMMUNITIES of 8 bytes", bgptest.Attribute(bgptest.Transitive, 8, 0, 1, 0, 2, 0, 3, 0, 4), accepted},
		{"7.8: COMMUNITIES of no bytes", bgptest.Attribute(bgptest.Transitive, 8), withdrawn},
		{"7.8: COMMUNITIES of 6 bytes", bgptest.Attribute(bgptest.Transitive, 8, 0, 1, 0, 2, 0, 3), withdrawn},
		{"7.9: ORIGINATOR_ID of 4 bytes", bgptest.Attribute(bgptest.Optional, 9, 192, 0, 2, 9), accepted},
		{"7.9: ORIGINATOR_ID of 3 bytes", bgptest.Attribute(bgptest.Optional, 9, 192, 0, 2), withdrawn},
		{"7.10: CLUSTER_LIST of 4 bytes", bgptest.Attribute(bgptest.Optional, 10, 192, 0, 2, 53), accepted},
		{"7.10: CLUSTER_LIST of no bytes", bgptest.Attribute(bgptest.Optional, 10), withdrawn},
		{"7.10: CLUSTER_LIST of 5 bytes", bgptest.Attribute(bgptest.Optional, 10, 192, 0, 2, 53, 0), withdrawn},
		{"7.14: extended communities of 8 bytes", bgptest.Attribute(bgptest.Transitive, 16, 0, 2, 0xfc, 0x59, 0, 0, 0, 1), accepted},
		{"7.14: extended communities of no bytes", bgptest.Attribute(bgptest.Transitive, 16), withdrawn},
		{"7.14: extended communities of 9 bytes", bgptest.Attribute(bgptest.Transitive, 16, 0, 2, 0xfc, 0x59, 0, 0, 0, 1, 0), withdrawn},
		{"7.15: IPv6 extended communities of 8 bytes", bgptest.Attribute(bgptest.Transitive, 25, 0, 2, 0, 0, 0, 0, 0, 1), withdrawn},
		{"RFC 8092 6: large communities of 8 bytes", bgptest.Attribute(bgptest.Transitive, 32, 0, 0, 0, 1, 0, 0, 0, 2), withdrawn},
		{"RFC 9252 7: an SRv6 service that is cut off", bgptest.Attribute(bgptest.Transitive, 40, 5, 0, 9, 0, 1), withdrawn},
		{"3 c: LOCAL_PREF that is bgptest.Optional", bgptest.Attribute(bgptest.Transitive, 5, 0, 0, 0, 100), withdrawn},
		{"3 c: MED that is bgptest.Transitive", bgptest.Attribute(bgptest.Transitive, 4, 0, 0, 0, 1), withdrawn},
		{"3 c: COMMUNITIES that are not bgptest.Transitive", bgptest.Attribute(bgptest.Optional, 8, 0, 1, 0, 2), withdrawn},
		{"3 c: wrong flags where a wrong length is discarded", bgptest.Attribute(bgptest.Optional, aggregateKind), withdrawn},
		{"3 c: extended length is for any attribute", []byte{bgptest.Optional | 0x10, 4, 0, 4, 0, 0, 0, 1}, accepted},
		{"3 g: ORIGIN twice", bgptest.GoodOrigin, discarded},
		{"3 g: the second, malformed, does not count", bgptest.Attribute(bgptest.WellKnown, 1, 9, 9), discarded},
		{"3 g: an unknown attribute twice", slices.Concat(bgptest.Attribute(bgptest.Transitive, 200), bgptest.Attribute(bgptest.Transitive, 200)), discarded},
		{"3 g: MP_REACH_NLRI twice", bgptest.GoodReach, reset},
		{"3 g: MP_UNREACH_NLRI twice", slices.Concat(bgptest.GoodUnreach, bgptest.GoodUnreach), reset},
		{"4: an attribute that runs over the end", []byte{bgptest.Optional, 4, 4, 0}, withdrawn},
		{"4: an extended one that runs over the end", []byte{bgptest.Optional | 0x10, 4, 0, 4, 0}, withdrawn},
		{"4: two bytes are no attribute", []byte{bgptest.Optional, 4}, withdrawn},
		{"4: one byte is no attribute", []byte{bgptest.Optional}, withdrawn},
		{"4: three bytes are no attribute with extended length", []byte{bgptest.Optional | 0x10, 4, 0}, withdrawn},
		{"3 j: MP_UNREACH_NLRI that runs over the end", []byte{bgptest.Optional, bgptest.UnreachKind, 9, 0, 1, 128}, reset},
		{"an unknown optional attribute", bgptest.Attribute(bgptest.Optional, 200, 1), accepted},
		{"RFC 4271 6.3: an unknown well-known attribute", bgptest.Attribute(bgptest.WellKnown, 200, 1), reset},
	} {
		pref := bgptest.GoodPref
		if len(c.extra) > 1 && c.extra[1] == bgptest.GoodPref[1] {
			pref = nil
		}
		got, u := outcomeOf(bgptest.UpdateBody(bgptest.GoodReach, bgptest.GoodOrigin, bgptest.GoodPath, pref, c.extra))
		if got != c.want {
			t.Errorf("%s: %s, want %s; faults %+v", c.name, got, c.want, u.Faults)
		}
		if got != reset && (len(u.Reach) != 1 || u.Reach[0] != NLRI{RD: bgptest.RD, Prefix: netip.MustParsePrefix("10.0.0.0/8")}) {
			t.Errorf("%s: routes are %v", c.name, u.Reach)
		}
	}
}

func TestMalformedUpdates(t *testing.T) {
	reach := func(value ...byte) []byte { return bgptest.Attribute(bgptest.Optional, bgptest.ReachKind, value...) }
	routes := func(nlri ...byte) []byte { return reach(slices.Concat(bgptest.ReachField, nlri)...) }
	for _, c := range []struct {
		name string // with the section of RFC 7606, unless another is named
		body []byte
		want outcome
	}{
		{"3 d: without ORIGIN", bgptest.UpdateBody(bgptest.GoodReach, bgptest.GoodPath, bgptest.GoodPref), withdrawn},
		{"3 d: without AS_PATH", bgptest.UpdateBody(bgptest.GoodReach, bgptest.GoodOrigin, bgptest.GoodPref), withdrawn},
		{"RFC 4271 5.1.5: without LOCAL_PREF", bgptest.UpdateBody(bgptest.GoodReach, bgptest.GoodOrigin, bgptest.GoodPath), withdrawn},
		{"RFC 4760 3: without NEXT_HOP", bgptest.UpdateBody(bgptest.GoodReach, bgptest.GoodOrigin, bgptest.GoodPath, bgptest.GoodPref), accepted},
		{"RFC 4760 4: a withdrawal needs no attributes", bgptest.UpdateBody(bgptest.GoodUnreach), accepted},
		{"7.1: ORIGIN 3", bgptest.UpdateBody(bgptest.GoodReach, bgptest.Attribute(bgptest.WellKnown, 1, 3), bgptest.GoodPath, bgptest.GoodPref), withdrawn},
		{"7.1: ORIGIN of no bytes", bgptest.UpdateBody(bgptest.GoodReach, bgptest.Attribute(bgptest.WellKnown, 1), bgptest.GoodPath, bgptest.GoodPref), withdrawn},
		{"7.1: ORIGIN of 2 bytes", bgptest.UpdateBody(bgptest.GoodReach, bgptest.Attribute(bgptest.WellKnown, 1, 0, 0), bgptest.GoodPath, bgptest.GoodPref), withdrawn},
		{"3 c: ORIGIN that is bgptest.Optional", bgptest.UpdateBody(bgptest.GoodReach, bgptest.Attribute(bgptest.Transitive, 1, 0), bgptest.GoodPath, bgptest.GoodPref), withdrawn},
		{"3 g: the first ORIGIN counts, which is malformed",
			bgptest.UpdateBody(bgptest.GoodReach, bgptest.Attribute(bgptest.WellKnown, 1, 3), bgptest.GoodOrigin, bgptest.GoodPath, bgptest.GoodPref), withdrawn},
		{"RFC 7607 2: AS 0", bgptest.UpdateBody(bgptest.GoodReach, bgptest.GoodPref, bgptest.GoodOrigin, bgptest.Attribute(bgptest.WellKnown, 2, 2, 1, 0, 0, 0, 0)), withdrawn},
		{"7.2: an empty AS_PATH", bgptest.UpdateBody(bgptest.GoodReach, bgptest.GoodPref, bgptest.GoodOrigin, bgptest.Attribute(bgptest.WellKnown, 2)), accepted},
		{"7.2: a segment of unknown type", bgptest.UpdateBody(bgptest.GoodReach, bgptest.GoodPref, bgptest.GoodOrigin, bgptest.Attribute(bgptest.WellKnown, 2, 5, 1, 0, 0, 0, 1)), withdrawn},
		{"7.2: a segment that is too long", bgptest.UpdateBody(bgptest.GoodReach, bgptest.GoodPref, bgptest.GoodOrigin, bgptest.Attribute(bgptest.WellKnown, 2, 2, 2, 0, 0, 0, 1)), withdrawn},
		{"7.2: one byte behind the segments", bgptest.UpdateBody(bgptest.GoodReach, bgptest.GoodPref, bgptest.GoodOrigin, bgptest.Attribute(bgptest.WellKnown, 2, 2, 1, 0, 0, 0, 1, 2)), withdrawn},
		{"7.2: a segment without AS numbers", bgptest.UpdateBody(bgptest.GoodReach, bgptest.GoodPref, bgptest.GoodOrigin, bgptest.Attribute(bgptest.WellKnown, 2, 2, 0)), withdrawn},
		{"3 c: MP_REACH_NLRI that is bgptest.Transitive",
			bgptest.UpdateBody(bgptest.Attribute(bgptest.Transitive, bgptest.ReachKind, slices.Concat(bgptest.ReachField, bgptest.Route)...), bgptest.GoodOrigin, bgptest.GoodPath, bgptest.GoodPref), withdrawn},
		{"3 c: MP_UNREACH_NLRI that is bgptest.Transitive",
			bgptest.UpdateBody(bgptest.Attribute(bgptest.Transitive, bgptest.UnreachKind, slices.Concat([]byte{0, 1, 128}, bgptest.Route)...)), withdrawn},
		{"5.2: a malformed attribute and no route", bgptest.UpdateBody(bgptest.Attribute(bgptest.WellKnown, 1, 3)), reset},
		{"5.2: a malformed attribute and withdrawals alone", bgptest.UpdateBody(bgptest.GoodUnreach, bgptest.Attribute(bgptest.WellKnown, 1, 3)), reset},
		{"5.2: a discarded attribute and no route", bgptest.UpdateBody(bgptest.Attribute(bgptest.WellKnown, 6, 0)), discarded},
		{"5.2: a malformed attribute and IPv4 routes", append(bgptest.UpdateBody(bgptest.Attribute(bgptest.WellKnown, 1, 3)), 8, 10), withdrawn},
		{"5.2: a malformed attribute and routes of another family",
			bgptest.UpdateBody(reach(0, 2, 1, 0, 0, 8, 10), bgptest.Attribute(bgptest.WellKnown, 1, 3)), withdrawn},
		{"4 and 5.2: an overrun before any route", bgptest.UpdateBody([]byte{bgptest.WellKnown, 1, 200, 0}), reset},
		{"3 j: MP_REACH_NLRI that runs over the end", bgptest.UpdateBody(bgptest.GoodReach[:len(bgptest.GoodReach)-1]), reset},
		{"RFC 4271 6.3: attributes longer than the message", []byte{0, 0, 0, 9, 0}, reset},
		{"RFC 4271 6.3: withdrawn routes longer than the message", []byte{0, 9, 0, 0}, reset},
		{"7.11: MP_REACH_NLRI of 4 bytes", bgptest.UpdateBody(reach(0, 1, 128, 0), bgptest.GoodOrigin, bgptest.GoodPath), reset},
		{"7.11: a next hop of no known size", bgptest.UpdateBody(reach(0, 1, 128, 3, 1, 2, 3, 0), bgptest.GoodOrigin, bgptest.GoodPath), reset},
		{"7.12: MP_UNREACH_NLRI of 2 bytes", bgptest.UpdateBody(bgptest.Attribute(bgptest.Optional, bgptest.UnreachKind, 0, 1)), reset},
		{"5.3: a prefix longer than its family", bgptest.UpdateBody(routes(slices.Concat([]byte{88 + 33, 0, 0, 0}, bgptest.RD[:], []byte{1, 2, 3, 4, 5})...)), reset},
		{"5.3: a route shorter than label and distinguisher", bgptest.UpdateBody(routes(64, 0, 0, 0)), reset},
		{"5.3: a route that is cut off", bgptest.UpdateBody(routes(bgptest.Route[:len(bgptest.Route)-1]...)), reset},
	} {
		if got, u := outcomeOf(c.body); got != c.want {
			t.Errorf("%s: %s, want %s; faults %+v", c.name, got, c.want, u.Faults)
		}
	}
}

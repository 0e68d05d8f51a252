package speaker

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/srv6"
)

const (
	wellKnown     = byte(bgp.BGP_ATTR_FLAG_TRANSITIVE)
	optional      = byte(bgp.BGP_ATTR_FLAG_OPTIONAL)
	transitive    = optional | wellKnown
	reachKind     = byte(bgp.BGP_ATTR_TYPE_MP_REACH_NLRI)
	unreachKind   = byte(bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI)
	aggregateKind = byte(bgp.BGP_ATTR_TYPE_ATOMIC_AGGREGATE)
)

func attribute(flags, kind byte, value ...byte) []byte {
	return append([]byte{flags, kind, byte(len(value))}, value...)
}

func updateBody(attributes ...[]byte) []byte {
	all := slices.Concat(attributes...)
	return append([]byte{0, 0, byte(len(all) >> 8), byte(len(all))}, all...)
}

func updateMessage(attributes ...[]byte) []byte {
	m := append(appendHeader(nil, bgp.BGP_MSG_UPDATE), updateBody(attributes...)...)
	m[16], m[17] = byte(len(m)>>8), byte(len(m))
	return m
}

var (
	faultRD = srv6.RouteDistinguisher{0, 1, 192, 0, 2, 1, 0, 7}
	// faultRoute is 10.0.0.0/8 in an NLRI field; its label has no bottom-of-stack bit.
	faultRoute  = slices.Concat([]byte{88 + 8, 0x80, 0, 0}, faultRD[:], []byte{10})
	reachField  = slices.Concat([]byte{0, 1, 128, 12}, make([]byte, 8), []byte{192, 0, 2, 1, 0})
	goodReach   = attribute(optional, reachKind, slices.Concat(reachField, faultRoute)...)
	goodUnreach = attribute(optional, unreachKind, slices.Concat([]byte{0, 1, 128}, faultRoute)...)
	goodOrigin  = attribute(wellKnown, 1, 0)
	goodPath    = attribute(wellKnown, 2, 2, 1, 0, 0, 0xfc, 0x59)
	goodPref    = attribute(wellKnown, 5, 0, 0, 0, 100)
)

// outcome is what becomes of an UPDATE (RFC 7606 §2).
type outcome string

const (
	accepted  outcome = "accepted"
	discarded outcome = "attribute discard"
	withdrawn outcome = "treat-as-withdraw"
	reset     outcome = "session reset"
)

func outcomeOf(body []byte) (outcome, routeUpdate) { return outcomeFrom(body, fromReflector) }

func outcomeFrom(body []byte, from source) (outcome, routeUpdate) {
	u, err := parseUpdate(body, from)
	switch {
	case err != nil:
		return reset, u
	case u.unusable:
		return withdrawn, u
	case len(u.faults) > 0:
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
		{"7.3: NEXT_HOP of 4 bytes", attribute(wellKnown, 3, 192, 0, 2, 1), accepted},
		{"7.3: NEXT_HOP of 5 bytes", attribute(wellKnown, 3, 192, 0, 2, 1, 0), withdrawn},
		{"7.4: MED of 4 bytes", attribute(optional, 4, 0, 0, 0, 1), accepted},
		{"7.4: MED of 3 bytes", attribute(optional, 4, 0, 0, 1), withdrawn},
		{"7.5: LOCAL_PREF of 4 bytes", attribute(wellKnown, 5, 0, 0, 0, 100), accepted},
		{"7.5: LOCAL_PREF of 5 bytes", attribute(wellKnown, 5, 0, 0, 0, 100, 0), withdrawn},
		{"7.6: ATOMIC_AGGREGATE of no bytes", attribute(wellKnown, 6), accepted},
		{"7.6: ATOMIC_AGGREGATE of 1 byte", attribute(wellKnown, 6, 0), discarded},
		{"7.7: AGGREGATOR of 8 bytes", attribute(transitive, 7, 0, 0, 0xfc, 0x59, 192, 0, 2, 1), accepted},
		{"7.7: AGGREGATOR of 6 bytes, with an AS number of two", attribute(transitive, 7, 0xfc, 0x59, 192, 0, 2, 1), discarded},
		{"7.8: COMMUNITIES of 8 bytes", attribute(transitive, 8, 0, 1, 0, 2, 0, 3, 0, 4), accepted},
		{"7.8: COMMUNITIES of no bytes", attribute(transitive, 8), withdrawn},
		{"7.8: COMMUNITIES of 6 bytes", attribute(transitive, 8, 0, 1, 0, 2, 0, 3), withdrawn},
		{"7.9: ORIGINATOR_ID of 4 bytes", attribute(optional, 9, 192, 0, 2, 9), accepted},
		{"7.9: ORIGINATOR_ID of 3 bytes", attribute(optional, 9, 192, 0, 2), withdrawn},
		{"7.10: CLUSTER_LIST of 4 bytes", attribute(optional, 10, 192, 0, 2, 53), accepted},
		{"7.10: CLUSTER_LIST of no bytes", attribute(optional, 10), withdrawn},
		{"7.10: CLUSTER_LIST of 5 bytes", attribute(optional, 10, 192, 0, 2, 53, 0), withdrawn},
		{"7.14: extended communities of 8 bytes", attribute(transitive, 16, 0, 2, 0xfc, 0x59, 0, 0, 0, 1), accepted},
		{"7.14: extended communities of no bytes", attribute(transitive, 16), withdrawn},
		{"7.14: extended communities of 9 bytes", attribute(transitive, 16, 0, 2, 0xfc, 0x59, 0, 0, 0, 1, 0), withdrawn},
		{"7.15: IPv6 extended communities of 8 bytes", attribute(transitive, 25, 0, 2, 0, 0, 0, 0, 0, 1), withdrawn},
		{"RFC 8092 6: large communities of 8 bytes", attribute(transitive, 32, 0, 0, 0, 1, 0, 0, 0, 2), withdrawn},
		{"RFC 9252 7: an SRv6 service that is cut off", attribute(transitive, 40, 5, 0, 9, 0, 1), withdrawn},
		{"3 c: LOCAL_PREF that is optional", attribute(transitive, 5, 0, 0, 0, 100), withdrawn},
		{"3 c: MED that is transitive", attribute(transitive, 4, 0, 0, 0, 1), withdrawn},
		{"3 c: COMMUNITIES that are not transitive", attribute(optional, 8, 0, 1, 0, 2), withdrawn},
		{"3 c: wrong flags where a wrong length is discarded", attribute(optional, aggregateKind), withdrawn},
		{"3 c: extended length is for any attribute", []byte{optional | 0x10, 4, 0, 4, 0, 0, 0, 1}, accepted},
		{"3 g: ORIGIN twice", goodOrigin, discarded},
		{"3 g: the second, malformed, does not count", attribute(wellKnown, 1, 9, 9), discarded},
		{"3 g: an unknown attribute twice", slices.Concat(attribute(transitive, 200), attribute(transitive, 200)), discarded},
		{"3 g: MP_REACH_NLRI twice", goodReach, reset},
		{"3 g: MP_UNREACH_NLRI twice", slices.Concat(goodUnreach, goodUnreach), reset},
		{"4: an attribute that runs over the end", []byte{optional, 4, 4, 0}, withdrawn},
		{"4: an extended one that runs over the end", []byte{optional | 0x10, 4, 0, 4, 0}, withdrawn},
		{"4: two bytes are no attribute", []byte{optional, 4}, withdrawn},
		{"4: one byte is no attribute", []byte{optional}, withdrawn},
		{"4: three bytes are no attribute with extended length", []byte{optional | 0x10, 4, 0}, withdrawn},
		{"3 j: MP_UNREACH_NLRI that runs over the end", []byte{optional, unreachKind, 9, 0, 1, 128}, reset},
		{"an unknown optional attribute", attribute(optional, 200, 1), accepted},
		{"RFC 4271 6.3: an unknown well-known attribute", attribute(wellKnown, 200, 1), reset},
	} {
		pref := goodPref
		if len(c.extra) > 1 && c.extra[1] == goodPref[1] {
			pref = nil
		}
		got, u := outcomeOf(updateBody(goodReach, goodOrigin, goodPath, pref, c.extra))
		if got != c.want {
			t.Errorf("%s: %s, want %s; faults %+v", c.name, got, c.want, u.faults)
		}
		if got != reset && (len(u.reach) != 1 || u.reach[0] != rdPrefix{faultRD, netip.MustParsePrefix("10.0.0.0/8")}) {
			t.Errorf("%s: routes are %v", c.name, u.reach)
		}
	}
}

func TestMalformedUpdates(t *testing.T) {
	reach := func(value ...byte) []byte { return attribute(optional, reachKind, value...) }
	routes := func(nlri ...byte) []byte { return reach(slices.Concat(reachField, nlri)...) }
	for _, c := range []struct {
		name string // with the section of RFC 7606, unless another is named
		body []byte
		want outcome
	}{
		{"3 d: without ORIGIN", updateBody(goodReach, goodPath, goodPref), withdrawn},
		{"3 d: without AS_PATH", updateBody(goodReach, goodOrigin, goodPref), withdrawn},
		{"RFC 4271 5.1.5: without LOCAL_PREF", updateBody(goodReach, goodOrigin, goodPath), withdrawn},
		{"RFC 4760 3: without NEXT_HOP", updateBody(goodReach, goodOrigin, goodPath, goodPref), accepted},
		{"RFC 4760 4: a withdrawal needs no attributes", updateBody(goodUnreach), accepted},
		{"7.1: ORIGIN 3", updateBody(goodReach, attribute(wellKnown, 1, 3), goodPath, goodPref), withdrawn},
		{"7.1: ORIGIN of no bytes", updateBody(goodReach, attribute(wellKnown, 1), goodPath, goodPref), withdrawn},
		{"7.1: ORIGIN of 2 bytes", updateBody(goodReach, attribute(wellKnown, 1, 0, 0), goodPath, goodPref), withdrawn},
		{"3 c: ORIGIN that is optional", updateBody(goodReach, attribute(transitive, 1, 0), goodPath, goodPref), withdrawn},
		{"3 g: the first ORIGIN counts, which is malformed",
			updateBody(goodReach, attribute(wellKnown, 1, 3), goodOrigin, goodPath, goodPref), withdrawn},
		{"RFC 7607 2: AS 0", updateBody(goodReach, goodPref, goodOrigin, attribute(wellKnown, 2, 2, 1, 0, 0, 0, 0)), withdrawn},
		{"7.2: an empty AS_PATH", updateBody(goodReach, goodPref, goodOrigin, attribute(wellKnown, 2)), accepted},
		{"7.2: a segment of unknown type", updateBody(goodReach, goodPref, goodOrigin, attribute(wellKnown, 2, 5, 1, 0, 0, 0, 1)), withdrawn},
		{"7.2: a segment that is too long", updateBody(goodReach, goodPref, goodOrigin, attribute(wellKnown, 2, 2, 2, 0, 0, 0, 1)), withdrawn},
		{"7.2: one byte behind the segments", updateBody(goodReach, goodPref, goodOrigin, attribute(wellKnown, 2, 2, 1, 0, 0, 0, 1, 2)), withdrawn},
		{"7.2: a segment without AS numbers", updateBody(goodReach, goodPref, goodOrigin, attribute(wellKnown, 2, 2, 0)), withdrawn},
		{"3 c: MP_REACH_NLRI that is transitive",
			updateBody(attribute(transitive, reachKind, slices.Concat(reachField, faultRoute)...), goodOrigin, goodPath, goodPref), withdrawn},
		{"3 c: MP_UNREACH_NLRI that is transitive",
			updateBody(attribute(transitive, unreachKind, slices.Concat([]byte{0, 1, 128}, faultRoute)...)), withdrawn},
		{"5.2: a malformed attribute and no route", updateBody(attribute(wellKnown, 1, 3)), reset},
		{"5.2: a malformed attribute and withdrawals alone", updateBody(goodUnreach, attribute(wellKnown, 1, 3)), reset},
		{"5.2: a discarded attribute and no route", updateBody(attribute(wellKnown, 6, 0)), discarded},
		{"5.2: a malformed attribute and IPv4 routes", append(updateBody(attribute(wellKnown, 1, 3)), 8, 10), withdrawn},
		{"5.2: a malformed attribute and routes of another family",
			updateBody(reach(0, 2, 1, 0, 0, 8, 10), attribute(wellKnown, 1, 3)), withdrawn},
		{"4 and 5.2: an overrun before any route", updateBody([]byte{wellKnown, 1, 200, 0}), reset},
		{"3 j: MP_REACH_NLRI that runs over the end", updateBody(goodReach[:len(goodReach)-1]), reset},
		{"RFC 4271 6.3: attributes longer than the message", []byte{0, 0, 0, 9, 0}, reset},
		{"RFC 4271 6.3: withdrawn routes longer than the message", []byte{0, 9, 0, 0}, reset},
		{"7.11: MP_REACH_NLRI of 4 bytes", updateBody(reach(0, 1, 128, 0), goodOrigin, goodPath), reset},
		{"7.11: a next hop of no known size", updateBody(reach(0, 1, 128, 3, 1, 2, 3, 0), goodOrigin, goodPath), reset},
		{"7.12: MP_UNREACH_NLRI of 2 bytes", updateBody(attribute(optional, unreachKind, 0, 1)), reset},
		{"5.3: a prefix longer than its family", updateBody(routes(slices.Concat([]byte{88 + 33, 0, 0, 0}, faultRD[:], []byte{1, 2, 3, 4, 5})...)), reset},
		{"5.3: a route shorter than label and distinguisher", updateBody(routes(64, 0, 0, 0)), reset},
		{"5.3: a route that is cut off", updateBody(routes(faultRoute[:len(faultRoute)-1]...)), reset},
	} {
		if got, u := outcomeOf(c.body); got != c.want {
			t.Errorf("%s: %s, want %s; faults %+v", c.name, got, c.want, u.faults)
		}
	}
}

func TestMalformedAttributeWithdrawsAndTheSessionStays(t *testing.T) {
	s, _, p := startWithOwnSession(t, nil)
	id, route := testRoute(t, s.at.Addr(), "transit", srv6.EndDT6, 64601)
	prefix := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	attributes, err := route.wire()
	if err != nil {
		t.Fatal(err)
	}
	good := announcement(attributes, netip.MustParseAddr("2001:db8::1"), VPNv4, maxMessage).append(nil, id.RD, prefix)
	send := func(m []byte) {
		t.Helper()
		if _, err := p.conn.Write(m); err != nil {
			t.Fatal(err)
		}
	}
	send(good)
	if e := expect[VPNLearned](s); e.RD != id.RD || !slices.Equal(e.Prefixes, prefix) {
		t.Fatalf("learned %+v", e)
	}
	again := attribute(optional, reachKind, slices.Concat(reachField, appendVPN(nil, id.RD, prefix[0]))...)
	send(updateMessage(again, attribute(wellKnown, 1, 3), goodPath, goodPref)) // ORIGIN 3
	if e := expect[Faulty](s); e.Withdrawn != 1 || e.Discarded != 0 {
		t.Fatalf("faulty %+v", e)
	}
	if e := expect[VPNWithdrawn](s); e.RD != id.RD || !slices.Equal(e.Prefixes, prefix) {
		t.Fatalf("withdrawn %+v", e)
	}
	send(good)
	expect[VPNLearned](s)
}

func TestUnknownWellKnownAttributeIsSentBack(t *testing.T) {
	_, _, p := startWithOwnSession(t, nil)
	unknown := attribute(wellKnown, 200, 1, 2)
	if _, err := p.conn.Write(updateMessage(goodReach, goodOrigin, goodPath, goodPref, unknown)); err != nil {
		t.Fatal(err)
	}
	p.waitForEnd()
	p.mu.Lock()
	defer p.mu.Unlock()
	// RFC 4271 §6.3: UPDATE Message Error, Unrecognized Well-known Attribute, and the attribute.
	if n := p.lastWord; n == nil || n.ErrorCode != 3 || n.ErrorSubcode != 2 || !bytes.Equal(n.Data, unknown) {
		t.Errorf("the neighbour was told %+v", n)
	}
}

func TestFaultsAreCountedAndSeldomLogged(t *testing.T) {
	var lines bytes.Buffer
	l := faultLog{log: slog.New(slog.NewTextHandler(&lines, nil)).With("neighbour", "rr")}
	_, u := outcomeOf(updateBody(goodReach, attribute(wellKnown, 1, 3), goodPath, goodPref, attribute(wellKnown, aggregateKind, 0)))
	counted := countFaults("rr", u.faults)
	for i := range 100 {
		if logged := l.faults.log(l.count(counted, u.faults[0])); logged != (i == 0) {
			t.Fatalf("update %d was logged: %t", i, logged)
		}
	}
	// The interval ends with what came in it, the next one, which is empty, without a word.
	if first, second := l.faults.resume(), l.faults.resume(); !first || second {
		t.Errorf("the first interval ends with a line: %t, the second: %t", first, second)
	}
	if !l.faults.log(l.count(counted, u.faults[0])) {
		t.Error("a fault after a quiet interval was not logged")
	}
	logged := strings.Split(strings.TrimSpace(lines.String()), "\n")
	if len(logged) != 3 {
		t.Fatalf("%d lines, want 3:\n%s", len(logged), lines.String())
	}
	for i, want := range []string{"withdrawn=1 discarded=1", "withdrawn=100 discarded=100", "withdrawn=101 discarded=101"} {
		for _, want := range []string{"neighbour=rr", "attribute=BGP_ATTR_TYPE_ORIGIN", `reason="its value is 3"`, want} {
			if !strings.Contains(logged[i], want) {
				t.Errorf("%s is missing in: %s", want, logged[i])
			}
		}
	}
}

func TestUnusableRoutesAreSeldomLogged(t *testing.T) {
	var lines bytes.Buffer
	l := faultLog{log: slog.New(slog.NewTextHandler(&lines, nil))}
	for range 100 {
		l.routes.log(l.countUnusable(netip.MustParsePrefix("2001:db8::/32"), errors.New("no SID")))
	}
	l.routes.resume()
	logged := strings.Split(strings.TrimSpace(lines.String()), "\n")
	if len(logged) != 2 || !strings.HasSuffix(logged[0], `route=2001:db8::/32 error="no SID" messages=1`) ||
		!strings.HasSuffix(logged[1], "messages=100") {
		t.Errorf("logged:\n%s", lines.String())
	}
}

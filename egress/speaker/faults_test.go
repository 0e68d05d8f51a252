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

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

func TestMalformedAttributeWithdrawsAndTheSessionStays(t *testing.T) {
	s, _, p := startWithOwnSession(t, nil)
	id, route := testRoute(t, s.at.Addr(), "transit", srv6.EndDT6, 64601)
	prefix := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	attributes, err := route.Encode()
	if err != nil {
		t.Fatal(err)
	}
	good := wire.Announcement(attributes, netip.MustParseAddr("2001:db8::1"), VPNv4, wire.MaxMessage).Append(nil, id.RD, prefix)
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
	again := bgptest.Attribute(bgptest.Optional, bgptest.ReachKind, slices.Concat(bgptest.ReachField, wire.AppendVPN(nil, id.RD, prefix[0]))...)
	send(bgptest.UpdateMessage(again, bgptest.Attribute(bgptest.WellKnown, 1, 3), bgptest.GoodPath, bgptest.GoodPref)) // ORIGIN 3
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
	unknown := bgptest.Attribute(bgptest.WellKnown, 200, 1, 2)
	if _, err := p.conn.Write(bgptest.UpdateMessage(bgptest.GoodReach, bgptest.GoodOrigin, bgptest.GoodPath, bgptest.GoodPref, unknown)); err != nil {
		t.Fatal(err)
	}
	p.waitForEnd()
	p.mu.Lock()
	defer p.mu.Unlock()
	// RFC 4271 §6.3: UPDATE Message Error, Unrecognized Well-known Attribute, and the attribute.
	if n := p.notification; n == nil || n.ErrorCode != 3 || n.ErrorSubcode != 2 || !bytes.Equal(n.Data, unknown) {
		t.Errorf("the neighbour got NOTIFICATION %+v", n)
	}
}

func TestFaultsAreCountedAndSeldomLogged(t *testing.T) {
	var lines bytes.Buffer
	l := faultLog{log: slog.New(slog.NewTextHandler(&lines, nil)).With("neighbour", "rr")}
	u, err := wire.ParseUpdate(bgptest.UpdateBody(bgptest.GoodReach, bgptest.Attribute(bgptest.WellKnown, 1, 3), bgptest.GoodPath, bgptest.GoodPref,
		bgptest.Attribute(bgptest.WellKnown, byte(bgp.BGP_ATTR_TYPE_ATOMIC_AGGREGATE), 0)), wire.FromReflector)
	if err != nil {
		t.Fatal(err)
	}
	counted := countFaults("rr", u.Faults)
	for i := range 100 {
		if logged := l.faults.log(l.count(counted, u.Faults[0])); logged != (i == 0) {
			t.Fatalf("update %d was logged: %t", i, logged)
		}
	}
	// The interval ends with the lines that came in it, the next one, which is empty,
	// without a line.
	if first, second := l.faults.resume(), l.faults.resume(); !first || second {
		t.Errorf("the first interval ends with a line: %t, the second: %t", first, second)
	}
	if !l.faults.log(l.count(counted, u.Faults[0])) {
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

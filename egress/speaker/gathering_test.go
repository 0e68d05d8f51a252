package speaker

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"hikyaku/egress/srv6"
)

// gatherBodies are bodies of UPDATEs with one route each, and some others. What they
// share is told by their names.
func gatherBodies(t testing.TB) (names []string, bodies [][]byte) {
	t.Helper()
	id := identity(t, netip.MustParseAddr("192.0.2.1"), "transit")
	other := identity(t, netip.MustParseAddr("192.0.2.1"), "other")
	hop, otherHop := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	wire := func(med uint32) []byte {
		b, err := NewVPNRoute(service(id, srv6.EndDT6), Attributes{ASPath: NewASPath(64601), MED: med, HasMED: true}, id.RT).wire()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	four, short := netip.MustParsePrefix("198.51.100.0/25"), netip.MustParsePrefix("2001:db8::/32")
	add := func(name string, b []byte) {
		found, _ := messagesOf(t, b)
		names, bodies = append(names, name), append(bodies, found[0])
	}
	announce := func(name string, med uint32, hop netip.Addr, id srv6.Identity, p ...netip.Prefix) {
		add(name, announcement(wire(med), hop, vpnFamilyOf(p[0].Addr().Is4()), maxMessage).append(nil, id.RD, p))
	}
	withdraw := func(name string, p ...netip.Prefix) {
		add(name, withdrawal(vpnFamilyOf(p[0].Addr().Is4())).append(nil, id.RD, p))
	}
	announce("a1", 1, hop, id, prefixes6(1, 1)...)
	announce("a2", 1, hop, id, prefixes6(2, 1)...)
	announce("a short", 1, hop, id, short)
	announce("a of another RD", 1, hop, other, prefixes6(1, 1)...)
	announce("a many", 1, hop, id, prefixes6(10, 5)...)
	announce("b1", 2, hop, id, prefixes6(1, 1)...)
	announce("a1 by another hop", 1, otherHop, id, prefixes6(1, 1)...)
	announce("a IPv4", 1, hop, id, four)
	withdraw("w1", prefixes6(1, 1)...)
	withdraw("w2", prefixes6(2, 1)...)
	withdraw("w IPv4", four)
	add("End-of-RIB", appendEndOfRIB(nil, VPNv6))
	return names, bodies
}

func TestGathering(t *testing.T) {
	names, bodies := gatherBodies(t)
	for _, c := range []struct {
		name     string
		messages []string
		routes   []int // of each update
	}{
		{"one attribute list", []string{"a1", "a2", "a short", "a of another RD", "a many", "a1"}, []int{10}},
		{"other attributes", []string{"a1", "b1", "a2"}, []int{1, 1, 1}},
		{"another next hop", []string{"a1", "a1 by another hop"}, []int{1, 1}},
		{"another family", []string{"a1", "a IPv4", "w1", "w IPv4"}, []int{1, 1, 1, 1}},
		{"withdrawals", []string{"w1", "w2", "w1"}, []int{3}},
		{"a withdrawal between", []string{"a1", "a2", "w1", "a1"}, []int{2, 1, 1}},
		{"End-of-RIB", []string{"w1", "End-of-RIB", "w2", "End-of-RIB", "End-of-RIB"}, []int{1, 0, 1, 0, 0}},
		{"no more than fit", slices.Repeat([]string{"a1"}, maxGathered+1), []int{maxGathered, 1}},
	} {
		g := gathering{from: fromReflector}
		var routes []int
		note := func(u *routeUpdate) {
			if u != nil {
				routes = append(routes, len(u.reach)+len(u.unreach))
			}
		}
		for _, name := range c.messages {
			done, err := g.add(bodies[slices.Index(names, name)])
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			note(done)
		}
		note(g.take())
		if !slices.Equal(routes, c.routes) || g.take() != nil {
			t.Errorf("%s: updates of %v routes, want %v", c.name, routes, c.routes)
		}
	}
}

// What was read stays as it is when the buffer has the next message.
func TestGatheredOutlivesTheBuffer(t *testing.T) {
	_, bodies := gatherBodies(t)
	g := gathering{from: fromReflector}
	buffer := slices.Clone(bodies[0])
	if _, err := g.add(buffer); err != nil {
		t.Fatal(err)
	}
	clear(buffer)
	u, err := parseUpdate(bodies[0], fromReflector)
	if got, want := said(g.take()), said(&u); err != nil || !slices.Equal(got, want) {
		t.Errorf("read %v, want %v, %v", got, want, err)
	}
}

// FuzzGathering compares what is gathered with what each message says. The input is steps
// of four bytes: which message, the byte of it that is spoiled and by what, and whether
// it is the last one for now.
func FuzzGathering(f *testing.F) {
	_, bodies := gatherBodies(f)
	var all, pairs []byte
	for i := range bodies {
		all = append(all, byte(i), 0, 0, 0)
		pairs = append(pairs, byte(i), 0, 0, 0, byte(i), 0, 0, 1, byte(i), 40, 1, 0)
	}
	f.Add(all)
	f.Add(pairs)
	f.Fuzz(func(t *testing.T, steps []byte) {
		g := gathering{from: fromReflector}
		var got, want []string
		for ; len(steps) >= 4; steps = steps[4:] {
			body := slices.Clone(bodies[int(steps[0])%len(bodies)])
			body[int(steps[1])%len(body)] ^= steps[2]
			u, failed := parseUpdate(body, fromReflector)
			if failed == nil {
				want = append(want, said(&u)...)
			}
			done, err := g.add(body)
			if (err == nil) != (failed == nil) {
				t.Fatalf("message %x: %v, and by itself %v", body, err, failed)
			}
			got = append(got, said(done)...)
			if steps[3]%2 == 1 || err != nil {
				got = append(got, said(g.take())...)
			}
			if err != nil {
				break
			}
		}
		if got = append(got, said(g.take())...); !slices.Equal(got, want) {
			t.Fatalf("gathered:\n%v\neach:\n%v", got, want)
		}
	})
}

// said is what an update says of each route, in order.
func said(u *routeUpdate) (list []string) {
	if u == nil {
		return nil
	}
	for _, p := range u.unreach {
		list = append(list, fmt.Sprint(p, " is withdrawn"))
	}
	a := attributesFromGoBGP(u.attributes)
	s, err := srv6.ServiceFromGoBGP(u.attributes)
	route := fmt.Sprint(a, s, srv6.TargetsFromGoBGP(u.attributes), err, u.nextHop, u.unusable)
	for _, p := range u.reach {
		list = append(list, fmt.Sprint(p, route))
	}
	if u.endOfRIB != 0 || len(u.faults) > 0 {
		list = append(list, fmt.Sprint(u.endOfRIB, u.faults))
	}
	return list
}

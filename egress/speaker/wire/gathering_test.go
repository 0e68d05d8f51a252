package wire

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/srv6"
)

// gatherBodies are bodies of UPDATEs with one route each, and some others. Their names say
// what they share.
func gatherBodies(t testing.TB) (names []string, bodies [][]byte) {
	t.Helper()
	id := bgptest.Identity(t, netip.MustParseAddr("192.0.2.1"), "transit")
	other := bgptest.Identity(t, netip.MustParseAddr("192.0.2.1"), "other")
	hop, otherHop := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	wire := func(med uint32) []byte {
		b, err := NewVPNRoute(bgptest.Service(id, srv6.EndDT6), Attributes{ASPath: NewASPath(64601), MED: med, HasMED: true}, id.RT).Encode()
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
		add(name, Announcement(wire(med), hop, VPNFamily(p[0].Addr().Is4()), MaxMessage).Append(nil, id.RD, p))
	}
	withdraw := func(name string, p ...netip.Prefix) {
		add(name, Withdrawal(VPNFamily(p[0].Addr().Is4())).Append(nil, id.RD, p))
	}
	announce("a1", 1, hop, id, bgptest.Prefixes6(1, 1)...)
	announce("a2", 1, hop, id, bgptest.Prefixes6(2, 1)...)
	announce("a short", 1, hop, id, short)
	announce("a of another RD", 1, hop, other, bgptest.Prefixes6(1, 1)...)
	announce("a many", 1, hop, id, bgptest.Prefixes6(10, 5)...)
	announce("b1", 2, hop, id, bgptest.Prefixes6(1, 1)...)
	announce("a1 by another hop", 1, otherHop, id, bgptest.Prefixes6(1, 1)...)
	announce("a IPv4", 1, hop, id, four)
	withdraw("w1", bgptest.Prefixes6(1, 1)...)
	withdraw("w2", bgptest.Prefixes6(2, 1)...)
	withdraw("w IPv4", four)
	add("End-of-RIB", AppendEndOfRIB(nil, VPNv6))
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
		g := NewGatherer(FromReflector)
		var routes []int
		note := func(u *Update) {
			if u != nil {
				routes = append(routes, len(u.Reach)+len(u.Unreach))
			}
		}
		for _, name := range c.messages {
			done, err := g.Add(bodies[slices.Index(names, name)])
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			note(done)
		}
		note(g.Take())
		if !slices.Equal(routes, c.routes) || g.Take() != nil {
			t.Errorf("%s: updates of %v routes, want %v", c.name, routes, c.routes)
		}
	}
}

// Gathered updates stay as they are when the buffer has the next message.
func TestGatheredOutlivesTheBuffer(t *testing.T) {
	_, bodies := gatherBodies(t)
	g := NewGatherer(FromReflector)
	buffer := slices.Clone(bodies[0])
	if _, err := g.Add(buffer); err != nil {
		t.Fatal(err)
	}
	clear(buffer)
	u, err := ParseUpdate(bodies[0], FromReflector)
	if got, want := said(g.Take()), said(&u); err != nil || !slices.Equal(got, want) {
		t.Errorf("read %v, want %v, %v", got, want, err)
	}
}

// FuzzGathering compares gathered updates with the contents of each message. The input is
// steps of four bytes. They are the message, the byte of it that is spoiled and by what
// value, and whether it is the last one for now.
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
		g := NewGatherer(FromReflector)
		var got, want []string
		for ; len(steps) >= 4; steps = steps[4:] {
			body := slices.Clone(bodies[int(steps[0])%len(bodies)])
			body[int(steps[1])%len(body)] ^= steps[2]
			u, failed := ParseUpdate(body, FromReflector)
			if failed == nil {
				want = append(want, said(&u)...)
			}
			done, err := g.Add(body)
			if (err == nil) != (failed == nil) {
				t.Fatalf("message %x: %v, and by itself %v", body, err, failed)
			}
			got = append(got, said(done)...)
			if steps[3]%2 == 1 || err != nil {
				got = append(got, said(g.Take())...)
			}
			if err != nil {
				break
			}
		}
		if got = append(got, said(g.Take())...); !slices.Equal(got, want) {
			t.Fatalf("gathered:\n%v\neach:\n%v", got, want)
		}
	})
}

// said is an update's statement about each route, in order.
func said(u *Update) (list []string) {
	if u == nil {
		return nil
	}
	for _, p := range u.Unreach {
		list = append(list, fmt.Sprint(p, " is withdrawn"))
	}
	a := AttributesFromGoBGP(u.Attributes)
	s, err := srv6.ServiceFromGoBGP(u.Attributes)
	route := fmt.Sprint(a, s, srv6.TargetsFromGoBGP(u.Attributes), err, u.NextHop, u.Unusable)
	for _, p := range u.Reach {
		list = append(list, fmt.Sprint(p, route))
	}
	if u.EndOfRIB != 0 || len(u.Faults) > 0 {
		list = append(list, fmt.Sprint(u.EndOfRIB, u.Faults))
	}
	return list
}

package agent

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	wire "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/api"
	"hikyaku/egress/border"
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
)

// takingTables are a kernel's tables that take all.
type takingTables struct{ unchanging }

func (takingTables) Apply(context.Context, kernel.Change) error { return nil }
func (takingTables) Drop(context.Context, kernel.Route) error   { return nil }
func (takingTables) Shut(context.Context, kernel.Route) error   { return nil }
func (takingTables) Release(kernel.Route)                       {}

// crossing is a border with two egress peers and a reflector, without a kernel.
type crossing struct {
	t         *testing.T
	border    *Border
	a, b      *neighbour
	reflector *neighbour
	markers   int
}

const crossingTOML = `
role = "border"
asn = 64500
router_id = "192.0.2.1"
bgp.connect_retry = "1s"
import.martians = true
[srv6]
locator = "2001:db8:b1::/48"
interfaces = ["eth0"]
[[reflector]]
name = "rr"
address = %q
port = %d
[[peer]]
name = "a"
number = 1
address = %q
port = %d
asn = 64601
max_prefixes = 3000
communities = ["64500:7", "64500:1:2"]
[[peer]]
name = "b"
number = 2
address = %q
port = %d
asn = 64602
`

func newCrossing(t *testing.T) *crossing {
	c := &crossing{
		t: t, reflector: listenAs(t, "127.64.0.1", 64500, wire.RF_IPv6_VPN),
		a: listenAs(t, "127.64.0.2", 64601, wire.RF_IPv6_UC), b: listenAs(t, "127.64.0.3", 64602, wire.RF_IPv6_UC),
	}
	var at []any
	for _, n := range []*neighbour{c.reflector, c.a, c.b} {
		at = append(at, n.at().Addr().String(), n.at().Port())
	}
	loaded, err := config.Parse("border.toml", fmt.Appendf(nil, crossingTOML, at...))
	if err != nil {
		t.Fatal(err)
	}
	b := &Border{config: loaded.Border, lookups: make(map[string]border.Lookup)}
	b.engine = newEngine(&b.config.Common, config.RoleBorder, Options{Log: slog.New(slog.DiscardHandler)}, b)
	for _, p := range b.config.Peers {
		b.sessions.add(p.Name, kindPeer, p.Address, p.ASN, b.started)
	}
	b.tables = takingTables{}
	b.planner = border.New(b.config, border.Options{
		Anchor: anchor, Lookup: func(*config.Peer) border.Lookup { return border.ByTable },
		Resolve: func(_ *config.Peer, hop netip.Addr) (border.Hop, error) {
			return border.Hop{Device: "eth1", Gateway: hop}, nil
		},
	}, kernel.State{})
	ctx, cancel := context.WithCancel(t.Context())
	if b.bgp, err = b.speak(ctx, false); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- b.loop(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		b.hangUp()
	})
	c.border = b
	for _, n := range []*neighbour{c.reflector, c.a, c.b} {
		n.accept()
	}
	for i, n := range []*neighbour{c.a, c.b} {
		n.say(update(routes(100, 50), origin, path(n.as)))
		c.settle(n, i+1, 0)
	}
	return c
}

// settle has a peer announce something, and returns the reflector's entries from a place
// on until then, without this.
func (c *crossing) settle(n *neighbour, number, from int) []string {
	c.t.Helper()
	c.markers++
	marker := prefix(60_000 + c.markers)
	n.say(update(nlri(marker), origin, path(n.as)))
	want := fmt.Sprintf("+192.0.2.1:%d %s", number, marker)
	sent := c.reflector.await(from, want, func(word string) bool { return word == want })
	return slices.DeleteFunc(sent, func(word string) bool {
		return word == want || strings.HasSuffix(word, " 2001:db8:b1:1::/128") || strings.HasSuffix(word, " 2001:db8:b1:2::/128")
	})
}

func (c *crossing) session(name string) api.Session {
	c.t.Helper()
	list, err := backend{c.border.engine}.Sessions(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return list[slices.IndexFunc(list, func(s api.Session) bool { return s.Name == name })]
}

// Parts of UPDATEs.
var (
	origin  = attribute(0x40, 1, 0)
	nextHop = netip.MustParseAddr("2001:db8:a::1").AsSlice()
)

// attribute has an extended length.
func attribute(flags, kind byte, value ...byte) []byte {
	return append([]byte{flags | 0x10, kind, byte(len(value) >> 8), byte(len(value))}, value...)
}

// prefix is one of 2001:db8::/32, of 48 bits.
func prefix(n int) netip.Prefix {
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8, byte(n >> 8), byte(n)}
	return netip.PrefixFrom(netip.AddrFrom16(a), 48)
}

func nlri(prefixes ...netip.Prefix) (field []byte) {
	for _, p := range prefixes {
		a := p.Addr().As16()
		field = append(append(field, byte(p.Bits())), a[:(p.Bits()+7)/8]...)
	}
	return field
}

func routes(first, n int) []byte {
	var list []netip.Prefix
	for i := range n {
		list = append(list, prefix(first+i))
	}
	return nlri(list...)
}

// update is the body of an UPDATE that announces IPv6 routes.
func update(field []byte, attributes ...[]byte) []byte {
	reach := slices.Concat([]byte{0, 2, 1, 16}, nextHop, []byte{0}, field)
	return body(append([][]byte{attribute(0x80, 14, reach...)}, attributes...)...)
}

func unreach(field []byte) []byte { return attribute(0x80, 15, append([]byte{0, 2, 1}, field...)...) }

func body(attributes ...[]byte) []byte {
	all := slices.Concat(attributes...)
	return append(binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(all))), all...)
}

// path is an AS_PATH of one sequence.
func path(ases ...uint32) []byte { return segments(2, ases...) }

// segments is an AS_PATH of segments of one kind, of at most 255 each.
func segments(kind byte, ases ...uint32) []byte {
	var value []byte
	for list := range slices.Chunk(ases, 255) {
		value = append(value, kind, byte(len(list)))
		for _, as := range list {
			value = binary.BigEndian.AppendUint32(value, as)
		}
	}
	return attribute(0x40, 2, value...)
}

func times(n int, list ...byte) []byte { return slices.Repeat(list, n) }

// TestOneRouteChangesNothingElse has a peer say something odd of a prefix, and looks at
// the entries of the reflector. They may be of this prefix alone, and of no other peer.
func TestOneRouteChangesNothingElse(t *testing.T) {
	c := newCrossing(t)
	one := prefix(7)
	field := nlri(one)
	good, other := path(64601, 64700), path(64601, 64999)
	withdrawn, announced := []string{"-"}, []string{"+"}
	for _, test := range []struct {
		name   string
		bodies [][]byte
		want   []string // of the prefix, which was announced before
	}{
		{"another AS path", [][]byte{update(field, origin, other)}, announced},
		{"990 AS numbers", [][]byte{update(field, origin, path(slices.Repeat([]uint32{64601}, 990)...))}, withdrawn},
		{"988 communities", [][]byte{update(field, origin, good, attribute(0xc0, 8, times(988, 0xfc, 0x59, 0, 1)...))}, withdrawn},
		{"room for the peer's route, and none for our own target and SID",
			[][]byte{update(field, origin, good, attribute(0xc0, 8, times(978, 0xfc, 0x59, 0, 1)...))}, withdrawn},
		{"800 AS numbers in four segments", [][]byte{update(field, origin, path(append([]uint32{64601}, slices.Repeat([]uint32{4_200_000_001}, 799)...)...))}, announced},
		{"a set of 255 ASes (RFC 9774)", [][]byte{update(field, origin, segments(1, slices.Repeat([]uint32{64700}, 255)...))}, withdrawn},
		{"another first AS", [][]byte{update(field, origin, path(64602, 64601))}, withdrawn},
		{"no AS at all", [][]byte{update(field, origin, path())}, withdrawn},
		{"a confederation's segment", [][]byte{update(field, origin, segments(3, 64700))}, withdrawn},
		{"AS 0 (RFC 7607)", [][]byte{update(field, origin, path(64601, 0, 64700))}, withdrawn},
		{"our own AS", [][]byte{update(field, origin, path(64601, 64500))}, withdrawn},
		{"an unknown attribute of 3,900 bytes", [][]byte{update(field, origin, other, attribute(0xc0, 222, make([]byte, 3900)...))}, announced},
		{"a thousand unknown attributes", [][]byte{update(field, origin, other, slices.Concat(manyAttributes()...))}, announced},
		{"300 large communities", [][]byte{update(field, origin, other, attribute(0xc0, 32, times(300, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3)...))}, announced},
		{"450 extended communities", [][]byte{update(field, origin, other, attribute(0xc0, 16, times(450, 0, 2, 0xfc, 0x59, 0, 0, 0, 1)...))}, announced},
		{"ORIGINATOR_ID and 900 clusters", [][]byte{update(field, origin, other, attribute(0x80, 9, 1, 2, 3, 4), attribute(0x80, 10, times(900, 1, 2, 3, 4)...))}, announced},
		{"an unknown attribute of no bytes", [][]byte{update(field, origin, other, attribute(0xc0, 222))}, announced},
		{"COMMUNITIES of no bytes", [][]byte{update(field, origin, good, attribute(0xc0, 8))}, withdrawn},
		{"an attribute that runs over the end", [][]byte{update(field, origin, good, []byte{0xc0, 8, 200, 1})}, withdrawn},
		{"a hundred times in one UPDATE", [][]byte{update(times(100, field...), origin, other)}, announced},
		{"withdrawn and announced in one UPDATE", [][]byte{body(unreach(field), update(field, origin, other)[4:])}, announced},
		{"without ORIGIN", [][]byte{update(field, good)}, withdrawn},
		{"4,096 bytes of withdrawals", [][]byte{body(unreach(slices.Concat(routes(20_000, 577), field)))}, withdrawn},
		{"withdrawn and announced 500 times", flaps(field, 500), withdrawn},
		{"nothing new", [][]byte{update(field, origin, good)}, nil},
	} {
		c.a.say(update(field, origin, good))
		c.settle(c.a, 1, 0)
		from := c.reflector.place()
		c.a.say(test.bodies...)
		sent := c.settle(c.a, 1, from)
		for i, word := range sent {
			sign, ok := strings.CutSuffix(word, "192.0.2.1:1 "+one.String())
			if !ok {
				t.Errorf("%s: the reflector receives %s", test.name, word)
			}
			sent[i] = sign
		}
		if last := sent[max(0, len(sent)-1):]; len(last) != len(test.want) || !slices.Equal(last, test.want) {
			t.Errorf("%s: the reflector receives %q for the prefix, want %q", test.name, sent, test.want)
		}
		// One of the other peer shows that it is served as before.
		if sent := c.settle(c.b, 2, c.reflector.place()); len(sent) > 0 {
			t.Errorf("%s: the reflector then receives %q", test.name, sent)
		}
	}
	for _, name := range []string{"a", "b", "rr"} {
		if s := c.session(name); !s.Up || s.Ends != (api.Ends{}) {
			t.Errorf("the session with %s: %+v", name, s)
		}
	}
	if got := c.session("rr").Withheld; got != (api.Withheld{Routes: 0, Total: 3}) {
		t.Errorf("withheld %+v, want 3 in all", got)
	}
}

// TestTheEndOfASessionConcernsItsPeer has a peer send UPDATEs whose routes cannot be determined.
func TestTheEndOfASessionConcernsItsPeer(t *testing.T) {
	c := newCrossing(t)
	good := path(64601, 64700)
	for _, test := range []struct {
		name string
		body []byte
	}{
		{"a prefix of 129 bits", update(append([]byte{129}, make([]byte, 17)...), origin, good)},
		{"routes as with ADD-PATH, which is not agreed on", update(append([]byte{0, 0, 0, 1}, nlri(prefix(7))...), origin, good)},
	} {
		from := c.reflector.place()
		c.a.say(test.body)
		marker := "-192.0.2.1:1 2001:db8:b1:1::/128"
		c.reflector.await(from, marker, func(word string) bool { return word == marker })
		sent := c.settle(c.b, 2, from)
		for _, word := range sent {
			if !strings.HasPrefix(word, "-192.0.2.1:1 ") {
				t.Errorf("%s: the reflector receives %s", test.name, word)
			}
		}
		c.a.accept()
		c.a.say(update(routes(100, 50), origin, path(64601)))
		c.settle(c.a, 1, from)
	}
	if a, b := c.session("a").Ends, c.session("b").Ends; a != (api.Ends{UpdateError: 2}) || b != (api.Ends{}) {
		t.Errorf("the sessions ended %+v and %+v", a, b)
	}
}

// TestFlood has a peer announce more than max_prefixes.
func TestFlood(t *testing.T) {
	c := newCrossing(t)
	from := c.reflector.place()
	for first := 1000; first < 21_000; first += 500 {
		c.a.say(update(routes(first, 500), origin, path(64601, uint32(first))))
	}
	// The refused route comes last, and is announced nowhere.
	c.a.say(body(unreach(routes(100, 1))), update(routes(30_000, 1), origin, path(64601)))
	last := "+192.0.2.1:1 " + prefix(30_000).String()
	sent := c.reflector.await(from, last, func(word string) bool { return word == last })
	announced := 0
	for _, word := range sent {
		if strings.HasPrefix(word, "+192.0.2.1:1 ") {
			announced++
		} else if word != "-192.0.2.1:1 "+prefix(100).String() {
			t.Errorf("the reflector receives %s", word)
		}
	}
	// Of 3000 there were 51 before, and one has left.
	if announced != 3000-51+1 {
		t.Errorf("%d routes are announced", announced)
	}
	status, err := backend{c.border.engine}.Status(t.Context())
	if err != nil || len(status.Problems) != 1 || !strings.Contains(status.Problems[0], "max_prefixes (3000)") {
		t.Errorf("problems %q, %v", status.Problems, err)
	}
	if sent := c.settle(c.b, 2, c.reflector.place()); len(sent) > 0 {
		t.Errorf("the reflector then receives %q", sent)
	}
}

// manyAttributes are of kinds that have no meaning.
func manyAttributes() (list [][]byte) {
	for kind := range 1000 {
		list = append(list, []byte{0xc0, byte(200 + kind%50), 0})
	}
	return list
}

func flaps(field []byte, n int) (bodies [][]byte) {
	for range n {
		bodies = append(bodies, body(unreach(field)), update(field, origin, path(64601, 64700)))
	}
	return append(bodies, body(unreach(field)))
}

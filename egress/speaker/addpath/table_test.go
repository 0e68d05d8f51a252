package addpath

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/session"
	"hikyaku/egress/speaker/wire"
)

var (
	prefix    = netip.MustParsePrefix("2001:db8:c::/48")
	another   = netip.MustParsePrefix("2001:db8:d::/48")
	four      = netip.MustParsePrefix("198.51.100.0/24")
	hopA      = netip.MustParseAddr("2001:db8:a1::1")
	hopB      = netip.MustParseAddr("2001:db8:a2::1")
	stranger  = netip.MustParseAddr("2001:db8:f::1")
	ourselves = netip.MustParseAddr("2001:db8::b1")
	routerAt  = netip.MustParseAddr("2001:db8::53")
	both      = []wire.Family{wire.IPv6Unicast, wire.IPv4Unicast}
)

// world is a table with the peers' routes, as its changes alone show them.
type world struct {
	*Table
	t    *testing.T
	have map[string]uint32 // "peer prefix" to MED
}

func newWorld(t *testing.T) *world {
	w := &world{NewTable(func(a netip.Addr) bool { return a == ourselves }), t, map[string]uint32{}}
	for name, hop := range map[string]netip.Addr{"a": hopA, "b": hopB} {
		w.AddPeer(Peer{Name: name, Address: hop, Families: both, Match: session.Match{NextHops: []netip.Addr{hop}}})
	}
	return w
}

func (w *world) apply(changes []Change) {
	for _, c := range changes {
		for _, p := range c.Prefixes {
			key := fmt.Sprint(map[netip.Addr]string{hopA: "a", hopB: "b"}[c.Peer], " ", p)
			switch {
			case c.Refused:
			case c.Attributes == nil:
				if _, had := w.have[key]; !had {
					w.t.Errorf("%s is withdrawn, which was not there", key)
				}
				delete(w.have, key)
			default:
				w.have[key] = c.Attributes.MED
			}
		}
	}
	w.expectTally()
	for _, name := range []string{"a", "b"} {
		n := 0
		for key := range w.have {
			if strings.HasPrefix(key, name) {
				n++
			}
		}
		if got := w.Routes(name); got != n {
			w.t.Errorf("peer %s counts %d routes, and has %d", name, got, n)
		}
	}
}

// expectTally compares the counts with the paths that there are.
func (w *world) expectTally() {
	w.t.Helper()
	want := make(map[source]Routes)
	for prefix, list := range w.paths {
		for _, p := range list {
			of := source{p.router.name, p.peer.Name}
			n := want[of]
			if prefix.Addr().Is4() {
				n.IPv4++
			} else {
				n.IPv6++
			}
			want[of] = n
		}
	}
	if got := w.tally.paths; !maps.Equal(got, want) {
		w.t.Errorf("the paths are counted as %v, and are %v", got, want)
	}
}

func (w *world) up(router string, forwarding ...wire.Family) {
	w.apply(w.Up(router, routerAt, wire.Terms{Families: both, Restart: wire.Restart{Families: both, Forwarding: forwarding}}))
}

func (w *world) announce(router string, id uint32, hop netip.Addr, med uint32, prefixes ...netip.Prefix) {
	w.receive(router, id, hop, wire.Attributes{MED: med}, true, prefixes...)
}

func (w *world) receive(router string, id uint32, hop netip.Addr, a wire.Attributes, usable bool, prefixes ...netip.Prefix) {
	u := &wire.Update{NextHop: hop}
	for _, p := range prefixes {
		u.Reach = append(u.Reach, wire.NLRI{Prefix: p, PathID: id})
	}
	w.apply(w.Receive(router, u, a, usable))
}

func (w *world) withdraw(router string, id uint32, prefixes ...netip.Prefix) {
	u := &wire.Update{}
	for _, p := range prefixes {
		u.Unreach = append(u.Unreach, wire.NLRI{Prefix: p, PathID: id})
	}
	w.apply(w.Receive(router, u, wire.Attributes{}, true))
}

func (w *world) expect(what string, want ...string) {
	w.t.Helper()
	var got []string
	for key, med := range w.have {
		got = append(got, fmt.Sprint(key, " ", med))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: the peers have %q, want %q", what, got, want)
	}
}

const inA, inB = "a 2001:db8:c::/48 ", "b 2001:db8:c::/48 "

func TestPathsOfPeers(t *testing.T) {
	w := newWorld(t)
	w.announce("r", 1, hopA, 1, prefix)
	w.expect("of an unknown router")
	w.up("r")
	w.announce("r", 1, hopA, 1, prefix)
	w.announce("r", 2, hopB, 2, prefix)
	w.announce("r", 3, stranger, 3, prefix)
	w.expect("two paths, and one of nobody", inA+"1", inB+"2")
	w.announce("r", 1, hopA, 5, prefix)
	w.expect("the same identifier replaces", inA+"5", inB+"2")
	w.announce("r", 1, hopB, 6, prefix)
	w.expect("it moves to a peer that has one", inB+"2")
	w.withdraw("r", 2, prefix)
	w.expect("the peer's second path is used", inB+"6")
	w.announce("r", 1, stranger, 7, prefix)
	w.expect("it moves to nobody")
	w.withdraw("r", 1, prefix)
	w.withdraw("r", 9, another)
	w.expect("nothing is left")
	w.announce("r", 1, hopA, 1, prefix)
	w.receive("r", 1, hopA, wire.Attributes{}, false, prefix)
	w.expect("one that is not usable counts as withdrawn")
	if why := w.Missing("a"); !strings.Contains(why, "has not yet sent all") {
		t.Errorf("before End-of-RIB the reason is %q", why)
	}
	for _, f := range both {
		w.apply(w.EndOfRIB("r", f))
	}
	if why := w.Missing("a"); !strings.Contains(why, "that is usable") {
		t.Errorf("of routes that are not usable the reason is %q", why)
	}
}

// A router that sends its routes again changes nothing here, so that nobody hears of them.
func TestReplay(t *testing.T) {
	w := newWorld(t)
	w.up("r")
	w.up("s")
	w.announce("r", 1, hopA, 1, prefix, another, four)
	w.announce("s", 1, hopA, 2, prefix)
	w.announce("s", 2, hopB, 3, another)
	had := maps.Clone(w.have)
	w.have = map[string]uint32{"b 2001:db8:d::/48": 3}
	w.apply(w.Replay("a"))
	if !maps.Equal(w.have, had) {
		t.Errorf("after a replay the peers have %v, want %v", w.have, had)
	}
	if all := w.Replay("nobody"); all != nil {
		t.Errorf("of a peer that is not there: %v", all)
	}
	w.apply(w.Pause("a"))
	if all := w.Replay("a"); all != nil {
		t.Errorf("of a peer that is left out: %v", all)
	}
}

func TestTwoRouters(t *testing.T) {
	w := newWorld(t)
	w.up("r")
	w.up("s")
	w.announce("r", 1, hopA, 1, prefix)
	w.announce("s", 1, hopA, 2, prefix)
	w.announce("s", 1, hopB, 3, another)
	w.withdraw("s", 1, another)
	w.expect("the first one counts, and identifiers are each session's own", inA+"1")
	w.apply(w.Down("r", nil))
	w.expect("the other one's", inA+"2")
	w.apply(w.Down("s", nil))
	w.expect("nothing is left")
}

// TestRestartOfARouter: identifiers of the new session mean other paths than those before.
func TestRestartOfARouter(t *testing.T) {
	w := newWorld(t)
	begin := func(forwarding ...wire.Family) {
		w.up("r", both...)
		w.announce("r", 1, hopA, 1, prefix, another)
		w.announce("r", 2, hopB, 2, prefix)
		w.apply(w.Down("r", both))
		w.expect("stale", inA+"1", "a 2001:db8:d::/48 1", inB+"2")
		w.up("r", forwarding...)
	}
	begin(both...)
	w.announce("r", 1, hopB, 4, prefix)
	w.expect("the other path has the identifier now", inA+"1", "a 2001:db8:d::/48 1", inB+"4")
	w.announce("r", 2, hopA, 3, prefix)
	w.withdraw("r", 2, prefix)
	w.expect("the stale one is replaced by any identifier", "a 2001:db8:d::/48 1", inB+"4")
	w.apply(w.EndOfRIB("r", wire.IPv4Unicast))
	w.expect("the end of another family", "a 2001:db8:d::/48 1", inB+"4")
	w.apply(w.EndOfRIB("r", wire.IPv6Unicast))
	w.expect("what has not come again is gone", inB+"4")
	w.apply(w.Down("r", nil))

	begin(wire.IPv4Unicast)
	w.expect("without its forwarding state")
	w.apply(w.Down("r", nil))
	w.up("r", both...)
	w.announce("r", 1, hopA, 1, prefix)
	w.apply(w.Down("r", both))
	w.apply(w.Expire("r"))
	w.expect("it has not come back")
}

func TestNextHopSelf(t *testing.T) {
	w := newWorld(t)
	w.up("r")
	w.announce("r", 1, ourselves, 1, prefix)
	w.announce("r", 2, routerAt, 1, prefix)
	for _, f := range both {
		w.apply(w.EndOfRIB("r", f))
	}
	why := w.Missing("a")
	for _, want := range []string{"router r sends no route with next hop 2001:db8:a1::1", "it has routes with an own router as next hop (2001:db8::b1, 2001:db8::53)", "next-hop-self", "add_path.communities"} {
		if !strings.Contains(why, want) {
			t.Errorf("the reason %q lacks %q", why, want)
		}
	}
	w.RemovePeer("a")
	w.AddPeer(Peer{Name: "a", Address: hopA, Families: both, Match: session.Match{
		NextHops: []netip.Addr{hopA, netip.MustParseAddr("203.0.113.1")}, Large: []wire.LargeCommunity{{64500, 1, 7}}, Communities: []uint32{64500<<16 | 7},
	}})
	w.receive("r", 1, ourselves, wire.Attributes{MED: 4}.WithLargeCommunities(wire.LargeCommunity{64500, 1, 7}), true, prefix)
	w.receive("r", 2, hopB, wire.Attributes{MED: 5}, true, prefix)
	w.receive("r", 3, ourselves, wire.Attributes{MED: 6}.WithCommunities(64500<<16|7), true, four)
	w.receive("r", 4, hopA, wire.Attributes{MED: 7}, true, another)
	w.expect("by communities", inA+"4", inB+"5", "a 198.51.100.0/24 6")
	for p, hop := range map[netip.Prefix]string{prefix: "2001:db8:a1::1", four: "203.0.113.1"} {
		if got := best(w.paths[p], w.peers["a"]).NextHop.String(); got != hop {
			t.Errorf("the next hop of %s is %s, want the peer's %s", p, got, hop)
		}
	}
}

func TestPausedPeer(t *testing.T) {
	w := newWorld(t)
	w.up("r")
	w.announce("r", 1, hopA, 1, prefix, four)
	w.apply(w.Pause("a"))
	w.announce("r", 2, hopA, 2, another)
	w.expect("paused")
	w.Resume("a")
	w.announce("r", 1, hopA, 1, prefix)
	w.expect("resumed", inA+"1")
	w.RemovePeer("a")
	w.RemovePeer("a")
	if len(w.paths) != 0 {
		t.Errorf("paths of a removed peer stay: %v", w.paths)
	}
}

// FuzzPaths has a router send UPDATE messages. Whatever they are, the counts fit the changes,
// and nothing is left after the router's end.
func FuzzPaths(f *testing.F) {
	path := []byte{0, 0, 0, 1, 48, 0x20, 1, 0x0d, 0xb8, 0, 0x0c}
	reach := func(hop netip.Addr, paths ...byte) []byte {
		value := slices.Concat([]byte{0, 2, 1, 16}, hop.AsSlice(), []byte{0}, paths)
		attributes := slices.Concat([]byte{0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfc, 0x59, 0x40, 5, 4, 0, 0, 0, 100, 0x80, 14, byte(len(value))}, value)
		return append([]byte{0, 0, 0, byte(len(attributes))}, attributes...)
	}
	unreach := func(paths ...byte) []byte {
		value := append([]byte{0, 2, 1}, paths...)
		return slices.Concat([]byte{0, 0, 0, byte(3 + len(value)), 0x80, 15, byte(len(value))}, value)
	}
	second := slices.Clone(path)
	second[3] = 2
	f.Add(reach(hopA, path...), reach(hopB, second...), unreach(path...))
	f.Add(reach(hopA, path...), reach(hopB, path...), unreach(second...))
	f.Add(reach(hopA, path[:4]...), reach(hopA, path[4:]...), unreach())
	f.Add([]byte{0, 8, 0, 0, 0, 1, 24, 198, 51, 100, 0, 0}, []byte{0, 0, 0, 0, 0, 0, 0, 1, 24, 198, 51, 100}, []byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		w := newWorld(t)
		w.up("r")
		gathered := wire.NewGatherer(wire.FromAddPath)
		take := func(u *wire.Update) {
			if u == nil {
				return
			}
			a, usable := wire.AttributesOfPeer(u.Attributes)
			for _, n := range slices.Concat(u.Reach, u.Plain, u.Unreach) {
				if n.Prefix != n.Prefix.Masked() || !n.Prefix.IsValid() {
					t.Fatalf("a path has prefix %s", n.Prefix)
				}
			}
			w.apply(w.Receive("r", u, a, usable && !u.Unusable))
		}
		for _, body := range [][]byte{first, second, third} {
			if len(body) > bgp.BGP_MAX_MESSAGE_LENGTH {
				return
			}
			done, err := gathered.Add(body)
			take(done)
			if err != nil {
				break
			}
		}
		take(gathered.Take())
		w.apply(w.Down("r", nil))
		w.expect("after the end")
		if len(w.paths) > 0 {
			t.Fatalf("paths are left: %v", w.paths)
		}
	})
}

func TestCountsOfARouter(t *testing.T) {
	w := newWorld(t)
	w.up("r")
	w.up("s")
	w.announce("r", 1, hopA, 1, prefix, another)
	w.announce("r", 1, hopA, 1, four)
	w.announce("r", 2, hopB, 1, prefix)
	w.announce("s", 1, hopA, 1, prefix)
	w.announce("r", 3, stranger, 1, prefix, another)
	expect := func(what, router string, unclaimed, total int, peers map[string]Routes) {
		t.Helper()
		c := w.Counts(router)
		if !maps.Equal(c.Peers, peers) || c.Unclaimed != unclaimed || c.UnclaimedTotal != total {
			t.Errorf("%s: %s counts %+v", what, router, c)
		}
	}
	expect("paths of two routers", "r", 2, 2, map[string]Routes{"a": {2, 1}, "b": {1, 0}})
	expect("paths of two routers", "s", 0, 0, map[string]Routes{"a": {1, 0}})
	w.apply(w.Pause("a"))
	if !w.Paused("a") || w.Paused("b") {
		t.Error("it is not known which peer is left out")
	}
	expect("a peer is left out", "r", 2, 2, map[string]Routes{"b": {1, 0}})
	w.Resume("a")
	w.announce("r", 1, hopA, 1, prefix)
	w.apply(w.Down("r", both))
	expect("stale paths", "r", 2, 2, map[string]Routes{"a": {1, 0}, "b": {1, 0}})
	w.up("r", both...)
	expect("a new session", "r", 0, 2, map[string]Routes{"a": {1, 0}, "b": {1, 0}})
	w.apply(w.EndOfRIB("r", wire.IPv6Unicast))
	expect("nothing is left", "r", 0, 2, map[string]Routes{})
}

package speaker

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

func TestPeerOfOursComesBack(t *testing.T) {
	r := listenAs(t, 64601)
	s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{r.neighbor("a", IPv6Unicast)}})
	for round := range 2 {
		p := r.accept(nil, bgp.RF_IPv6_UC)
		expect[PeerUp](s)
		p.send(announce6(t, []uint32{64601}, prefixes6(round, 5)))
		if l := expect[Learned](s); show(l.Prefixes) != show(prefixes6(round, 5)) {
			t.Errorf("learned %v in session %d", l.Prefixes, round)
		}
		p.conn.Close()
		if down := expect[PeerDown](s); down.Peer != "a" || down.Reason == "" {
			t.Errorf("told %+v", down)
		}
	}
}

func TestWhatCountsAsWithdrawalByAPeerOfOurs(t *testing.T) {
	s, peers := startWithOwnPeers(t, Config{}, 1)
	p := prefixes6(1, 2)
	both := announce6(t, []uint32{64601}, p[:1])
	both.Body.(*bgp.BGPUpdate).PathAttributes = append(both.Body.(*bgp.BGPUpdate).PathAttributes,
		withdraw6(t, p...).Body.(*bgp.BGPUpdate).PathAttributes...)
	cases := []struct {
		name    string
		message *bgp.BGPMessage
		left    []netip.Prefix
	}{
		{"own AS in the path", announce6(t, []uint32{64601, ownAS, 64700}, p), nil},
		{"explicit", withdraw6(t, p...), nil},
		{"malformed ORIGIN (RFC 7606 §7.1)", replaceOrigin(announce6(t, []uint32{64601}, p), bgp.NewPathAttributeOrigin(7)), nil},
		{"withdrawn and announced in one (RFC 4271 §4.3)", both, p[:1]},
	}
	marker := prefixes6(900, 1)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			peers[0].send(announce6(t, []uint32{64601, 64700}, p))
			peers[0].send(c.message)
			peers[0].send(withdraw6(t, marker...))
			has := make(map[netip.Prefix]bool)
			for ended := false; !ended; {
				switch e := s.next().(type) {
				case Learned:
					for _, prefix := range e.Prefixes {
						has[prefix] = true
					}
				case Withdrawn:
					ended = slices.Contains(e.Prefixes, marker[0])
					for _, prefix := range e.Prefixes {
						delete(has, prefix)
					}
				}
			}
			if len(has) != len(c.left) || len(c.left) == 1 && !has[c.left[0]] {
				t.Errorf("left is %v, want %v", has, c.left)
			}
		})
	}
}

func TestRoutesThatCannotBeToldEndThePeersSession(t *testing.T) {
	s, peers := startWithOwnPeers(t, Config{}, 1)
	peers[0].send(announce6(t, []uint32{64601}, prefixes6(1, 1)))
	expect[Learned](s)
	// A prefix of 200 bits.
	if _, err := peers[0].conn.Write(updateMessage(attribute(optional, unreachKind, 0, 2, 1, 200))); err != nil {
		t.Fatal(err)
	}
	if down := expect[PeerDown](s); !strings.Contains(down.Reason, "malformed") {
		t.Errorf("the session ended because: %s", down.Reason)
	}
	peers[0].waitForEnd()
}

func TestOwnPrefixesGoToPeersOfOurs(t *testing.T) {
	six, four := netip.MustParsePrefix("2001:db8:500::/40"), netip.MustParsePrefix("198.51.100.0/24")
	s, peers := startWithOwnPeers(t, Config{Originate: []netip.Prefix{six, four}}, 2)
	// The session's address is an IPv4 one, which cannot be the next hop of IPv6 routes.
	want := func(times int) {
		t.Helper()
		for _, p := range peers {
			p.waitFor("own prefix", func(*bgp.BGPUpdate) bool { return announcements(p.updates) == times })
			p.waitFor("End-of-RIB", isEndOfRIB)
			if got := p.received(); len(got) != 1 || !got[four] {
				t.Errorf("peer was sent %v, want %s alone", got, four)
			}
			p.mu.Lock()
			a := attributesFromGoBGP(p.updates[0].PathAttributes)
			p.mu.Unlock()
			if a.ASPath.String() != fmt.Sprint(ownAS) || !a.NextHop.IsLoopback() {
				t.Errorf("own prefix with %s via %s", a.ASPath, a.NextHop)
			}
		}
	}
	want(1)
	// Routes of one peer do not go to the other.
	peers[0].send(announce6(t, []uint32{64601, 64700}, prefixes6(1, 3)))
	skipTo[Learned](s, nil)
	for _, p := range peers {
		p.send(bgp.NewBGPRouteRefreshMessage(bgp.AFI_IP, 0, bgp.SAFI_UNICAST))
	}
	want(2)
}

func TestEndOfRIBOfAPeerOfOurs(t *testing.T) {
	s, peers := startWithOwnPeers(t, Config{EndOfRIBTime: 500 * time.Millisecond}, 1)
	peers[0].send(bgp.NewEndOfRib(bgp.RF_IPv4_UC))
	if e := expect[EndOfRIB](s); e.Implied || e.Family != IPv4Unicast || e.Peer != "a" {
		t.Errorf("got %+v", e)
	}
	if e := expect[EndOfRIB](s); !e.Implied || e.Family != IPv6Unicast {
		t.Errorf("got %+v", e)
	}
}

func TestPeerWithAnotherASIsRefused(t *testing.T) {
	r := listenAs(t, 64601)
	n := r.neighbor("a", IPv6Unicast)
	n.AS = 64602
	s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{n}})
	conn, err := r.listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := &fakePeer{t: t, conn: conn, changed: make(chan struct{}, 1)}
	if err := p.open(r.at.Addr(), r.as, []bgp.Family{bgp.RF_IPv6_UC}); err == nil {
		t.Error("a peer of another AS was accepted")
	}
	expect[NoSession](s)
	s.quiet(100 * time.Millisecond)
}

func TestBacklogIsBoundedAndInOrder(t *testing.T) {
	b := newBacklog()
	const size = 1000
	messages := maxBacklog/(size+2) + 1 // the last one fills it
	body := make([]byte, size)
	for i := range messages {
		body[0], body[1] = byte(i>>8), byte(i)
		b.add(t.Context(), body)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	b.add(ended, body) // must not wait, and not be taken
	added := make(chan struct{})
	go func() {
		defer close(added)
		b.add(t.Context(), []byte{'l', 'a', 's', 't'})
	}()
	count := 0
	for pending := b.take(); len(pending) > 0; count++ {
		var one []byte
		one, pending, _ = cutLength16(pending)
		if len(one) != size || one[0] != byte(count>>8) || one[1] != byte(count) {
			t.Fatalf("message %d is another one", count)
		}
	}
	if count != messages {
		t.Errorf("%d messages came out, want %d", count, messages)
	}
	<-added
	if last, _, _ := cutLength16(b.take()); string(last) != "last" {
		t.Errorf("the message that waited for room came out as %q", last)
	}
}

func TestOwnSessions(t *testing.T) {
	config := Config{AS: ownAS}
	for _, c := range []struct {
		name     string
		neighbor Neighbor
		best     bool
		want     bool
	}{
		{"reflector", Neighbor{AS: ownAS, Families: []Family{VPNv6}}, false, true},
		{"reflector of best paths", Neighbor{AS: ownAS, Families: []Family{VPNv6, IPv6Unicast}}, true, false},
		{"reflector that connects", Neighbor{AS: ownAS, Families: []Family{VPNv6}, Passive: true}, false, false},
		{"peer", Neighbor{AS: 64601, Families: []Family{IPv6Unicast}}, false, true},
		{"peer whose best paths count", Neighbor{AS: 64601, Families: []Family{IPv6Unicast}}, true, false},
		{"peer that connects", Neighbor{AS: 64601, Families: []Family{IPv6Unicast}, Passive: true}, false, false},
	} {
		config.BestPaths = c.best
		if got := config.ownSession(c.neighbor); got != c.want {
			t.Errorf("%s: the session is ours: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestMalformedUpdatesOfPeers(t *testing.T) {
	hop := attribute(wellKnown, 3, 192, 0, 2, 1)
	plain := func(attributes ...[]byte) []byte { return append(updateBody(attributes...), 8, 10) }
	six := func(hop ...byte) []byte {
		return attribute(optional, reachKind, slices.Concat([]byte{0, 2, 1, byte(len(hop))}, hop, []byte{0, 16, 0x20, 1})...)
	}
	global := netip.MustParseAddr("2001:db8::1").AsSlice()
	for _, c := range []struct {
		name string // with the section of RFC 7606, unless another is named
		body []byte
		want outcome
	}{
		{"IPv4 routes", plain(goodOrigin, goodPath, hop), accepted},
		{"3 d: IPv4 routes without NEXT_HOP", plain(goodOrigin, goodPath), withdrawn},
		{"3 d: IPv4 routes without AS_PATH", plain(goodOrigin, hop), withdrawn},
		{"7.3: NEXT_HOP of 5 bytes", plain(goodOrigin, goodPath, attribute(wellKnown, 3, 192, 0, 2, 1, 0)), withdrawn},
		{"RFC 4271 6.3: NEXT_HOP 0.0.0.0", plain(goodOrigin, goodPath, attribute(wellKnown, 3, 0, 0, 0, 0)), withdrawn},
		{"RFC 4271 6.3: NEXT_HOP of a group", plain(goodOrigin, goodPath, attribute(wellKnown, 3, 224, 0, 0, 1)), withdrawn},
		{"IPv6 routes", updateBody(six(global...), goodOrigin, goodPath), accepted},
		{"IPv6 routes with a link-local next hop, too", updateBody(six(slices.Concat(global, global)...), goodOrigin, goodPath), accepted},
		{"RFC 4760 3: NEXT_HOP does not count for IPv6", updateBody(six(global...), goodOrigin, goodPath, attribute(wellKnown, 3, 0, 0, 0, 0)), accepted},
		{"both families", append(updateBody(six(global...), goodOrigin, goodPath, hop), 8, 10), accepted},
		{"an unspecified next hop", updateBody(six(make([]byte, 16)...), goodOrigin, goodPath), withdrawn},
		{"7.11: a next hop of 4 bytes for IPv6", updateBody(six(192, 0, 2, 1), goodOrigin, goodPath), reset},
		{"RFC 5065 5: a confederation's segment", plain(goodOrigin, attribute(wellKnown, 2, 3, 1, 0, 0, 0, 1), hop), withdrawn},
		{"RFC 7607 2: AS 0", plain(goodOrigin, attribute(wellKnown, 2, 2, 2, 0, 0, 0xfc, 0x59, 0, 0, 0, 0), hop), withdrawn},
		{"7.5: LOCAL_PREF", plain(goodOrigin, goodPath, hop, attribute(wellKnown, 5, 0)), accepted},
		{"7.9: ORIGINATOR_ID", plain(goodOrigin, goodPath, hop, attribute(optional, 9, 1)), accepted},
		{"7.10: CLUSTER_LIST", plain(goodOrigin, goodPath, hop, attribute(optional, 10, 1)), accepted},
		{"VPN routes are left out", updateBody(goodReach, goodOrigin, goodPath), accepted},
		{"5.3: a prefix of 33 bits", append(updateBody(goodOrigin, goodPath, hop), 33, 1, 2, 3, 4, 5), reset},
		{"5.3: a prefix that is cut off", append(updateBody(goodOrigin, goodPath, hop), 24, 10, 1), reset},
		{"5.3: a withdrawn prefix that is cut off", []byte{0, 2, 24, 10, 0, 0}, reset},
		{"withdrawn IPv4 routes", []byte{0, 2, 8, 10, 0, 0}, accepted},
		{"RFC 4724 2: End-of-RIB", []byte{0, 0, 0, 0}, accepted},
	} {
		got, u := outcomeFrom(c.body, fromPeer)
		if got != c.want {
			t.Errorf("%s: %s, want %s; faults %+v", c.name, got, c.want, u.faults)
		}
		for _, a := range u.attributes {
			if _, ok := a.(*bgp.PathAttributeLocalPref); ok {
				t.Errorf("%s: LOCAL_PREF of another AS was taken", c.name)
			}
		}
	}
}

// FuzzParsePeerUpdate looks for panics, and for routes that GoBGP reads otherwise.
func FuzzParsePeerUpdate(f *testing.F) {
	for _, m := range []*bgp.BGPMessage{
		announce6(f, []uint32{64601, 64700}, prefixes6(0, 3)), withdraw6(f, prefixes6(0, 2)...),
		bgp.NewEndOfRib(bgp.RF_IPv4_UC), bgp.NewEndOfRib(bgp.RF_IPv6_UC),
	} {
		b, err := m.Serialize()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[headerLength:])
	}
	f.Add(append(updateBody(goodOrigin, goodPath, attribute(wellKnown, 3, 192, 0, 2, 1)), 8, 10, 25, 198, 51, 100, 128))
	f.Fuzz(func(t *testing.T, body []byte) {
		u, err := parseUpdate(body, fromPeer)
		if err != nil {
			return
		}
		for _, p := range slices.Concat(u.reach, u.plain, u.unreach) {
			if !p.prefix.IsValid() || p.prefix != p.prefix.Masked() || compact(p.prefix).prefix() != p.prefix {
				t.Fatalf("read a prefix that is none: %v", p.prefix)
			}
		}
		theirs := &bgp.BGPUpdate{}
		if theirs.DecodeFromBytes(body) != nil {
			return
		}
		plain := prefixesOf(theirs.NLRI)
		for i := range plain {
			plain[i] = plain[i].Masked()
		}
		if ours := ofFamilies(u.plain, []Family{IPv4Unicast}); !slices.Equal(ours, plain) {
			t.Fatalf("GoBGP reads %v, we %v", plain, ours)
		}
	})
}

// TestWhyThereIsNoSession tells of attempts that fail once as long as they fail alike.
func TestWhyThereIsNoSession(t *testing.T) {
	r := listenAs(t, 64601)
	n := r.neighbor("a", IPv6Unicast)
	n.AS, n.ConnectRetry = 64999, 20*time.Millisecond
	attempts := new(counting)
	s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{n}, Logger: slog.New(attempts)})
	go func() {
		for {
			conn, err := r.listener.Accept()
			if err != nil {
				return
			}
			(&fakePeer{t: t, conn: conn}).open(r.at.Addr(), 64601, []bgp.Family{bgp.RF_IPv6_UC})
			conn.Close()
		}
	}()
	if none := expect[NoSession](s); none.Peer != "a" || !strings.Contains(none.Reason, "64999") || !strings.Contains(none.Reason, "64601") {
		t.Errorf("told %+v", none)
	}
	for deadline := time.Now().Add(patience); attempts.quiet.Load() < 3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no more attempts")
		}
	}
	if warned := attempts.warned.Load(); warned != 1 {
		t.Errorf("%d warnings", warned)
	}
	s.quiet(50 * time.Millisecond)
}

// counting counts what is logged of failed attempts.
type counting struct{ warned, quiet atomic.Int64 }

func (c *counting) Enabled(context.Context, slog.Level) bool { return true }
func (c *counting) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *counting) WithGroup(string) slog.Handler            { return c }

func (c *counting) Handle(_ context.Context, r slog.Record) error {
	switch {
	case r.Message != "no session with neighbour":
	case r.Level >= slog.LevelWarn:
		c.warned.Add(1)
	default:
		c.quiet.Add(1)
	}
	return nil
}

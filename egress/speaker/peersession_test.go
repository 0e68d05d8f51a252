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

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/speaker/wire"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

func TestPeerOfOursComesBack(t *testing.T) {
	r := listenAs(t, 64601)
	s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{r.neighbor("a", IPv6Unicast)}})
	for round := range 2 {
		p := r.accept(nil, bgp.RF_IPv6_UC)
		expect[PeerUp](s)
		p.send(bgptest.Announce6(t, []uint32{64601}, bgptest.Prefixes6(round, 5)))
		if l := expect[Learned](s); show(l.Prefixes) != show(bgptest.Prefixes6(round, 5)) {
			t.Errorf("learned %v in session %d", l.Prefixes, round)
		}
		p.conn.Close()
		if down := expect[PeerDown](s); down.Peer != "a" || down.Reason == "" {
			t.Errorf("the session ended with %+v", down)
		}
	}
}

func TestCausesOfWithdrawalByAPeerOfOurs(t *testing.T) {
	s, peers := startWithOwnPeers(t, Config{}, 1)
	p := bgptest.Prefixes6(1, 2)
	both := bgptest.Announce6(t, []uint32{64601}, p[:1])
	both.Body.(*bgp.BGPUpdate).PathAttributes = append(both.Body.(*bgp.BGPUpdate).PathAttributes,
		bgptest.Withdraw6(t, p...).Body.(*bgp.BGPUpdate).PathAttributes...)
	cases := []struct {
		name    string
		message *bgp.BGPMessage
		left    []netip.Prefix
	}{
		{"own AS in the path", bgptest.Announce6(t, []uint32{64601, ownAS, 64700}, p), nil},
		{"explicit", bgptest.Withdraw6(t, p...), nil},
		{"malformed ORIGIN (RFC 7606 §7.1)", replaceOrigin(bgptest.Announce6(t, []uint32{64601}, p), bgp.NewPathAttributeOrigin(7)), nil},
		{"withdrawn and announced in one (RFC 4271 §4.3)", both, p[:1]},
	}
	marker := bgptest.Prefixes6(900, 1)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			peers[0].send(bgptest.Announce6(t, []uint32{64601, 64700}, p))
			peers[0].send(c.message)
			peers[0].send(bgptest.Withdraw6(t, marker...))
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

func TestUnreadableRoutesEndThePeersSession(t *testing.T) {
	s, peers := startWithOwnPeers(t, Config{}, 1)
	peers[0].send(bgptest.Announce6(t, []uint32{64601}, bgptest.Prefixes6(1, 1)))
	expect[Learned](s)
	// A prefix of 200 bits.
	if _, err := peers[0].conn.Write(bgptest.UpdateMessage(bgptest.Attribute(bgptest.Optional, bgptest.UnreachKind, 0, 2, 1, 200))); err != nil {
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
			a := wire.AttributesFromGoBGP(p.updates[0].PathAttributes)
			p.mu.Unlock()
			if a.ASPath.String() != fmt.Sprint(ownAS) || !a.NextHop.IsLoopback() {
				t.Errorf("own prefix with %s via %s", a.ASPath, a.NextHop)
			}
		}
	}
	want(1)
	// Routes of one peer do not go to the other.
	peers[0].send(bgptest.Announce6(t, []uint32{64601, 64700}, bgptest.Prefixes6(1, 3)))
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

// Attempts that fail for the same reason are reported once.
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
		t.Errorf("the attempt failed with %+v", none)
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

// counting counts the log lines of failed attempts.
type counting struct{ warned, quiet atomic.Int64 }

func (c *counting) Enabled(context.Context, slog.Level) bool { return true }

func (c *counting) WithAttrs([]slog.Attr) slog.Handler { return c }

func (c *counting) WithGroup(string) slog.Handler { return c }

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

package speaker

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/speaker/session"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// The reader of events is stuck here, so that nothing of GoBGP's own reports
// gets through: only the log line can have been the source.
func TestPeerDownIsAheadOfWithdrawals(t *testing.T) {
	for kind, start := range peerStarts {
		t.Run(kind, func(t *testing.T) { testPeerDownIsAhead(t, start) })
	}
}

func testPeerDownIsAhead(t *testing.T, start func(*testing.T, Config, int) (*testSpeaker, []*fakePeer)) {
	urgent := make(chan PeerDown, 1)
	s, peers := start(t, Config{OnPeerDown: func(d PeerDown) { urgent <- d }}, 1)
	for first := 0; first < 200*100; first += 100 {
		peers[0].send(bgptest.Announce6(t, []uint32{64601, uint32(first + 1)}, bgptest.Prefixes6(first, 100)))
	}
	first := expect[Learned](s)
	for len(s.Events()) < cap(s.Events()) {
		time.Sleep(time.Millisecond)
	}
	peers[0].conn.Close()
	select {
	case down := <-urgent:
		if down.Peer != "a" || !strings.Contains(down.Reason, "read") && !strings.Contains(down.Reason, "closed") {
			t.Errorf("the session ended with %+v", down)
		}
	case <-time.After(patience):
		t.Fatal("OnPeerDown was not called while events were waiting")
	}

	// Waiting events are dropped: the events end with PeerDown long before the 200 messages
	// were read.
	learned := len(first.Prefixes)
	for {
		e := s.next()
		if l, ok := e.(Learned); ok {
			learned += len(l.Prefixes)
			continue
		}
		if down, ok := e.(PeerDown); !ok || down.Peer != "a" {
			t.Fatalf("got %#v, want PeerDown", e)
		}
		break
	}
	if limit := 100 * (cap(s.Events()) + 4); learned > limit {
		t.Errorf("%d routes of the dead session were reported before its end, want at most %d", learned, limit)
	}
	expect[PeerDownCalled](s)
	s.quiet(300 * time.Millisecond)
}

func TestPeerComesBack(t *testing.T) {
	s, peers := startWithPeers(t, Config{}, 1)
	local := peers[0].conn.LocalAddr().String()
	peers[0].send(bgptest.Announce6(t, []uint32{64601}, bgptest.Prefixes6(1, 5)))
	expect[Learned](s)
	peers[0].conn.Close()
	expect[PeerDown](s)
	again := dialPeer(t, netip.MustParseAddrPort(local).Addr(), s.at, 64601, bgp.RF_IPv6_UC)
	expect[PeerUp](s)
	again.send(bgptest.Announce6(t, []uint32{64601}, bgptest.Prefixes6(1, 2)))
	if l := expect[Learned](s); show(l.Prefixes) != show(bgptest.Prefixes6(1, 2)) {
		t.Errorf("learned %v after the session came back", l.Prefixes)
	}
}

func TestNeighborAddedAndRemoved(t *testing.T) {
	us := loopback()
	s := startSpeaker(t, us, Config{})
	transit := startRouter(t, loopback(), 64601)
	transit.accept(us, ownAS, false, IPv6Unicast)
	transit.announce(Attributes{}, bgptest.Prefixes6(1, 1)...)
	n := transit.neighbor("late", 64601, us, IPv6Unicast)
	for range 2 {
		if err := s.AddNeighbor(n); err != nil {
			t.Fatal(err)
		}
		if err := s.AddNeighbor(n); err == nil {
			t.Error("the same neighbour was added twice")
		}
		expect[PeerUp](s)
		expect[Learned](s)
		if err := s.RemoveNeighbor("late"); err != nil {
			t.Fatal(err)
		}
		if down := skipTo[PeerDown](s, nil); down.Peer != "late" {
			t.Errorf("down is %+v", down)
		}
	}
	if err := s.RemoveNeighbor("late"); err == nil {
		t.Error("a neighbour that is not there was removed")
	}
}

// A neighbour with other settings is removed and added at once. Its router gets the time to
// forget the former session.
func TestSessionsAreReopenedAfterAPause(t *testing.T) {
	for _, test := range []struct {
		name    string
		as      uint32
		family  Family
		offered bgp.Family
	}{
		{"reflector", ownAS, VPNv6, bgp.RF_IPv6_VPN},
		{"egress peer", 64601, IPv6Unicast, bgp.RF_IPv6_UC},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := listenAs(t, test.as)
			n := r.neighbor("a", test.family)
			s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{n}})
			r.accept(nil, test.offered)
			expect[PeerUp](s)
			before := time.Now()
			if err := s.RemoveNeighbor("a"); err != nil {
				t.Fatal(err)
			}
			n.HoldTime = 30 * time.Second
			if err := s.AddNeighbor(n); err != nil {
				t.Fatal(err)
			}
			r.accept(nil, test.offered)
			if waited := time.Since(before); waited < reopenPause {
				t.Errorf("the next session was opened after %v, want %v at least", waited, reopenPause)
			}
			skipTo[PeerUp](s, nil)
		})
	}
}

func TestEventsEndWithTheSpeaker(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	us := loopback()
	s, err := Start(ctx, Config{AS: ownAS, RouterID: us, Logger: testLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for range s.Events() {
	}
	s.Close()
}

// An agent that restarts leaves its kernel state in place. If it were notified of lost
// peers, it would drop their packets on its way out.
func TestClosingIsNoLossOfPeers(t *testing.T) {
	for kind, start := range peerStarts {
		for name, end := range map[string]func(*testSpeaker){
			"Close":           func(s *testSpeaker) { s.Close() },
			"CloseForRestart": func(s *testSpeaker) { s.CloseForRestart() },
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				s, peers := start(t, Config{OnPeerDown: func(d PeerDown) { t.Errorf("OnPeerDown was called with %+v", d) }}, 2)
				end(s)
				for e := range s.Events() {
					t.Errorf("closing reported %#v", e)
				}
				for _, p := range peers {
					p.waitForEnd()
				}
			})
		}
	}
}

// stateReport is the report of GoBGP's watcher on a session.
func stateReport(address netip.Addr, state bgp.FSMState) report {
	return report{peer: &apiutil.WatchEventMessage_PeerEvent{
		Type: apiutil.PEER_EVENT_STATE,
		Peer: apiutil.Peer{State: apiutil.PeerState{NeighborAddress: address, SessionState: state}},
	}}
}

// The log line and the watcher's reports come from different goroutines, so every order
// must give the same truth. u and d are the watcher's up and down, h is the line, r a
// route.
func TestLineAndReportsInAnyOrder(t *testing.T) {
	cases := []struct{ name, input, want string }{
		{"line first", "u r h d", "up learned down"},
		{"report first", "u r d h", "up learned down"},
		{"no line", "u r d u r d", "up learned down up learned down"},
		{"route of a dead session", "u h r d", "up down"},
		{"session died before its up was reported", "h u r d", ""},
		{"two sessions died behind the reports", "u h h r d u r d u r", "up down up learned"},
		{"line of the last session comes in the next", "u d u h r", "up down up learned"},
		{"states on the way up", "d d u h d d u h d", "up down up down"},
		{"belated line, then the next session ends", "u d u h h", "up down up down"},
	}
	address := netip.MustParseAddr("192.0.2.1")
	nlri, err := bgp.NewIPAddrPrefix(netip.MustParsePrefix("2001:db8::/32"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := newDispatcher(Config{AS: ownAS, EndOfRIBTime: time.Hour})
			d.sessions[address] = &peerState{neighbor: Neighbor{Name: "p", Address: address, AS: 64601}}
			for _, step := range strings.Fields(c.input) {
				switch step {
				case "u":
					d.report(t.Context(), stateReport(address, bgp.BGP_FSM_ESTABLISHED))
				case "d":
					d.report(t.Context(), stateReport(address, bgp.BGP_FSM_IDLE))
				case "h":
					d.sessionEnded(t.Context(), address, session.End{Cause: EndConnection, Reason: "line"})
				case "r":
					d.report(t.Context(), report{paths: []*apiutil.Path{{PeerAddress: address, Nlri: nlri}}})
				}
			}
			if got := names(d.events); got != c.want {
				t.Errorf("events are %q, want %q", got, c.want)
			}
		})
	}
}

func names(events <-chan Event) string {
	var list []string
	for len(events) > 0 {
		switch (<-events).(type) {
		case PeerUp:
			list = append(list, "up")
		case PeerDown:
			list = append(list, "down")
		case Learned:
			list = append(list, "learned")
		default:
			list = append(list, "other")
		}
	}
	return strings.Join(list, " ")
}

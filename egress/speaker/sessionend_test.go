package speaker

import (
	"net"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/speaker/session"
	"hikyaku/egress/speaker/wire"
)

// How the far end has a session end, and what counts, whoever keeps our end.
var sessionEnds = []struct {
	name string
	do   func(*testing.T, *fakePeer)
	want EndCause
}{
	{"closed connection", func(_ *testing.T, p *fakePeer) { p.conn.Close() }, EndConnection},
	{"TCP reset", func(t *testing.T, p *fakePeer) {
		if err := p.conn.(*net.TCPConn).SetLinger(0); err != nil {
			t.Fatal(err)
		}
		p.conn.Close()
	}, EndConnection},
	{"NOTIFICATION of a cease", func(_ *testing.T, p *fakePeer) {
		p.send(bgp.NewBGPNotificationMessage(bgp.BGP_ERROR_CEASE, bgp.BGP_ERROR_SUB_PEER_DECONFIGURED, nil))
	}, EndNotification},
	{"NOTIFICATION of an error", func(_ *testing.T, p *fakePeer) {
		p.send(bgp.NewBGPNotificationMessage(bgp.BGP_ERROR_UPDATE_MESSAGE_ERROR, bgp.BGP_ERROR_SUB_MALFORMED_ATTRIBUTE_LIST, nil))
	}, EndNotification},
	{"malformed UPDATE", func(t *testing.T, p *fakePeer) {
		sendRaw(t, p, bgptest.UpdateMessage(bgptest.Attribute(bgptest.Optional, bgptest.UnreachKind, 0, 2, 1, 200))) // a prefix of 200 bits
	}, EndUpdateError},
	{"malformed header", func(t *testing.T, p *fakePeer) { sendRaw(t, p, make([]byte, wire.HeaderLength)) }, EndMessageError},
}

func sendRaw(t *testing.T, p *fakePeer, b []byte) {
	t.Helper()
	if _, err := p.conn.Write(b); err != nil {
		t.Fatal(err)
	}
}

func TestCauseOfAnEnd(t *testing.T) {
	for kind, start := range peerStarts {
		for _, c := range sessionEnds {
			t.Run(kind+" "+c.name, func(t *testing.T) {
				called := make(chan PeerDown, 1)
				s, peers := start(t, Config{OnPeerDown: func(d PeerDown) { called <- d }}, 1)
				c.do(t, peers[0])
				down := skipTo[PeerDown](s, nil)
				if down.Cause != c.want || down.Reason == "" {
					t.Errorf("the session ended with %+v, want %s", down, c.want)
				}
				if first := <-called; first != down {
					t.Errorf("OnPeerDown was called with %+v, the event is %+v", first, down)
				}
			})
		}
	}
}

// With graceful restart GoBGP's reason does not say that nothing came.
func TestHoldTimerOfGoBGPsSession(t *testing.T) {
	for name, capabilities := range map[string][]bgp.ParameterCapabilityInterface{
		"plain": nil,
		"graceful restart": {bgp.NewCapGracefulRestart(false, false, 60,
			[]*bgp.CapGracefulRestartTuple{bgp.NewCapGracefulRestartTuple(bgp.RF_IPv6_UC, true)})},
	} {
		t.Run(name, func(t *testing.T) {
			local := loopback()
			s := startSpeaker(t, loopback(), Config{Neighbors: []Neighbor{{
				Name: "a", Address: local, AS: 64601, Families: []Family{IPv6Unicast}, Passive: true, MultihopTTL: 2,
				HoldTime: 3 * time.Second,
			}}})
			dialSilent(t, local, s.at, 64601, capabilities, bgp.RF_IPv6_UC)
			if down := skipTo[PeerDown](s, nil); down.Cause != EndHoldTimer {
				t.Errorf("the session ended with %+v", down)
			}
		})
	}
}

func TestCauseOfARemovedNeighbor(t *testing.T) {
	for kind, start := range peerStarts {
		t.Run(kind, func(t *testing.T) {
			s, _ := start(t, Config{}, 1)
			if err := s.RemoveNeighbor("a"); err != nil {
				t.Fatal(err)
			}
			if down := skipTo[PeerDown](s, nil); down.Cause != EndLocal || down.Reason == "" {
				t.Errorf("the session ended with %+v", down)
			}
		})
	}
}

func TestEndsByGoBGP(t *testing.T) {
	for _, c := range []struct {
		name string
		got  session.End
		want EndCause
	}{
		{"GoBGP's write that failed", endingByGoBGP("write-failed"), EndConnection},
		{"GoBGP's hold timer", endingByGoBGP("notification-sent " + bgp.NewNotificationErrorCode(4, 0).String()), EndHoldTimer},
		{"GoBGP's limit of prefixes", endingByGoBGP("notification-sent " + bgp.NewNotificationErrorCode(6, 1).String()), EndLocal},
		{"GoBGP's hard reset", endingByGoBGP("hard-reset"), EndNotification},
	} {
		if c.got.Cause != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got.Cause, c.want)
		}
	}
}

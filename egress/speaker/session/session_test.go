package session

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/speaker/wire"
)

// fake is the outbox and the handler of a session, and records its events.
type fake struct {
	ready chan struct{}
	full  chan func(int)
	up    chan wire.Terms
	ended chan End
	begun atomic.Bool
	// early: the handler was notified of a session whose outbox had not begun.
	early atomic.Bool
}

func newFake() *fake {
	return &fake{
		ready: make(chan struct{}, 1), full: make(chan func(int), 1), up: make(chan wire.Terms, 1), ended: make(chan End, 1),
	}
}

func (f *fake) Begin(_ wire.Terms, full func(int))   { f.begun.Store(true); f.full <- full }
func (f *fake) End()                                 { f.begun.Store(false) }
func (f *fake) Refresh()                             {}
func (f *fake) Ready() <-chan struct{}               { return f.ready }
func (f *fake) Next() ([]byte, bool)                 { return nil, false }
func (f *fake) Update(context.Context, *wire.Update) {}
func (f *fake) Failed(context.Context, string)       {}
func (f *fake) Ended(e End)                          { f.ended <- e }

func (f *fake) Established(_ context.Context, t wire.Terms) bool {
	f.early.Store(!f.begun.Load())
	f.up <- t
	return true
}

// start runs a session with a route reflector that opens it and then reads all.
func start(t *testing.T) (f *fake, cancel context.CancelCauseFunc, notified <-chan *bgp.BGPNotification) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	f = newFake()
	s := New(Config{
		AS: bgptest.OwnAS, RouterID: netip.MustParseAddr("192.0.2.1"),
		Neighbor: Neighbor{
			Name: "rr", Address: at.Addr(), Port: at.Port(), AS: bgptest.OwnAS, Families: []wire.Family{wire.VPNv6},
		}.WithDefaults(),
		Restarting: func() bool { return false }, Outbox: f, Handler: f, Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	t.Cleanup(func() { cancel(nil); l.Close(); <-done })
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return f, cancel, reflect(t, conn)
}

// reflect plays a route reflector on a connection. It sends the NOTIFICATION that ends the
// session, nil for none.
func reflect(t *testing.T, conn net.Conn) <-chan *bgp.BGPNotification {
	t.Helper()
	capabilities := []bgp.ParameterCapabilityInterface{bgp.NewCapFourOctetASNumber(bgptest.OwnAS), bgp.NewCapMultiProtocol(bgp.RF_IPv6_VPN)}
	open, err := bgp.NewBGPOpenMessage(bgptest.OwnAS, 90, netip.MustParseAddr("192.0.2.9"),
		[]bgp.OptionParameterInterface{bgp.NewOptionParameterCapability(capabilities)})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*bgp.BGPMessage{open, bgp.NewBGPKeepAliveMessage()} {
		b, err := m.Serialize()
		if err == nil {
			_, err = conn.Write(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	notified := make(chan *bgp.BGPNotification, 1)
	go func() {
		all, _ := io.ReadAll(conn)
		var last *bgp.BGPNotification
		for len(all) >= wire.HeaderLength {
			n := int(all[16])<<8 | int(all[17])
			if m, err := bgp.ParseBGPMessage(all[:n]); err == nil {
				last, _ = m.Body.(*bgp.BGPNotification)
			}
			all = all[n:]
		}
		notified <- last
	}()
	return notified
}

// Else a request that follows the event at once would find no session to ask on.
func TestOutboxBeginsBeforeTheSessionIsReported(t *testing.T) {
	f, _, _ := start(t)
	receive(t, "session", f.up)
	if f.early.Load() {
		t.Error("the handler was notified before the outbox had begun")
	}
}

func receive[T any](t *testing.T, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(time.Minute):
		t.Fatalf("no %s", what)
	}
	return value
}

func TestReflectorThatDoesNotReadIsLeft(t *testing.T) {
	f, _, _ := start(t)
	receive(t, "session", f.up)
	receive(t, "outbox", f.full)(7)
	if end := receive(t, "end", f.ended); end != (End{EndLocal, "the reflector does not read: 7 routes wait for it"}) {
		t.Errorf("the session ended with %+v", end)
	}
}

// A session that we end is not reported. The neighbour gets a NOTIFICATION, but for a
// restart.
func TestEndByOurselves(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause error
		want  bool
	}{{"shutdown", nil, true}, {"restart", ErrRestart, false}} {
		f, cancel, notified := start(t)
		terms := receive(t, "session", f.up)
		if terms.RouterID != netip.MustParseAddr("192.0.2.9") || terms.HoldTime != 90*time.Second || len(terms.Families) != 1 {
			t.Errorf("%s: the session is up with %+v", c.name, terms)
		}
		receive(t, "outbox", f.full)
		cancel(c.cause)
		n := receive(t, "end of the connection", notified)
		if got := n != nil && n.ErrorCode == bgp.BGP_ERROR_CEASE; got != c.want {
			t.Errorf("%s: the neighbour got NOTIFICATION %+v", c.name, n)
		}
		if len(f.ended) > 0 {
			t.Errorf("%s: the end was reported: %+v", c.name, <-f.ended)
		}
	}
}

// A neighbour that sends too many prefixes ends by us, and not by its silence, however soon the
// connection's deadline passes.
func TestEndForTooManyPrefixes(t *testing.T) {
	for range 200 {
		f, cancel, _ := start(t)
		receive(t, "session", f.up)
		receive(t, "outbox", f.full)
		cancel(TooManyPrefixes("too many"))
		if end := receive(t, "end", f.ended); end.Cause != EndLocal || end.Reason == "" {
			t.Fatalf("the session ended by %+v", end)
		}
	}
}

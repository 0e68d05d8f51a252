package speaker

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// fakeReflector listens for sessions of ours, as a fakePeer at each far end. With
// another AS it is an egress peer.
type fakeReflector struct {
	t        testing.TB
	as       uint32
	listener net.Listener
	at       netip.AddrPort
	// capabilities are offered besides multiprotocol and AS numbers of four bytes.
	capabilities []bgp.ParameterCapabilityInterface
}

func listenAsReflector(t testing.TB) *fakeReflector {
	t.Helper()
	return listenAs(t, ownAS)
}

func listenAs(t testing.TB, as uint32) *fakeReflector {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(loopback(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &fakeReflector{t: t, as: as, listener: l, at: l.Addr().(*net.TCPAddr).AddrPort()}
}

func (r *fakeReflector) neighbor(name string, families ...Family) Neighbor {
	return Neighbor{
		Name: name, Address: r.at.Addr(), Port: r.at.Port(), AS: r.as, Families: families,
		ConnectRetry: time.Second,
	}
}

// accept takes the next session; observe, when set, gets the received messages.
func (r *fakeReflector) accept(observe func(*bgp.BGPUpdate), families ...bgp.Family) *fakePeer {
	r.t.Helper()
	p := r.acceptUnread(0, families...)
	p.observe = observe
	go p.receive()
	return p
}

// acceptUnread takes the next session and reads nothing of it beyond OPEN. buffer is that of its socket in bytes, 0 the kernel's choice.
func (r *fakeReflector) acceptUnread(buffer int, families ...bgp.Family) *fakePeer {
	r.t.Helper()
	conn, err := r.listener.Accept()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	if buffer > 0 {
		if err := conn.(*net.TCPConn).SetReadBuffer(buffer); err != nil {
			r.t.Fatal(err)
		}
	}
	p := &fakePeer{t: r.t, conn: conn, capabilities: r.capabilities, changed: make(chan struct{}, 1)}
	if err := p.open(r.at.Addr(), r.as, families); err != nil {
		r.t.Fatalf("reflector %s could not establish a session: %v", r.at, err)
	}
	go p.keepAlive()
	return p
}

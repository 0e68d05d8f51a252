package speaker

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"hikyaku/egress/speaker/bgptest"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// patience is how long a test waits for something to happen. It is generous:
// the machine may be busy, and GoBGP waits seconds between attempts to connect.
const patience = 60 * time.Second

// fakePeer is the far end of a session, written out by hand. It sends messages that no
// well-behaved daemon would, and holds 200,000 routes in no memory.
type fakePeer struct {
	t    testing.TB
	conn net.Conn

	// observe, when set, gets the updates instead of the list.
	observe func(*bgp.BGPUpdate)
	// capabilities are offered besides multiprotocol and AS numbers of four bytes.
	capabilities []bgp.ParameterCapabilityInterface
	// opened is the speaker's OPEN.
	opened *bgp.BGPOpen

	mu      sync.Mutex
	updates []*bgp.BGPUpdate
	closed  bool
	// notification is the NOTIFICATION that came, if any.
	notification *bgp.BGPNotification
	changed      chan struct{} // has a value when updates or closed changed
}

// dialPeer connects from local to a passive speaker until it is accepted.
func dialPeer(t testing.TB, local netip.Addr, speaker netip.AddrPort, as uint32, families ...bgp.Family) *fakePeer {
	t.Helper()
	return dialObserver(t, local, speaker, as, nil, families...)
}

// dialObserver is dialPeer for a peer that hands on received messages.
func dialObserver(t testing.TB, local netip.Addr, speaker netip.AddrPort, as uint32, observe func(*bgp.BGPUpdate), families ...bgp.Family) *fakePeer {
	t.Helper()
	p := dialSilent(t, local, speaker, as, nil, families...)
	p.observe = observe
	go p.receive()
	go p.keepAlive()
	return p
}

// dialSilent is dialPeer for a peer that says and reads nothing beyond OPEN, with further
// capabilities.
func dialSilent(t testing.TB, local netip.Addr, speaker netip.AddrPort, as uint32, more []bgp.ParameterCapabilityInterface, families ...bgp.Family) *fakePeer {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))}
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		conn, err := dialer.Dial("tcp", speaker.String())
		if err != nil {
			last = err
			continue
		}
		p := &fakePeer{t: t, conn: conn, capabilities: more, changed: make(chan struct{}, 1)}
		if last = p.open(local, as, families); last == nil {
			t.Cleanup(func() { conn.Close() })
			return p
		}
		conn.Close()
	}
	t.Fatalf("peer %s could not establish a session with %s: %v", local, speaker, last)
	return nil
}

func (p *fakePeer) open(id netip.Addr, as uint32, families []bgp.Family) error {
	capabilities := append([]bgp.ParameterCapabilityInterface{bgp.NewCapFourOctetASNumber(as)}, p.capabilities...)
	for _, f := range families {
		capabilities = append(capabilities, bgp.NewCapMultiProtocol(f))
	}
	open, err := bgp.NewBGPOpenMessage(uint16(as), 90, id, []bgp.OptionParameterInterface{bgp.NewOptionParameterCapability(capabilities)})
	if err != nil {
		return err
	}
	if err := errors.Join(p.write(open), p.write(bgp.NewBGPKeepAliveMessage())); err != nil {
		return err
	}
	if err := p.conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	for _, want := range []uint8{bgp.BGP_MSG_OPEN, bgp.BGP_MSG_KEEPALIVE} {
		m, err := p.read()
		if err != nil {
			return err
		}
		if m.Header.Type != want {
			p.notification, _ = m.Body.(*bgp.BGPNotification)
			return errors.New("session refused")
		}
		if open, ok := m.Body.(*bgp.BGPOpen); ok {
			p.opened = open
		}
	}
	return p.conn.SetReadDeadline(time.Time{})
}

func (p *fakePeer) read() (*bgp.BGPMessage, error) {
	header := make([]byte, bgp.BGP_HEADER_LENGTH)
	if _, err := io.ReadFull(p.conn, header); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint16(header[16:18]))
	copy(message, header)
	if _, err := io.ReadFull(p.conn, message[bgp.BGP_HEADER_LENGTH:]); err != nil {
		return nil, err
	}
	return bgp.ParseBGPMessage(message)
}

// nextUpdate reads up to the next UPDATE, in place of receive.
func (p *fakePeer) nextUpdate() *bgp.BGPUpdate {
	p.t.Helper()
	if err := p.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	for {
		m, err := p.read()
		if err != nil {
			p.t.Fatalf("peer waiting for an UPDATE: %v", err)
		}
		if u, ok := m.Body.(*bgp.BGPUpdate); ok {
			return u
		}
	}
}

func (p *fakePeer) receive() {
	for {
		m, err := p.read()
		if err == nil && p.observe != nil {
			if u, ok := m.Body.(*bgp.BGPUpdate); ok {
				p.observe(u)
			}
			continue
		}
		p.mu.Lock()
		if err != nil {
			p.closed = true
		} else if u, ok := m.Body.(*bgp.BGPUpdate); ok {
			p.updates = append(p.updates, u)
		} else if n, ok := m.Body.(*bgp.BGPNotification); ok {
			p.notification = n
		}
		p.mu.Unlock()
		select {
		case p.changed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (p *fakePeer) keepAlive() {
	for p.write(bgp.NewBGPKeepAliveMessage()) == nil {
		time.Sleep(time.Second)
	}
}

func (p *fakePeer) write(m *bgp.BGPMessage) error {
	b, err := m.Serialize()
	if err != nil {
		return err
	}
	_, err = p.conn.Write(b)
	return err
}

func (p *fakePeer) send(m *bgp.BGPMessage) {
	p.t.Helper()
	if err := p.write(m); err != nil {
		p.t.Fatalf("peer sending %d: %v", m.Header.Type, err)
	}
}

// waitFor returns when an update received satisfies want, or the test fails.
func (p *fakePeer) waitFor(what string, want func(*bgp.BGPUpdate) bool) {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		for _, u := range p.updates {
			if want(u) {
				p.mu.Unlock()
				return
			}
		}
		p.mu.Unlock()
		select {
		case <-p.changed:
		case <-deadline:
			p.t.Fatalf("peer did not receive %s", what)
		}
	}
}

// waitForEnd returns when the far end has closed the session.
func (p *fakePeer) waitForEnd() {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		closed := p.closed
		p.mu.Unlock()
		if closed {
			return
		}
		select {
		case <-p.changed:
		case <-deadline:
			p.t.Fatal("session was not ended")
		}
	}
}

// received returns the prefixes announced to the peer so far.
func (p *fakePeer) received() map[netip.Prefix]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	got := make(map[netip.Prefix]bool)
	for _, u := range p.updates {
		for _, prefix := range bgptest.Announced(u) {
			got[prefix] = true
		}
	}
	return got
}

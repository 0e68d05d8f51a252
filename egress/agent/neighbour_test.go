package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	wire "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// neighbour is the far end of a session that the agent opens. It is an egress peer, which
// sends the messages of a test, or a reflector, which records those that it receives.
type neighbour struct {
	t        *testing.T
	as       uint32
	family   wire.Family
	listener net.Listener
	conn     net.Conn

	mu       sync.Mutex
	received []string // "+RD PREFIX" and "-RD PREFIX", as they came
	// messages counts UPDATEs.
	messages int
	news     chan struct{}
}

// listenAs makes a neighbour at an address of 127.0.0.0/8, which no other has.
func listenAs(t *testing.T, address string, as uint32, family wire.Family) *neighbour {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &neighbour{t: t, as: as, family: family, listener: l, news: make(chan struct{}, 1)}
}

func (n *neighbour) at() netip.AddrPort { return n.listener.Addr().(*net.TCPAddr).AddrPort() }

// accept takes the next session.
func (n *neighbour) accept() {
	n.t.Helper()
	conn, err := n.listener.Accept()
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	n.conn = conn
	open, err := wire.NewBGPOpenMessage(uint16(n.as), 90, n.at().Addr(), []wire.OptionParameterInterface{
		wire.NewOptionParameterCapability([]wire.ParameterCapabilityInterface{
			wire.NewCapMultiProtocol(n.family), wire.NewCapFourOctetASNumber(n.as),
		}),
	})
	if err == nil {
		err = errors.Join(send(conn, open), send(conn, wire.NewBGPKeepAliveMessage()))
	}
	if err != nil {
		n.t.Fatal(err)
	}
	go n.read(conn)
}

// read notes received messages until the session ends.
func (n *neighbour) read(conn net.Conn) {
	header := make([]byte, wire.BGP_HEADER_LENGTH)
	for {
		if _, err := io.ReadFull(conn, header); err != nil {
			return
		}
		body := make([]byte, int(binary.BigEndian.Uint16(header[16:]))-len(header))
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		if header[18] != wire.BGP_MSG_UPDATE {
			continue
		}
		update := &wire.BGPUpdate{}
		if err := update.DecodeFromBytes(body); err != nil {
			n.t.Errorf("reading from the agent: %v", err)
		}
		n.note(update)
	}
}

func (n *neighbour) note(update *wire.BGPUpdate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.messages++
	for _, attribute := range update.PathAttributes {
		sign, list := "", []wire.PathNLRI(nil)
		switch a := attribute.(type) {
		case *wire.PathAttributeMpReachNLRI:
			sign, list = "+", a.Value
		case *wire.PathAttributeMpUnreachNLRI:
			sign, list = "-", a.Value
		}
		for _, route := range list {
			if vpn, ok := route.NLRI.(*wire.LabeledVPNIPAddrPrefix); ok {
				n.received = append(n.received, fmt.Sprintf("%s%s %s", sign, vpn.RD, vpn.Prefix))
			}
		}
	}
	select {
	case n.news <- struct{}{}:
	default:
	}
}

// await returns the entries received from a place on, when the last is one that done
// accepts.
func (n *neighbour) await(from int, what string, done func(word string) bool) []string {
	n.t.Helper()
	deadline := time.After(time.Minute)
	for {
		n.mu.Lock()
		received := slices.Clone(n.received[from:])
		n.mu.Unlock()
		if slices.ContainsFunc(received, done) {
			return received
		}
		select {
		case <-n.news:
		case <-deadline:
			n.t.Fatalf("the reflector does not receive %s, but %d other things, at the end %q", what, len(received), received[max(0, len(received)-20):])
		}
	}
}

// place is where await begins for entries that come from now on.
func (n *neighbour) place() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.received)
}

// say sends UPDATEs.
func (n *neighbour) say(bodies ...[]byte) {
	n.t.Helper()
	var all []byte
	for _, body := range bodies {
		all = append(all, slices.Repeat([]byte{0xff}, 16)...)
		all = binary.BigEndian.AppendUint16(all, uint16(wire.BGP_HEADER_LENGTH+len(body)))
		all = append(append(all, wire.BGP_MSG_UPDATE), body...)
	}
	if _, err := n.conn.Write(all); err != nil {
		n.t.Fatal(err)
	}
}

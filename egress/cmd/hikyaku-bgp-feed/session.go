package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// session is a BGP session that is up.
type session struct {
	conn net.Conn
	// ready is closed when the neighbour has sent its End-of-RIB.
	ready chan struct{}
	once  sync.Once

	writing sync.Mutex
}

// handshakeTime is how long the neighbour may take for its OPEN.
const handshakeTime = 10 * time.Second

func establish(conn net.Conn, s settings) (*session, error) {
	open, err := openMessage(s)
	if err != nil {
		return nil, err
	}
	session := &session{conn: conn, ready: make(chan struct{})}
	if err := errors.Join(session.send(open), session.send(bgp.NewBGPKeepAliveMessage())); err != nil {
		return nil, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(handshakeTime)); err != nil {
		return nil, err
	}
	for _, want := range []uint8{bgp.BGP_MSG_OPEN, bgp.BGP_MSG_KEEPALIVE} {
		kind, _, err := session.read()
		if err != nil {
			return nil, err
		}
		if kind != want {
			return nil, fmt.Errorf("the neighbour sent message type %d, not %d", kind, want)
		}
	}
	return session, conn.SetReadDeadline(time.Time{})
}

func openMessage(s settings) (*bgp.BGPMessage, error) {
	// Without the capability of graceful restart nobody sends an End-of-RIB.
	capabilities := []bgp.ParameterCapabilityInterface{
		bgp.NewCapMultiProtocol(bgp.RF_IPv6_UC), bgp.NewCapFourOctetASNumber(s.as),
		bgp.NewCapGracefulRestart(false, false, 0, nil),
	}
	as := uint16(bgp.AS_TRANS)
	if s.as <= 0xffff {
		as = uint16(s.as)
	}
	return bgp.NewBGPOpenMessage(as, uint16(holdTime/time.Second), s.id,
		[]bgp.OptionParameterInterface{bgp.NewOptionParameterCapability(capabilities)})
}

// send may be called by several at once.
func (s *session) send(m *bgp.BGPMessage) error {
	b, err := m.Serialize()
	if err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err = s.conn.Write(b)
	return err
}

func (s *session) read() (kind uint8, body []byte, err error) {
	var header [bgp.BGP_HEADER_LENGTH]byte
	if _, err := io.ReadFull(s.conn, header[:]); err != nil {
		return 0, nil, err
	}
	length := int(binary.BigEndian.Uint16(header[16:]))
	if length < bgp.BGP_HEADER_LENGTH {
		return 0, nil, fmt.Errorf("a message of %d bytes is shorter than its header", length)
	}
	body = make([]byte, length-bgp.BGP_HEADER_LENGTH)
	_, err = io.ReadFull(s.conn, body)
	return header[18], body, err
}

// receive reads, and sends keepalives, until the session ends.
func (s *session) receive(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go s.keepAlive(ctx)
	for {
		kind, body, err := s.read()
		if err != nil || kind == bgp.BGP_MSG_NOTIFICATION {
			return
		}
		if kind == bgp.BGP_MSG_UPDATE && isEndOfRIB(body) {
			s.once.Do(func() { close(s.ready) })
		}
	}
}

func (s *session) keepAlive(ctx context.Context) {
	tick := time.NewTicker(holdTime / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.send(bgp.NewBGPKeepAliveMessage()) != nil {
				return
			}
		}
	}
}

// isEndOfRIB recognizes End-of-RIB (RFC 4724 §2): for IPv4 an empty UPDATE, for other
// families one with an MP_UNREACH_NLRI of the family alone.
func isEndOfRIB(body []byte) bool {
	empty := len(body) == 4 && binary.BigEndian.Uint32(body) == 0
	return empty || len(body) == 10 && body[5] == byte(bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI) ||
		len(body) == 11 && body[5] == byte(bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI)
}

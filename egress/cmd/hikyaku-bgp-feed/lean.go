package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// holdTime is the offered hold time; a third of it lies between keepalives.
const holdTime = 90 * time.Second

// lean is a speaker that writes each message once and forgets it.
type lean struct {
	settings
	listener net.Listener

	mu      sync.Mutex
	session *session
	closed  bool          // the neighbour is turned away
	changed chan struct{} // is closed when session changes
}

// listen waits for the neighbour, again whenever it was lost.
func listen(ctx context.Context, s settings) (*lean, error) {
	at := netip.AddrPortFrom(s.local, s.port)
	listener, err := net.Listen("tcp", at.String())
	if err != nil {
		return nil, fmt.Errorf("waiting for the neighbour: %w", err)
	}
	l := &lean{settings: s, listener: listener, changed: make(chan struct{})}
	go l.accept(ctx)
	return l, nil
}

func (l *lean) Close() error {
	return errors.Join(l.listener.Close(), l.hangUp())
}

func (l *lean) accept(ctx context.Context) {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		if err != nil || from.Addr().Unmap() != l.neighbour || l.isClosed() {
			conn.Close()
			continue
		}
		s, err := establish(conn, l.settings)
		if err != nil {
			conn.Close()
			continue
		}
		l.set(s)
		go func() {
			s.receive(ctx)
			l.drop(s)
		}()
	}
}

func (l *lean) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *lean) set(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil {
		l.session.conn.Close()
	}
	l.session = s
	close(l.changed)
	l.changed = make(chan struct{})
}

// drop forgets a session that ended, unless another has its place.
func (l *lean) drop(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.conn.Close()
	if l.session == s {
		l.session = nil
	}
}

// current is the session, or the error that there is none.
func (l *lean) current() (*session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == nil {
		return nil, fmt.Errorf("there is no session with %s", l.neighbour)
	}
	return l.session, nil
}

// patience is how long a neighbour without an End-of-RIB is given to get ready.
const patience = time.Second

func (l *lean) wait(ctx context.Context) error {
	for {
		l.mu.Lock()
		s, changed := l.session, l.changed
		l.mu.Unlock()
		if s == nil {
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		// GoBGP 3.10 forgets messages that come before it has noticed that the session is
		// up.
		select {
		case <-s.ready:
		case <-time.After(patience):
		}
		return nil
	}
}

func (l *lean) announce(prefixes []netip.Prefix) error {
	return l.each(prefixes, func(part []netip.Prefix) (*bgp.BGPMessage, error) {
		return announcement(l.local, []uint32{l.as, l.as + 1000}, part)
	})
}

func (l *lean) withdraw(prefixes []netip.Prefix) error {
	return l.each(prefixes, withdrawal)
}

func (l *lean) each(prefixes []netip.Prefix, message func([]netip.Prefix) (*bgp.BGPMessage, error)) error {
	s, err := l.current()
	if err != nil {
		return err
	}
	for part := range slices.Chunk(prefixes, perMessage) {
		m, err := message(part)
		if err != nil {
			return err
		}
		if err := s.send(m); err != nil {
			return err
		}
	}
	return nil
}

// load announces a table: attributes differ from message to message.
func (l *lean) load(r prefixRange) error {
	s, err := l.current()
	if err != nil {
		return err
	}
	prefixes := make([]netip.Prefix, 0, perMessage)
	for first := 0; first < r.count; first += perMessage {
		prefixes = prefixes[:0]
		for i := first; i < min(first+perMessage, r.count); i++ {
			prefixes = append(prefixes, r.at(i))
		}
		m, err := announcement(l.local, l.pathOf(first), prefixes)
		if err != nil {
			return err
		}
		if err := s.send(m); err != nil {
			return err
		}
	}
	return s.send(bgp.NewEndOfRib(bgp.RF_IPv6_UC))
}

// pathOf is the AS path of the i-th prefix of a table.
func (l *lean) pathOf(i int) []uint32 {
	const firstPrivate = 4_200_000_000
	return []uint32{l.as, firstPrivate + uint32(i/perMessage)}
}

// hangUp ends the TCP connection as a machine does that is gone, and turns the
// neighbour away until admit.
func (l *lean) hangUp() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.session == nil {
		return nil
	}
	conn := l.session.conn
	l.session = nil
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := tcp.SetLinger(0); err != nil {
			return fmt.Errorf("ending the connection: %w", err)
		}
	}
	return conn.Close()
}

func (l *lean) admit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = false
}

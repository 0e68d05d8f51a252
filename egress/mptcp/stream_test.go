package mptcp

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// stream is one MPTCP connection over which the server sends all it can.
type stream struct {
	server, client net.Conn
	received       atomic.Uint64
	last           atomic.Int64 // Unix nanoseconds of the latest data
	gap            atomic.Int64 // longest pause in nanoseconds since mark
}

// listen accepts on all addresses, as the edge server does.
func (l *lab) listen() net.Listener {
	l.t.Helper()
	var listener net.Listener
	l.server.Do(func() {
		var lc net.ListenConfig
		lc.SetMultipathTCP(true)
		var err error
		listener, err = lc.Listen(context.Background(), "tcp", "[::]:8080")
		must(l.t, err)
	})
	l.t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// connect opens a connection from one of the client's addresses.
func (l *lab) connect(listener net.Listener, from, to string) *stream {
	l.t.Helper()
	s := &stream{}
	var err error
	l.client.Do(func() {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 30 * time.Second}
		d.SetMultipathTCP(true)
		s.client, err = d.Dial("tcp", net.JoinHostPort(to, "8080"))
	})
	must(l.t, err)
	s.server, err = listener.Accept()
	must(l.t, err)
	// The first data complete the handshake (RFC 8684 §3.1).
	_, err = s.client.Write([]byte("GET"))
	must(l.t, err)
	_, err = io.ReadFull(s.server, make([]byte, 3))
	must(l.t, err)
	l.t.Cleanup(func() { _, _ = s.client.Close(), s.server.Close() })
	return s
}

// flow sends until the connection closes.
func (s *stream) flow() {
	s.mark()
	go func() {
		chunk := make([]byte, 64<<10)
		for {
			if _, err := s.server.Write(chunk); err != nil {
				return
			}
		}
	}()
	go func() {
		buffer := make([]byte, 256<<10)
		for {
			n, err := s.client.Read(buffer)
			if err != nil {
				return
			}
			now := time.Now().UnixNano()
			if pause := now - s.last.Swap(now); pause > s.gap.Load() {
				s.gap.Store(pause)
			}
			s.received.Add(uint64(n))
		}
	}()
}

// mark begins a new measurement of the longest pause.
func (s *stream) mark() {
	s.last.Store(time.Now().UnixNano())
	s.gap.Store(0)
}

func (s *stream) longestGap() time.Duration { return time.Duration(s.gap.Load()) }

func (s *stream) remote() netip.AddrPort {
	return unmap(s.server.RemoteAddr().(*net.TCPAddr).AddrPort())
}

func (s *stream) local() netip.AddrPort {
	return unmap(s.server.LocalAddr().(*net.TCPAddr).AddrPort())
}

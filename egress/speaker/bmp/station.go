// Package bmp is a BMP station (RFC 7854): routers connect to it, and hand on the routes of
// their own BGP sessions with egress peers. So these need no second session. Routes count as
// they are after the router's import policy (Adj-RIB-In, post-policy).
package bmp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"hikyaku/egress/speaker/session"
	"hikyaku/egress/speaker/wire"
)

// Config has the settings that a station needs.
type Config struct {
	// Listen are the addresses to wait for routers on.
	Listen []netip.AddrPort
	// Routers are the addresses that connections are accepted from.
	Routers []netip.Addr
	// Dead is after how long a router that does not answer TCP counts as lost. BMP itself
	// has no sign of life.
	Dead   time.Duration
	Logger *slog.Logger
}

// Peer is an egress peer whose session is a router's.
type Peer struct {
	// Address and AS identify it in a router's messages.
	Address netip.Addr
	AS      uint32
	// Families are those whose routes are taken.
	Families []wire.Family
	// Handler is notified as of a session that we have ourselves.
	Handler session.Handler
}

// Station waits for routers.
type Station struct {
	config    Config
	listeners []net.Listener

	mu    sync.Mutex
	peers map[key]*watched
	// routers are the present connections, by the routers' addresses.
	routers map[netip.Addr]*router
}

// key identifies a peer in a router's messages, which have no zone.
type key struct {
	address netip.Addr
	as      uint32
}

// watched is a configured peer.
type watched struct {
	Peer
	// by is the router that reports it as up, nil while none does.
	by *router
	// paused: what routers report of it is left out.
	paused bool
}

// Listen opens the station's addresses. [Station.Run] then accepts routers.
func Listen(ctx context.Context, c Config) (*Station, error) {
	s := &Station{config: c, peers: make(map[key]*watched), routers: make(map[netip.Addr]*router)}
	third := c.Dead / 3
	listen := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: third, Interval: max(third/2, time.Second), Count: 4}}
	for _, address := range c.Listen {
		l, err := listen.Listen(ctx, "tcp", address.String())
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("waiting for BMP routers on %s: %w", address, err)
		}
		s.listeners = append(s.listeners, l)
	}
	return s, nil
}

// Addresses are those that the station waits on.
func (s *Station) Addresses() (list []netip.AddrPort) {
	for _, l := range s.listeners {
		list = append(list, l.Addr().(*net.TCPAddr).AddrPort())
	}
	return list
}

// Add takes a peer. It must be there before routers report it: they do so once.
func (s *Station) Add(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers[key{p.Address.WithZone(""), p.AS}] = &watched{Peer: p}
}

// Remove forgets a peer.
func (s *Station) Remove(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, key{p.Address.WithZone(""), p.AS})
}

// Pause leaves out what routers report of a peer, and ends the present session for a reason. It
// lasts until a router reports a new session, or [Station.Resume].
func (s *Station) Pause(p Peer, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.peers[key{p.Address.WithZone(""), p.AS}]
	if m == nil || m.by == nil || m.paused {
		return
	}
	m.paused = true
	m.Handler.Ended(session.End{Cause: session.EndLocal, Reason: reason})
}

// Resume takes a peer into use again that was paused.
func (s *Station) Resume(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.peers[key{p.Address.WithZone(""), p.AS}]; m != nil && m.paused {
		s.renew(m)
	}
}

// Renew has the router that reports a peer report all its peers again. It does so when it
// connects, and BMP knows no other way.
func (s *Station) Renew(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.peers[key{p.Address.WithZone(""), p.AS}]; m != nil {
		s.renew(m)
	}
}

// renew closes the connection that a peer is reported on. The mutex is held.
func (s *Station) renew(m *watched) {
	if m.by != nil {
		m.by.conn.Close()
	}
}

// isPaused reports whether a peer is left out.
func (s *Station) isPaused(m *watched) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.paused
}

// Close ends waiting. Connections end with the context of [Station.Run].
func (s *Station) Close() {
	for _, l := range s.listeners {
		l.Close()
	}
}

// Run serves routers until ctx ends.
func (s *Station) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, s.Close)()
	s.failed(ctx, "no BMP router has connected yet")
	var serving sync.WaitGroup
	for _, l := range s.listeners {
		serving.Go(func() { s.accept(ctx, l, &serving) })
	}
	serving.Wait()
}

func (s *Station) accept(ctx context.Context, l net.Listener, serving *sync.WaitGroup) {
	for ctx.Err() == nil {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as a lack of descriptors, which passes
			s.config.Logger.Warn("accepting BMP routers", "error", err)
			sleep(ctx, time.Second)
			continue
		}
		serving.Go(func() { s.serve(ctx, conn.(*net.TCPConn)) })
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// serve is one connection's life.
func (s *Station) serve(ctx context.Context, conn *net.TCPConn) {
	defer conn.Close()
	address := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
	log := s.config.Logger.With("bmp_router", address)
	if !slices.Contains(s.config.Routers, address) {
		log.Warn("a BMP connection is refused: its source is none of `bmp.routers`")
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })()
	r := &router{
		station: s, log: log, address: address, conn: conn, cancel: cancel,
		peers: make(map[key]*peer), done: make(chan struct{}),
	}
	defer close(r.done)
	if !s.replace(ctx, r) {
		return
	}
	log.Info("a BMP router has connected")
	err := r.read(ctx)
	r.lost(ctx, err)
	s.mu.Lock()
	if s.routers[address] == r {
		delete(s.routers, address)
	}
	s.mu.Unlock()
	if ctx.Err() == nil {
		log.Warn("a BMP router is gone", "reason", err)
	}
}

// replace makes r the router's connection. A former one is half dead, since routers have one
// alone: its peers end before those of r begin.
func (s *Station) replace(ctx context.Context, r *router) bool {
	for {
		s.mu.Lock()
		former := s.routers[r.address]
		if former == nil {
			s.routers[r.address] = r
			s.mu.Unlock()
			return true
		}
		s.mu.Unlock()
		former.conn.Close()
		select {
		case <-former.done:
		case <-ctx.Done():
			return false
		}
	}
}

// failed says of all peers that no router reports why there are no routes.
func (s *Station) failed(ctx context.Context, reason string) {
	s.mu.Lock()
	var waiting []session.Handler
	for _, m := range s.peers {
		if m.by == nil {
			waiting = append(waiting, m.Handler)
		}
	}
	s.mu.Unlock()
	for _, h := range waiting {
		h.Failed(ctx, reason)
	}
}

// claim makes a router the source of a peer's routes. It returns nil for a peer that is not
// configured, or that another router reports.
func (s *Station) claim(k key, r *router) *watched {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.peers[k]
	if m == nil || m.by != nil && m.by != r {
		return nil
	}
	m.by, m.paused = r, false
	return m
}

func (s *Station) release(m *watched) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.by, m.paused = nil, false
}

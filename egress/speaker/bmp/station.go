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
	mu        sync.Mutex
	config    Config
	listeners map[netip.AddrPort]net.Listener
	// run begins to accept routers, nil before [Station.Run].
	run    func(net.Listener)
	closed bool
	peers  map[key]*watched
	// routers are the present connections, by the routers' addresses.
	routers map[netip.Addr]*router
	// records are those of all routers that are or were configured.
	records map[netip.Addr]*record
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
	// removed: it is not to be notified any more.
	removed bool
}

// Listen opens the station's addresses. [Station.Run] then accepts routers.
func Listen(ctx context.Context, c Config) (*Station, error) {
	s := &Station{
		listeners: make(map[netip.AddrPort]net.Listener), peers: make(map[key]*watched), routers: make(map[netip.Addr]*router),
		records: make(map[netip.Addr]*record),
	}
	if err := s.Configure(ctx, c); err != nil {
		return nil, err
	}
	return s, nil
}

// Configure takes another configuration, or leaves everything as it is and fails. It ends the
// connections of routers that are none of the configuration's, and of all where it has no
// address to wait on.
func (s *Station) Configure(ctx context.Context, c Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened, err := s.open(ctx, c.Listen)
	if err != nil {
		return err
	}
	s.config = c
	for _, address := range c.Routers {
		s.recordOf(address)
	}
	for address, l := range s.listeners {
		if !slices.Contains(c.Listen, address) {
			l.Close()
			delete(s.listeners, address)
		}
	}
	for address, l := range opened {
		s.listeners[address] = l
		if s.run != nil {
			s.run(l)
		}
	}
	for address, r := range s.routers {
		if len(c.Listen) == 0 || !slices.Contains(c.Routers, address) {
			r.conn.Close()
			continue
		}
		_ = r.conn.SetKeepAliveConfig(c.keepAlive()) // fails where it has just ended
	}
	return nil
}

// open opens the addresses that are not open yet, all or none.
func (s *Station) open(ctx context.Context, addresses []netip.AddrPort) (map[netip.AddrPort]net.Listener, error) {
	opened := make(map[netip.AddrPort]net.Listener)
	for _, address := range addresses {
		if s.listeners[address] != nil {
			continue
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address.String())
		if err != nil {
			for _, l := range opened {
				l.Close()
			}
			return nil, fmt.Errorf("waiting for BMP routers on %s: %w", address, err)
		}
		opened[address] = l
	}
	return opened, nil
}

// keepAlive finds a router that TCP does not reach.
func (c Config) keepAlive() net.KeepAliveConfig {
	third := c.Dead / 3
	return net.KeepAliveConfig{Enable: true, Idle: third, Interval: max(third/2, time.Second), Count: 4}
}

// Addresses are those that the station waits on.
func (s *Station) Addresses() (list []netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		list = append(list, l.Addr().(*net.TCPAddr).AddrPort())
	}
	return list
}

// Waits reports whether routers can connect at all.
func (s *Station) Waits() bool { return len(s.settings().Listen) > 0 }

// Add takes a peer. Routers report peers once: one that has reported it already is cut off, so
// that it connects again.
func (s *Station) Add(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{p.Address.WithZone(""), p.AS}
	s.peers[k] = &watched{Peer: p}
	for _, r := range s.routers {
		if a := r.accounts[k]; a != nil && a.up {
			r.log.Info("a BMP router is cut off, so that it reports a peer again", "peer", p.Address)
			r.conn.Close()
		}
	}
}

// Remove forgets a peer.
func (s *Station) Remove(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{p.Address.WithZone(""), p.AS}
	if m := s.peers[k]; m != nil {
		m.removed = true
	}
	delete(s.peers, k)
}

// Renew has the router that reports a peer report all its peers again. It does so when it
// connects, and BMP knows no other way.
func (s *Station) Renew(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.peers[key{p.Address.WithZone(""), p.AS}]; m != nil && m.by != nil {
		m.by.conn.Close()
	}
}

// Close ends waiting. Connections end with the context of [Station.Run].
func (s *Station) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range s.listeners {
		l.Close()
	}
}

// Run serves routers until ctx ends.
func (s *Station) Run(ctx context.Context) {
	s.failed(ctx, "no BMP router has connected yet")
	var serving sync.WaitGroup
	s.mu.Lock()
	s.run = func(l net.Listener) {
		if s.closed {
			l.Close()
			return
		}
		serving.Go(func() { s.accept(ctx, l, &serving) })
	}
	for _, l := range s.listeners {
		s.run(l)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.Close()
	serving.Wait()
}

func (s *Station) accept(ctx context.Context, l net.Listener, serving *sync.WaitGroup) {
	for ctx.Err() == nil {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as a lack of descriptors, which passes
			s.settings().Logger.Warn("accepting BMP routers", "error", err)
			sleep(ctx, time.Second)
			continue
		}
		serving.Go(func() { s.serve(ctx, conn.(*net.TCPConn)) })
	}
}

func (s *Station) settings() Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config
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
	c := s.settings()
	log := c.Logger.With("bmp_router", address)
	if !slices.Contains(c.Routers, address) {
		log.Warn("a BMP connection is refused: its source is none of `bmp.routers`")
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })()
	r := &router{
		station: s, log: log, address: address, conn: conn, cancel: cancel,
		peers: make(map[key]*peer), accounts: make(map[key]*account), done: make(chan struct{}),
	}
	defer close(r.done)
	if !s.replace(ctx, r) {
		return
	}
	log.Info("a BMP router has connected")
	err := r.read(ctx)
	r.lost(ctx, err)
	s.ended(r, err)
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
			s.recordOf(r.address).since = time.Now()
			_ = r.conn.SetKeepAliveConfig(s.config.keepAlive()) // fails where it has just ended
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
	r.accounts[k] = &account{up: true}
	m := s.peers[k]
	if m == nil || m.by != nil && m.by != r {
		return nil
	}
	m.by = r
	return m
}

func (s *Station) release(m *watched) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.by = nil
}

// gone notes that a router reports a peer as down. Those of nobody are forgotten, so that
// they do not add up.
func (s *Station) gone(k key, r *router, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peers[k] == nil {
		delete(r.accounts, k)
		return
	}
	r.accounts[k] = &account{note: reason}
}

// isWanted reports whether a peer is configured still.
func (s *Station) isWanted(m *watched) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !m.removed
}

package speaker

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/osrg/gobgp/v4/api"

	"hikyaku/egress/speaker/session"
)

// EndSession ends the session with an egress peer that sends more routes than it may
// (RFC 4486 §3), until [Speaker.ResumeSession]. Its [PeerDown] comes as for any other. Where a
// router has the session that sends its routes by ADD-PATH, that stays, and the peer's routes are left
// out. Sessions that routers report by BMP are theirs.
func (s *Speaker) EndSession(name, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.neighbors[name]
	if !ok {
		return fmt.Errorf("ending the session with %q: there is no neighbour of this name", name)
	}
	switch {
	case n.Match != nil:
		s.dispatcher.inbox.post(func(ctx context.Context) { s.dispatcher.pausePaths(ctx, n, reason) })
		return nil
	case n.Monitored:
		return fmt.Errorf("ending the session with %q: it is a router's", name)
	case s.config.ownSession(n):
		s.stopSession(name, session.TooManyPrefixes(reason))
		return nil
	}
	request := &api.DisablePeerRequest{Address: n.Address.String(), Communication: reason}
	if err := s.gobgp.DisablePeer(s.ctx, request); err != nil {
		return fmt.Errorf("ending the session with %q: %w", name, err)
	}
	return nil
}

// ResumeSession lets a session come up again that [Speaker.EndSession] has ended.
func (s *Speaker) ResumeSession(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.neighbors[name]
	if !ok {
		return fmt.Errorf("resuming the session with %q: there is no neighbour of this name", name)
	}
	switch {
	case n.Match != nil:
		s.dispatcher.inbox.post(func(context.Context) { s.dispatcher.paths.Resume(name) })
		s.requestPaths()
		return nil
	case s.config.ownSession(n):
		if s.sessionOf(name) == nil {
			s.startSession(n)
		}
		return nil
	}
	if err := s.gobgp.EnablePeer(s.ctx, &api.EnablePeerRequest{Address: n.Address.String()}); err != nil {
		return fmt.Errorf("resuming the session with %q: %w", name, err)
	}
	return nil
}

// RequestRoutes has all routes of an egress peer reported again. GoBGP has them, and so has the
// table of paths that routers send by ADD-PATH. A neighbour of a
// session of package session is asked by ROUTE-REFRESH (RFC 2918). Where it cannot be asked, the
// session is closed, and comes up again. So is the connection of a BMP router.
func (s *Speaker) RequestRoutes(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.neighbors[name]
	if !ok {
		return fmt.Errorf("asking %q for its routes: there is no neighbour of this name", name)
	}
	switch {
	case n.Match != nil:
		s.dispatcher.inbox.post(func(ctx context.Context) {
			s.dispatcher.applyPaths(ctx, s.dispatcher.paths.Replay(n.Name), session.End{})
		})
		return nil
	case n.Monitored:
		s.station.Renew(s.monitored(n))
		return nil
	case s.config.ownSession(n):
		s.requestAgain(n)
		return nil
	}
	s.replayRoutes(n)
	return nil
}

// requestAgain asks a neighbour for its routes, by a new session where it cannot be asked.
func (s *Speaker) requestAgain(n Neighbor) {
	opened := s.sessionOf(n.Name)
	if opened == nil || opened.originated.RequestRoutes() {
		return
	}
	s.stopSession(n.Name, session.TooManyPrefixes("its routes are needed again"))
	s.startSession(n)
}

// sessionOf is the session of package session with a neighbour, nil without one.
func (s *Speaker) sessionOf(name string) *openedSession {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	return s.opened[name]
}

// refused ends a session of GoBGP's whose neighbour has the wrong role. GoBGP would keep it.
func (s *Speaker) refused(address netip.Addr, reason string) {
	s.run(func(ctx context.Context) {
		request := &api.ShutdownPeerRequest{Address: address.String(), Communication: reason}
		if err := s.gobgp.ShutdownPeer(ctx, request); err != nil {
			s.config.Logger.Warn("ending a session whose neighbour has the wrong role",
				slog.String("address", address.String()), slog.Any("error", err))
		}
	})
}

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
// (RFC 4486 §3), until [Speaker.ResumeSession]. Its [PeerDown] comes as for any other.
func (s *Speaker) EndSession(name, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.neighbors[name]
	if !ok {
		return fmt.Errorf("ending the session with %q: there is no neighbour of this name", name)
	}
	if s.config.ownSession(n) {
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
	if s.config.ownSession(n) {
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

// RequestRoutes has an egress peer send all its routes again, by ROUTE-REFRESH (RFC 2918).
// Where the neighbour or GoBGP cannot, the session is closed, and comes up again.
func (s *Speaker) RequestRoutes(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.neighbors[name]
	if !ok {
		return fmt.Errorf("asking %q for its routes: there is no neighbour of this name", name)
	}
	if s.config.ownSession(n) {
		opened := s.sessionOf(name)
		if opened == nil || opened.originated.RequestRoutes() {
			return nil
		}
		s.stopSession(name, session.TooManyPrefixes("its routes are needed again"))
		s.startSession(n)
		return nil
	}
	if err := s.gobgp.ResetPeer(s.ctx, &api.ResetPeerRequest{Address: n.Address.String()}); err != nil {
		return fmt.Errorf("asking %q for its routes: %w", name, err)
	}
	return nil
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

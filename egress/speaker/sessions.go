package speaker

import (
	"context"
	"net/netip"
	"time"

	"hikyaku/egress/speaker/session"
	"hikyaku/egress/speaker/vpn"
	"hikyaku/egress/speaker/wire"
)

// reopenPause is the time from the end of a session by us to the next one with the same
// address. FRR 8.4 removes a neighbour of a listen range after the connection's end, and forgets
// one that connects meanwhile: that session stays up without routes.
const reopenPause = time.Second

// openedSession is a session of package session, beside those that GoBGP has.
type openedSession struct {
	// reflector has the messages to send to a route reflector, nil for an egress peer.
	reflector *vpn.Reflector
	// originated has those for an egress peer, or for a router with ADD-PATH; nil for a
	// reflector.
	originated *session.Originated
	address    netip.Addr
	cancel     context.CancelCauseFunc
	done       chan struct{}
}

// startSession starts a session of package session.
func (s *Speaker) startSession(n Neighbor) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	opened := &openedSession{address: n.Address, cancel: cancel, done: make(chan struct{})}
	restarts := n.Restarting && n.GracefulRestart > 0
	if restarts {
		s.announcer.BeginRestart(n.GracefulRestart / 2)
	}
	config := session.Config{
		AS: s.config.AS, RouterID: s.config.RouterID, Neighbor: n, AnnounceOnly: s.config.AnnounceOnly && !n.AddPath,
		Restarting: func() bool { return restarts && s.announcer.Restarting() },
		Handler:    sessionHandler{speaker: s, neighbor: n},
		Logger:     s.config.loggerOf(n),
	}
	if n.AS == s.config.AS && !n.AddPath {
		opened.reflector = s.newReflector(n, n.Restarting)
		config.Outbox = opened.reflector
	} else {
		var prefixes []netip.Prefix // routers of the own AS get none from here
		if !n.AddPath {
			prefixes = s.config.Originate
		}
		opened.originated = session.NewOriginated(s.config.AS, n.Role, prefixes, config.Logger)
		config.Outbox = opened.originated
	}
	s.announcing.Lock()
	s.opened[n.Name] = opened
	pause := time.Until(s.closed[n.Address].Add(reopenPause))
	delete(s.closed, n.Address)
	s.announcing.Unlock()
	s.run(func(context.Context) {
		defer close(opened.done)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			session.New(config).Run(ctx)
		}
	})
}

func (s *Speaker) newReflector(n Neighbor, restarting bool) *vpn.Reflector {
	var r *vpn.Reflector
	r = s.announcer.NewReflector(vpn.ReflectorConfig{
		Restarting: restarting,
		NoRoom:     func(example vpn.NoRoom) { s.dispatcher.logWithheld(n.Address, r.Withheld, example) },
		Logger:     s.config.loggerOf(n),
	})
	return r
}

// stopSession ends a session of package session, if there is one, for a cause.
func (s *Speaker) stopSession(name string, cause error) {
	s.announcing.Lock()
	opened := s.opened[name]
	delete(s.opened, name)
	s.announcing.Unlock()
	if opened == nil {
		return
	}
	if opened.reflector != nil {
		s.announcer.Remove(opened.reflector)
	}
	opened.cancel(cause)
	<-opened.done
	s.announcing.Lock()
	s.closed[opened.address] = time.Now()
	s.announcing.Unlock()
}

// sessionHandler passes on the events of one session.
type sessionHandler struct {
	speaker  *Speaker
	neighbor Neighbor
}

func (h sessionHandler) Established(ctx context.Context, terms wire.Terms) bool {
	n := h.neighbor
	return h.report(ctx, sessionReport{terms: terms, up: &PeerUp{
		Peer: n.Name, Address: n.Address, AS: n.AS,
		RouterID: terms.RouterID, LocalAddress: terms.Local, Families: terms.Families,
	}})
}

func (h sessionHandler) Update(ctx context.Context, u *wire.Update) {
	h.report(ctx, sessionReport{update: u})
}

func (h sessionHandler) Failed(ctx context.Context, reason string) {
	h.report(ctx, sessionReport{none: reason})
}

// Ended overtakes all that waits for the dispatcher. The remaining reports of the session,
// one update at most, are dropped by the dispatcher.
func (h sessionHandler) Ended(end session.End) {
	d, address := h.speaker.dispatcher, h.neighbor.Address
	d.inbox.post(func(ctx context.Context) {
		d.sessionReported(ctx, &sessionReport{address: address, down: end})
	})
	h.speaker.callPeerDown(address, end)
}

// report hands something over to the dispatcher, in order; false when ctx ended.
func (h sessionHandler) report(ctx context.Context, r sessionReport) bool {
	r.address = h.neighbor.Address
	select {
	case h.speaker.dispatcher.reports <- report{session: &r}:
		return true
	case <-ctx.Done():
		return false
	}
}

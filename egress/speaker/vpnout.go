package speaker

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// ownSession tells whether a neighbour's session is ours and not GoBGP's, which has
// those that neighbours open and all that take part in best paths.
func (c Config) ownSession(n Neighbor) bool {
	if n.AS != c.AS {
		return !n.Passive && !c.BestPaths
	}
	return !n.Passive && !slices.ContainsFunc(n.Families, func(f Family) bool { return !f.VPN() })
}

// startSession starts a session of ours.
func (s *Speaker) startSession(n Neighbor) {
	ctx, cancel := context.WithCancel(s.ctx)
	v := &ownSession{
		speaker: s, neighbor: n, cancel: cancel, done: make(chan struct{}), outbox: newOutbox(), withheld: &withheld{},
	}
	v.log = n.logger(s.config)
	s.announcing.Lock()
	s.ownSessions[n.Name] = v
	if n.Restarting && n.GracefulRestart > 0 && s.restart == notRestarting {
		s.restart = restarting
		time.AfterFunc(n.GracefulRestart/2, s.AnnouncedAll)
	}
	s.announcing.Unlock()
	s.run(func(context.Context) { v.run(ctx) })
}

// reflects tells whether the neighbour is a route reflector.
func (v *ownSession) reflects() bool { return v.neighbor.AS == v.speaker.config.AS }

// reflectors yields the sessions with reflectors that are up. It needs announcing.
func (s *Speaker) reflectors(yield func(*ownSession) bool) {
	for _, v := range s.ownSessions {
		if v.live && v.reflects() && !yield(v) {
			return
		}
	}
}

// stopSession ends a session of ours.
func (s *Speaker) stopSession(name string) {
	s.announcing.Lock()
	v := s.ownSessions[name]
	delete(s.ownSessions, name)
	s.announcing.Unlock()
	v.cancel()
	<-v.done
}

// mirror makes GoBGP announce VPN routes, too, for a neighbour whose session is
// its own.
func (s *Speaker) mirror(n Neighbor) error {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	s.mirrors[n.Name] = n.Address
	if s.mirrored {
		return nil
	}
	for rd := range s.out {
		for _, g := range s.out.groups(rd) {
			if err := s.announceByGoBGP(VPNAnnouncement{RD: g.rd, Route: g.route.Value(), Prefixes: g.prefixes}); err != nil {
				return err
			}
		}
	}
	s.mirrored = true
	return nil
}

// restartPhase is where a speaker is whose forwarding state outlived it.
type restartPhase uint8

const (
	notRestarting restartPhase = iota
	// restarting: reflectors keep our old routes, since End-of-RIB is held back.
	restarting
	restarted
)

// AnnouncedAll says that after a restart everything has been announced again that
// is to be: reflectors drop what they kept of our former routes (RFC 4724 §4.1).
// Without it they do so after half of [Neighbor.GracefulRestart]. GoBGP's own
// sessions go by that time alone.
func (s *Speaker) AnnouncedAll() {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	s.restart = restarted
	for v := range s.reflectors {
		if v.owes {
			v.owes = false
			v.outbox.send(v.endOfRIB())
		}
	}
}

// restarting tells whether a neighbour is to keep our former routes.
func (s *Speaker) restarting(n Neighbor) bool {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	return n.Restarting && n.GracefulRestart > 0 && s.restart == restarting
}

// goLive queues everything for a session that has come up, and all changes from
// now on. local is our end's address; fail ends the session for an error.
func (s *Speaker) goLive(v *ownSession, conn *net.TCPConn, families []Family, local netip.Addr, fail context.CancelCauseFunc) {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	v.live, v.conn, v.families, v.local, v.outbox = true, conn, families, local, newOutbox()
	v.withheld.reset()
	v.fail = fail
	s.postAll(v)
	if v.owes = v.reflects() && v.neighbor.Restarting && s.restart == restarting; !v.owes {
		v.outbox.send(v.endOfRIB())
	}
}

func (s *Speaker) goDead(v *ownSession) {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	v.live, v.outbox = false, newOutbox()
	v.withheld.reset()
}

// refresh sends everything again.
func (s *Speaker) refresh(v *ownSession) {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	s.postAll(v)
}

// postAll queues the tables for a reflector, our own prefixes for an egress peer.
func (s *Speaker) postAll(v *ownSession) {
	if !v.reflects() {
		if messages := v.originated(); len(messages) > 0 {
			v.outbox.send(messages)
		}
		return
	}
	for rd := range s.out {
		v.outbox.announceTable(rd)
	}
}

// next returns what a session sends next, false when nothing waits.
func (s *Speaker) next(o *outbox) (parcel, bool) {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	return o.take(s.out, parcelRoutes)
}

// posted ends the session of a reflector for which too much waits: with a new one
// it gets what then holds.
func (v *ownSession) posted() {
	if v.live && v.outbox.full() {
		v.live = false
		v.fail(fmt.Errorf("%w: %d routes wait for it", errUnread, v.outbox.keys))
		v.conn.Close()
	}
}

// endOfRIB is End-of-RIB for each family (RFC 4724 §2).
func (v *ownSession) endOfRIB() []byte {
	var messages []byte
	for _, f := range v.families {
		messages = appendEndOfRIB(messages, f)
	}
	return messages
}

package speaker

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"hikyaku/egress/srv6"
)

// ownSession tells whether a neighbour's session is ours and not GoBGP's.
func (n Neighbor) ownSession(ownAS uint32) bool {
	return n.AS == ownAS && !n.Passive && !slices.ContainsFunc(n.Families, func(f Family) bool { return !f.VPN() })
}

// startSession starts a session of ours with a reflector.
func (s *Speaker) startSession(n Neighbor) {
	ctx, cancel := context.WithCancel(s.ctx)
	v := &vpnSession{
		speaker: s, neighbor: n, cancel: cancel, done: make(chan struct{}), outbox: newOutbox(),
		log: s.config.Logger.With(slog.String("component", "reflector"), slog.String("neighbour", n.Name)),
	}
	s.announcing.Lock()
	s.vpnSessions[n.Name] = v
	if n.Restarting && n.GracefulRestart > 0 && s.restart == notRestarting {
		s.restart = restarting
		time.AfterFunc(n.GracefulRestart/2, s.AnnouncedAll)
	}
	s.announcing.Unlock()
	s.run(func(context.Context) { v.run(ctx) })
}

// stopSession ends a session of ours.
func (s *Speaker) stopSession(name string) {
	s.announcing.Lock()
	v := s.vpnSessions[name]
	delete(s.vpnSessions, name)
	s.announcing.Unlock()
	v.cancel()
	<-v.done
}

// mirror makes GoBGP announce VPN routes, too, for a neighbour whose session is
// its own.
func (s *Speaker) mirror() error {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	if s.mirrored {
		return nil
	}
	for rd := range s.out {
		for _, g := range s.out.groups(rd) {
			if err := s.announceByGoBGP(VPNAnnouncement{RD: rd, Route: g.route.Value(), Prefixes: g.prefixes}); err != nil {
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
	for _, v := range s.vpnSessions {
		if v.live && v.owes {
			v.owes = false
			v.post(v.endOfRIB())
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
// now on.
func (s *Speaker) goLive(v *vpnSession, conn *net.TCPConn, families []Family) {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	v.live, v.conn, v.families, v.outbox = true, conn, families, newOutbox()
	s.postAll(v)
	if v.owes = v.neighbor.Restarting && s.restart == restarting; !v.owes {
		v.post(v.endOfRIB())
	}
}

func (s *Speaker) goDead(v *vpnSession) {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	v.live, v.outbox = false, newOutbox()
}

// refresh sends everything again.
func (s *Speaker) refresh(v *vpnSession) {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	s.postAll(v)
}

// postAll queues the tables; they are encoded one by one when their turn comes.
func (s *Speaker) postAll(v *vpnSession) {
	for rd := range s.out {
		v.post(outItem{table: &rd})
	}
}

// encodeTable returns the messages that announce what there is of a distinguisher.
func (s *Speaker) encodeTable(v *vpnSession, rd srv6.RouteDistinguisher, local netip.Addr) []byte {
	s.announcing.Lock()
	groups := s.out.groups(rd)
	s.announcing.Unlock()
	var messages []byte
	for _, g := range groups {
		one, err := g.route.Value().encode(local, rd, map[Family][]netip.Prefix{g.family: g.prefixes})
		if err != nil { // not those that AnnounceVPN let through
			v.log.Error("encoding VPN routes", slog.String("rd", rd.String()), slog.Any("error", err))
			continue
		}
		messages = append(messages, one...)
	}
	return messages
}

// post queues something. A reflector that does not read loses its session: with a
// new one it gets what then holds, and not the whole history.
func (v *vpnSession) post(item outItem) {
	if !v.outbox.post(item) && v.live {
		v.live = false
		v.log.Warn("the reflector does not read: ending the session", slog.Int("waiting_bytes", maxOutbox))
		v.conn.Close()
	}
}

// local is our end of the present session.
func (v *vpnSession) local() netip.Addr {
	return v.conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
}

// endOfRIB is End-of-RIB for each family (RFC 4724 §2).
func (v *vpnSession) endOfRIB() outItem {
	var messages []byte
	for _, f := range v.families {
		messages = appendEndOfRIB(messages, f)
	}
	return outItem{messages: messages}
}

package speaker

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"hikyaku/egress/speaker/addpath"
	"hikyaku/egress/speaker/bmp"
	"hikyaku/egress/speaker/session"
	"hikyaku/egress/speaker/wire"
)

// ownAddress reports whether an address is one of this machine. It is asked for routes of
// nobody and for marked ones, once for each UPDATE.
func ownAddress(a netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(all, func(one net.Addr) bool {
		prefix, ok := one.(*net.IPNet)
		return ok && prefix.IP.Equal(net.IP(a.AsSlice()))
	})
}

// join begins with a neighbour.
func (d *dispatcher) join(ctx context.Context, n Neighbor) {
	d.sessions[n.Address] = newPeerState(n, d.config)
	if n.Match == nil {
		return
	}
	d.paths.AddPeer(addpath.Peer{Name: n.Name, Address: n.Address, Families: n.Families, Match: *n.Match})
	d.explainPaths(ctx)
}

// pathsReceived takes an UPDATE of a router that sends the routes of egress peers.
func (d *dispatcher) pathsReceived(ctx context.Context, s *peerState, u *wire.Update) {
	if wire.Originator(u.Attributes) == d.config.RouterID { // our own: RFC 4456 §8
		without := *u
		without.Reach, without.Plain = nil, nil
		u = &without
	}
	a, usable := wire.AttributesOfPeer(u.Attributes)
	// As of BMP routers: import policies may prepend the own AS.
	a.ASPath = a.ASPath.WithoutLeading(d.config.AS)
	cause := d.causeOf(&a, usable && !u.Unusable)
	changes := d.paths.Receive(s.neighbor.Name, u, a, cause == ByPeer)
	d.applyChanges(ctx, changes, cause, session.End{Cause: EndConnection, Reason: "router " + s.neighbor.Name + " has withdrawn all its routes"})
	d.explainSoon()
	if slices.Contains(s.families, u.EndOfRIB) {
		d.familyEnded(ctx, s, u.EndOfRIB, false)
	}
}

// routerDown keeps the routes of a router whose connection broke, if it offers a graceful
// restart (RFC 4724 §4.2). Others go at once, since nobody reports their withdrawal any more.
func (d *dispatcher) routerDown(ctx context.Context, s *peerState) {
	name, number := s.neighbor.Name, s.number
	end := session.End{Cause: EndConnection, Reason: "router " + name + " is not connected: " + s.end.Reason}
	var keep []Family
	if wait := min(s.terms.Restart.Time, d.config.StaleTime); wait > 0 && s.end.Cause == EndConnection {
		keep = s.terms.Restart.Families
		d.after(wait, func(ctx context.Context) {
			if !s.up && s.number == number {
				d.applyPaths(ctx, d.paths.Expire(name), end)
				d.explainPaths(ctx)
			}
		})
	}
	d.applyPaths(ctx, d.paths.Down(name, keep), end)
	d.explainPaths(ctx)
}

func (d *dispatcher) applyPaths(ctx context.Context, changes []addpath.Change, end session.End) {
	d.applyChanges(ctx, changes, ByPeer, end)
}

// applyChanges reports changes of the routes of egress peers. cause is that of the
// refused ones, and end that of a peer which has none left.
func (d *dispatcher) applyChanges(ctx context.Context, changes []addpath.Change, cause WithdrawalCause, end session.End) {
	for _, c := range changes {
		s := d.sessions[c.Peer]
		if s == nil {
			continue
		}
		switch {
		case c.Refused && !s.up: // one without routes stays down
		case c.Refused:
			d.withdraw(ctx, s, c.Prefixes, cause)
		case d.paths.Routes(s.neighbor.Name) == 0:
			d.takeDown(ctx, s, end)
		case c.Attributes != nil:
			d.bringUp(ctx, s)
			d.emit(ctx, Learned{Peer: s.neighbor.Name, Prefixes: c.Prefixes, Attributes: c.Attributes})
		default:
			d.withdraw(ctx, s, c.Prefixes, ByPeer)
		}
	}
	d.endFamilies(ctx)
}

// bringUp takes an egress peer into use whose first route has come.
func (d *dispatcher) bringUp(ctx context.Context, s *peerState) {
	if s.up {
		return
	}
	families, _ := d.paths.Families(s.neighbor.Name)
	d.up(ctx, s, PeerUp{Peer: s.neighbor.Name, Address: s.neighbor.Address, AS: s.neighbor.AS, Families: families})
}

// takeDown takes one out of use that has none left.
func (d *dispatcher) takeDown(ctx context.Context, s *peerState, end session.End) {
	if !s.up {
		return
	}
	s.end = end
	d.down(ctx, s)
	d.lost(s.neighbor.Address, end)
	s.missing = ""
	d.explainSoon()
}

// endFamilies reports the End-of-RIB of egress peers whose routes are all there.
func (d *dispatcher) endFamilies(ctx context.Context) {
	for _, s := range d.sessions {
		if s.neighbor.Match == nil || !s.up {
			continue
		}
		_, complete := d.paths.Families(s.neighbor.Name)
		for _, f := range complete {
			d.familyEnded(ctx, s, f, false)
		}
	}
}

// explainPaths says of egress peers without routes why there are none, if it has not been said.
func (d *dispatcher) explainPaths(ctx context.Context) {
	for _, s := range d.sessions {
		if s.neighbor.Match == nil || s.up {
			continue
		}
		if reason := d.paths.Missing(s.neighbor.Name); reason != s.missing {
			s.missing = reason
			d.emit(ctx, NoSession{Peer: s.neighbor.Name, Reason: reason})
		}
	}
}

// explainSoon is explainPaths once for the routes of a while.
func (d *dispatcher) explainSoon() {
	if d.explaining {
		return
	}
	d.explaining = true
	d.after(d.config.SettleTime, func(ctx context.Context) {
		d.explaining = false
		d.explainPaths(ctx)
	})
}

// requestPaths has all routers with ADD-PATH send their routes again, by ROUTE-REFRESH
// (RFC 2918). The mutex is held.
func (s *Speaker) requestPaths() {
	for _, n := range s.neighbors {
		if n.AddPath {
			s.requestAgain(n)
		}
	}
}

// pausePaths leaves out the routes of an egress peer that has too many.
func (d *dispatcher) pausePaths(ctx context.Context, n Neighbor, reason string) {
	d.applyPaths(ctx, d.paths.Pause(n.Name), session.End{Cause: EndLocal, Reason: reason})
}

// PathCounts are the numbers of the paths that a router with ADD-PATH sends of egress peers.
func (s *Speaker) PathCounts(router string) addpath.Counts { return s.dispatcher.paths.Counts(router) }

// PathsPaused reports whether the paths of an egress peer are left out, see
// [Speaker.EndSession].
func (s *Speaker) PathsPaused(peer string) bool { return s.dispatcher.paths.Paused(peer) }

// MonitoredRouters are the states of the routers that report by BMP.
func (s *Speaker) MonitoredRouters() []bmp.View { return s.station.Routers() }

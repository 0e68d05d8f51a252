package speaker

import (
	"context"
	"net/netip"
	"slices"
	"time"
	"unique"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/addpath"
	"hikyaku/egress/speaker/session"
	"hikyaku/egress/speaker/vpn"
	"hikyaku/egress/speaker/wire"
)

// dispatcher turns reports of sessions into events. One goroutine alone touches
// neighbours' states and the VPN table, so neither has a lock; others post work to it.
//
// GoBGP reports a lost session only after it has withdrawn all its routes, a
// second later for 200,000. The dispatcher learns of the loss at once through the
// log hook, reports it, and drops later reports of the dead session.
type dispatcher struct {
	config  Config
	events  chan Event
	reports chan report // from GoBGP's watcher, in order
	inbox   *inbox      // everything else, goes before reports

	sessions map[netip.Addr]*peerState
	vpn      *vpn.Table
	// lastRoute is lastHandle's in the last event, nil at the beginning.
	lastHandle unique.Handle[VPNRoute]
	lastRoute  *VPNRoute
	// paths are those of routers that have sessions with egress peers.
	paths *addpath.Table
	// refused ends a session of GoBGP's.
	refused func(address netip.Addr, reason string)
	// lost has OnPeerDown called.
	lost func(address netip.Addr, why session.End)
	// patience numbers the waits for a lost reflector, and the last one still runs while
	// waiting is set. A reflector that was in sync since is worth another wait: prolongs.
	patience          int
	waiting, prolongs bool
	// settling: routes of reflectors may be incomplete, which is looked at from time to time.
	settling bool
	// explaining: why egress peers have no routes is looked at soon.
	explaining bool
}

// report is one call of GoBGP's watcher; exactly one field is set.
type report struct {
	paths []*apiutil.Path
	best  []*apiutil.Path
	eor   *apiutil.Path
	peer  *apiutil.WatchEventMessage_PeerEvent
	// session is from a session of package session.
	session *sessionReport
}

// sessionReport is a report of a session of package session; exactly one field is set
// besides the address.
type sessionReport struct {
	address netip.Addr
	up      *PeerUp
	// terms are those of the session that is up.
	terms  wire.Terms
	update *wire.Update
	// none is why there was no session.
	none string
	// down is why the session ended.
	down session.End
}

// peerState is the state of one neighbour.
type peerState struct {
	neighbor Neighbor
	// up is the state that the last event reported.
	up bool
	// established is the state in GoBGP's last report.
	established bool
	// hookLead is how many ends of sessions the hook has reported ahead of GoBGP's
	// watcher. Above zero the watcher's reports still concern a dead session.
	hookLead int
	// number counts sessions, so that a deadline knows its own.
	number   int
	families []Family
	// missing is why there are no routes of an egress peer, as was last reported.
	missing string
	// terms are those of the last session of package session.
	terms  wire.Terms
	ended  []Family    // families whose End-of-RIB was reported
	end    session.End // of the last session
	faults faultLog
	// replay runs, or is nil.
	replay *replay
}

func newPeerState(n Neighbor, c Config) *peerState {
	return &peerState{neighbor: n, faults: faultLog{log: c.loggerOf(n)}}
}

func newDispatcher(config Config) *dispatcher {
	return &dispatcher{
		config:   config,
		events:   make(chan Event, 64),
		reports:  make(chan report),
		inbox:    newInbox(),
		sessions: make(map[netip.Addr]*peerState),
		vpn:      vpn.NewTable(),
		paths:    addpath.NewTable(ownAddress),
	}
}

// run works until ctx ends, then closes the events.
func (d *dispatcher) run(ctx context.Context) {
	defer close(d.events)
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.inbox.bell:
			d.inbox.work(ctx)
		case r := <-d.reports:
			// A neighbour is added before its first report, and a lost session comes before
			// the remaining reports of it.
			d.inbox.work(ctx)
			d.report(ctx, r)
		}
	}
}

// emit hands an event over, and waits while the reader is busy.
func (d *dispatcher) emit(ctx context.Context, e Event) {
	select {
	case d.events <- e:
	case <-ctx.Done():
	}
}

func (d *dispatcher) report(ctx context.Context, r report) {
	switch {
	case r.peer != nil:
		d.stateChanged(ctx, r.peer)
	case r.paths != nil:
		d.pathsChanged(ctx, r.paths)
	case r.eor != nil:
		d.endOfRIB(ctx, r.eor)
	case r.best != nil:
		d.bestChanged(ctx, r.best)
	case r.session != nil:
		d.sessionReported(ctx, r.session)
	}
}

func (d *dispatcher) sessionReported(ctx context.Context, r *sessionReport) {
	s := d.sessions[r.address]
	switch {
	case s == nil:
	case r.up != nil:
		s.terms = r.terms
		d.up(ctx, s, *r.up)
	case r.none != "":
		d.emit(ctx, NoSession{Peer: s.neighbor.Name, Reason: r.none})
		d.explainPaths(ctx)
	case r.update != nil && !s.up: // of a session that has just ended
	case r.update != nil:
		if len(r.update.Faults) > 0 {
			d.faulty(ctx, s, r.update.Faults)
		}
		switch {
		case s.neighbor.AddPath:
			d.pathsReceived(ctx, s, r.update)
		case s.reflects(d.config.AS):
			d.updated(ctx, s, r.update)
		default:
			d.peerUpdated(ctx, s, r.update)
		}
	default:
		s.end = r.down
		d.down(ctx, s)
	}
}

// sessionEnded takes the hook's report of an end.
func (d *dispatcher) sessionEnded(ctx context.Context, address netip.Addr, why session.End) {
	s := d.sessions[address]
	if s == nil {
		return
	}
	s.hookLead++
	s.end = why
	if s.hookLead > 0 {
		d.down(ctx, s)
	}
}

// stateChanged is GoBGP's report of a session's state, in order with its paths.
func (d *dispatcher) stateChanged(ctx context.Context, e *apiutil.WatchEventMessage_PeerEvent) {
	s := d.sessions[e.Peer.State.NeighborAddress]
	if s == nil || e.Type != apiutil.PEER_EVENT_STATE {
		return
	}
	if e.Peer.State.SessionState == bgp.BGP_FSM_ESTABLISHED {
		s.established = true
		if err := s.neighbor.Role.CheckNeighbour(e.Peer.State.RemoteCap, s.neighbor.StrictRole); err != nil {
			d.emit(ctx, NoSession{Peer: s.neighbor.Name, Reason: err.Error()})
			d.refused(s.neighbor.Address, err.Error())
			return
		}
		if s.hookLead <= 0 {
			d.up(ctx, s, PeerUp{
				Peer:         s.neighbor.Name,
				Address:      s.neighbor.Address,
				AS:           e.Peer.State.PeerASN,
				RouterID:     e.Peer.State.RouterID,
				LocalAddress: e.Peer.Transport.LocalAddress,
				Families:     wire.SharedFamilies(s.neighbor.Families, e.Peer.State.RemoteCap),
			})
		}
		return
	}
	if s.established {
		s.established = false
		s.hookLead--
		if s.hookLead < 0 {
			s.end = endingByGoBGP(e.Peer.State.DisconnectMessage)
			d.down(ctx, s)
		}
	}
}

func (d *dispatcher) up(ctx context.Context, s *peerState, up PeerUp) {
	s.up = true
	s.number++
	s.ended = nil
	s.families = up.Families
	if s.reflects(d.config.AS) {
		name := s.neighbor.Name
		session := d.vpn.Up(name)
		d.after(d.config.StaleTime, func(context.Context) { d.vpn.Mature(name, session) })
	}
	d.emit(ctx, up)
	if s.neighbor.AddPath {
		d.applyPaths(ctx, d.paths.Up(s.neighbor.Name, s.neighbor.Address, s.terms), session.End{})
	}
	number := s.number
	d.after(d.config.EndOfRIBTime, func(ctx context.Context) {
		if s.up && s.number == number {
			for _, f := range s.families {
				d.familyEnded(ctx, s, f, true)
			}
		}
	})
}

func (d *dispatcher) down(ctx context.Context, s *peerState) {
	if !s.up {
		return
	}
	s.up = false
	d.emit(ctx, PeerDown{Peer: s.neighbor.Name, Cause: s.end.Cause, Reason: s.end.Reason})
	if s.reflects(d.config.AS) {
		d.emitVPN(ctx, d.vpn.Down(s.neighbor.Name))
		d.waitForReflectors(ctx)
	}
	if s.neighbor.AddPath {
		d.routerDown(ctx, s)
	}
}

// waitForReflectors starts the time for which stale routes stay. A reflector
// that comes and goes without ever being in sync does not prolong it.
func (d *dispatcher) waitForReflectors(ctx context.Context) {
	if d.waiting && !d.prolongs || !d.vpn.HasStale() {
		return
	}
	d.waiting, d.prolongs = true, false
	d.patience++
	number := d.patience
	d.after(d.config.StaleTime, func(ctx context.Context) {
		if d.waiting && d.patience == number {
			d.waiting = false
			d.emitVPN(ctx, d.vpn.Expire())
		}
	})
}

// settle has the routes of reflectors looked at until they are complete.
func (d *dispatcher) settle() {
	if d.settling || !d.vpn.Unsettled() {
		return
	}
	d.settling = true
	d.after(d.config.SettleTime, func(ctx context.Context) {
		d.settling = false
		changes, complete := d.vpn.Settle()
		d.emitVPN(ctx, changes)
		for _, rd := range complete {
			d.emit(ctx, VPNSettled{RD: rd})
		}
		d.settle()
	})
}

// reflects reports whether the neighbour is a route reflector with VPN routes.
func (s *peerState) reflects(ownAS uint32) bool { return s.neighbor.AS == ownAS && !s.neighbor.AddPath }

// alive reports whether a report of this address is of a session that still lives.
func (d *dispatcher) alive(address netip.Addr) (*peerState, bool) {
	s := d.sessions[address]
	return s, s != nil && s.up && s.hookLead <= 0
}

func (d *dispatcher) endOfRIB(ctx context.Context, eor *apiutil.Path) {
	if s, ok := d.alive(eor.PeerAddress); ok {
		if f, known := wire.FamilyFromGoBGP(eor.Family); known {
			d.familyEnded(ctx, s, f, false)
		}
	}
}

func (d *dispatcher) familyEnded(ctx context.Context, s *peerState, f Family, implied bool) {
	if slices.Contains(s.ended, f) {
		return
	}
	s.ended = append(s.ended, f)
	if f.VPN() && !slices.ContainsFunc(s.families, func(f Family) bool { return f.VPN() && !slices.Contains(s.ended, f) }) {
		d.vpn.Synced(s.neighbor.Name)
		d.prolongs = true
		d.settle()
	}
	d.emit(ctx, EndOfRIB{Peer: s.neighbor.Name, Family: f, Implied: implied})
	if s.neighbor.AddPath {
		d.applyPaths(ctx, d.paths.EndOfRIB(s.neighbor.Name, f), session.End{Cause: EndConnection, Reason: "router " + s.neighbor.Name + " has come back without its routes"})
		d.explainPaths(ctx)
	}
}

// after runs f in the dispatcher's goroutine when the time has passed.
func (d *dispatcher) after(wait time.Duration, f func(context.Context)) {
	time.AfterFunc(wait, func() { d.inbox.post(f) })
}

// forget removes a neighbour. The routes of a reflector stay, as those of a lost one do. Another
// one may come in its place, and has yet to send them.
func (d *dispatcher) forget(ctx context.Context, address netip.Addr) {
	s := d.sessions[address]
	if s == nil {
		return
	}
	s.end = endRemoved
	d.down(ctx, s)
	delete(d.sessions, address)
	switch name := s.neighbor.Name; {
	case s.neighbor.Match != nil:
		d.paths.RemovePeer(name)
	case s.neighbor.AddPath:
		d.applyPaths(ctx, d.paths.Down(name, nil), endRemoved)
		d.paths.RemoveRouter(name)
	}
}

package speaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/server"

	"hikyaku/egress/speaker/bmp"
	"hikyaku/egress/speaker/session"
	"hikyaku/egress/speaker/vpn"
	"hikyaku/egress/srv6"
)

// Speaker is a running BGP speaker. Its methods may be called from any goroutine.
type Speaker struct {
	config     Config
	gobgp      *server.BgpServer
	dispatcher *dispatcher
	urgent     *inbox   // calls of OnPeerDown
	machines   sync.Map // netip.Addr to *fsmIdentity of GoBGP's present state machine

	ctx    context.Context
	cancel context.CancelCauseFunc
	done   sync.WaitGroup
	stop   sync.Once

	mu        sync.Mutex // one change of neighbours at a time
	neighbors map[string]Neighbor
	names     sync.Map     // netip.Addr to the neighbour's name, read without mu
	announced atomic.Int64 // since GoBGP's list of identifiers was last emptied

	announcer *vpn.Announcer
	// announcing guards the neighbours that VPN routes go to, and orders announcements.
	announcing sync.Mutex
	opened     map[string]*openedSession
	// closed: when we ended a session with an address to which none has been opened since.
	closed  map[netip.Addr]time.Time
	mirror  mirror
	barring barring
	// station is where routers report sessions of theirs.
	station *bmp.Station
}

// Start starts a speaker. It ends when ctx does, as by [Speaker.Close]. A process
// should have one: GoBGP keeps options of path selection in package variables,
// which a second start writes while the first one reads them.
//
// It fails for a configuration with faults (all are named) and when an address
// cannot be listened on.
func Start(ctx context.Context, config Config) (*Speaker, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("BGP speaker: %w", err)
	}
	s := &Speaker{
		config:     config,
		dispatcher: newDispatcher(config),
		urgent:     newInbox(),
		neighbors:  make(map[string]Neighbor),

		announcer: vpn.NewAnnouncer(),
		opened:    make(map[string]*openedSession),
		closed:    make(map[netip.Addr]time.Time),
		mirror:    mirror{reflectors: make(map[string]netip.Addr)},
		barring:   barring{waiting: make(map[string]bool)},
	}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	hook := downHook{
		next: config.Logger.Handler().WithAttrs([]slog.Attr{slog.String("component", "gobgp")}),
		down: s.sessionEnded,
		made: func(peer netip.Addr, fsm *fsmIdentity) { s.machines.Store(peer, fsm) },
	}
	s.gobgp = server.NewBgpServer(server.LoggerOption(slog.New(hook), new(slog.LevelVar)))
	go s.gobgp.Serve()
	s.dispatcher.refused, s.dispatcher.lost = s.refused, s.callPeerDown
	s.run(s.dispatcher.run)
	s.run(s.runUrgent)
	if err := s.start(); err != nil {
		s.Close()
		return nil, fmt.Errorf("starting BGP speaker: %w", err)
	}
	context.AfterFunc(ctx, s.Close)
	return s, nil
}

func (s *Speaker) start() error {
	if err := s.gobgp.StartBgp(s.ctx, globalConfig(s.config)); err != nil {
		return fmt.Errorf("listening on %v port %d: %w", s.config.Listen, s.config.Port, err)
	}
	if err := s.applyPolicies(); err != nil {
		return err
	}
	if err := s.watch(); err != nil {
		return err
	}
	for _, p := range s.config.Originate {
		if err := s.originate(p); err != nil {
			return err
		}
	}
	if err := s.listenForRouters(); err != nil {
		return err
	}
	for _, n := range s.config.Neighbors {
		if err := s.AddNeighbor(n); err != nil {
			return err
		}
	}
	s.run(s.station.Run)
	return nil
}

// listenForRouters opens the BMP station. Routers are accepted once all peers are known.
func (s *Speaker) listenForRouters() (err error) {
	config := s.config.Monitor
	config.Logger = s.config.Logger
	s.station, err = bmp.Listen(s.ctx, config)
	return err
}

// SetMonitor sets where routers report sessions of theirs, or leaves all as it is and fails.
// Neighbours that need that must be removed before it ends, and added after it begins.
func (s *Speaker) SetMonitor(c bmp.Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Logger = s.config.Logger
	return s.station.Configure(s.ctx, c)
}

// monitored is a neighbour whose routes come by BMP.
func (s *Speaker) monitored(n Neighbor) bmp.Peer {
	return bmp.Peer{
		Address: n.Address, AS: n.AS, Families: n.Families, Handler: sessionHandler{speaker: s, neighbor: n},
	}
}

// Events returns the channel of events. It must be read; it is closed when the
// speaker has stopped.
func (s *Speaker) Events() <-chan Event { return s.dispatcher.events }

// AddNeighbor starts a further session.
func (s *Speaker) AddNeighbor(n Neighbor) error {
	n = n.WithDefaults()
	if err := n.Validate(s.config.AS); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.Monitored && !s.station.Waits() {
		return fmt.Errorf("adding neighbour %q (%s): there is no address to wait for BMP routers on", n.Name, n.Address)
	}
	for _, other := range s.neighbors {
		if other.Name == n.Name || other.Address == n.Address {
			return fmt.Errorf("adding neighbour %q (%s): %q (%s) is there already", n.Name, n.Address, other.Name, other.Address)
		}
	}
	switch {
	case s.config.ownSession(n), n.Elsewhere():
	case n.AS == s.config.AS:
		if err := s.mirrorTo(n); err != nil {
			return fmt.Errorf("announcing VPN routes to neighbour %q: %w", n.Name, err)
		}
	default:
		if err := s.gobgp.AddDefinedSet(s.ctx, &api.AddDefinedSetRequest{DefinedSet: egressPeers(n.Address)}); err != nil {
			return fmt.Errorf("adding egress peer %q to the export policy: %w", n.Name, err)
		}
	}
	s.names.Store(n.Address, n.Name)
	// The dispatcher must know it before the first report comes.
	d := s.dispatcher
	d.inbox.post(func(ctx context.Context) { d.join(ctx, n) })
	if n.Match != nil {
		s.requestPaths()
	} else if n.Monitored {
		s.station.Add(s.monitored(n))
	} else if s.config.ownSession(n) {
		s.startSession(n)
	} else if err := s.gobgp.AddPeer(s.ctx, &api.AddPeerRequest{Peer: peerConfig(n)}); err != nil {
		d.inbox.post(func(context.Context) { delete(d.sessions, n.Address) })
		return fmt.Errorf("adding neighbour %q (%s): %w", n.Name, n.Address, err)
	}
	s.neighbors[n.Name] = n
	return nil
}

// RemoveNeighbor ends a session for good. Its PeerDown comes as for any other.
func (s *Speaker) RemoveNeighbor(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.neighbors[name]
	if !ok {
		return fmt.Errorf("removing neighbour %q: there is none of this name", name)
	}
	if n.Match != nil { // there is nothing to end
	} else if n.Monitored {
		s.station.Remove(s.monitored(n))
	} else if s.config.ownSession(n) {
		s.stopSession(name, nil)
	} else if err := s.gobgp.DeletePeer(s.ctx, &api.DeletePeerRequest{Address: n.Address.String()}); err != nil {
		return fmt.Errorf("removing neighbour %q (%s): %w", name, n.Address, err)
	}
	s.announcing.Lock()
	delete(s.mirror.reflectors, name)
	s.announcing.Unlock()
	s.machines.Delete(n.Address)
	s.names.Delete(n.Address)
	delete(s.neighbors, name)
	s.dispatcher.inbox.post(func(ctx context.Context) { s.dispatcher.forget(ctx, n.Address) })
	return nil
}

// HasNeighbor reports whether there is a neighbour with exactly these settings, so that its
// session need not change.
func (s *Speaker) HasNeighbor(n Neighbor) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, ok := s.neighbors[n.Name]
	return ok && reflect.DeepEqual(has, n.WithDefaults())
}

// RepeatVPN reports all VPN routes with a distinguisher once more, as [VPNLearned] events, for
// a reader who did not want them before.
func (s *Speaker) RepeatVPN(rd srv6.RouteDistinguisher) {
	d := s.dispatcher
	d.inbox.post(func(ctx context.Context) { d.emitVPN(ctx, d.vpn.Routes(rd)) })
}

// Close ends all sessions; neighbours drop our routes at once. It returns when
// the events' channel is closed and the last call of OnPeerDown has returned.
//
// The sessions that it ends are not reported. An agent that goes down on purpose must not
// take that for the loss of its peers and drop their packets.
func (s *Speaker) Close() { s.shutDown(nil, s.gobgp.Stop) }

// CloseForRestart ends all sessions as a crash would, so that neighbours with
// graceful restart keep our routes for [Neighbor.GracefulRestart]. As with
// [Speaker.Close] nothing is reported.
func (s *Speaker) CloseForRestart() {
	s.shutDown(session.ErrRestart, func() {
		request := &api.StopBgpRequest{AllowGracefulRestart: true}
		if err := s.gobgp.StopBgp(context.WithoutCancel(s.ctx), request); err != nil {
			s.config.Logger.Warn("ending BGP sessions for a restart", slog.Any("error", err))
		}
	})
}

// shutDown stops reporting before it ends the sessions. cause is that of the end of their
// contexts.
func (s *Speaker) shutDown(cause error, endSessions func()) {
	s.stop.Do(func() {
		s.cancel(cause)
		s.done.Wait()
		endSessions()
	})
}

func (s *Speaker) run(f func(context.Context)) {
	s.done.Add(1)
	go func() {
		defer s.done.Done()
		f(s.ctx)
	}()
}

// sessionEnded is called from GoBGP's session, which must not wait.
func (s *Speaker) sessionEnded(address netip.Addr, fsm *fsmIdentity, why session.End) {
	if present, ok := s.machines.Load(address); !ok || present != fsm {
		return
	}
	d := s.dispatcher
	d.inbox.post(func(ctx context.Context) { d.sessionEnded(ctx, address, why) })
	s.callPeerDown(address, why)
}

// callPeerDown has OnPeerDown called. The session's end must have been posted to the
// dispatcher before.
func (s *Speaker) callPeerDown(address netip.Addr, why session.End) {
	if s.config.OnPeerDown == nil {
		return
	}
	s.urgent.post(func(context.Context) {
		name, ok := s.names.Load(address)
		if !ok {
			return
		}
		s.config.OnPeerDown(PeerDown{Peer: name.(string), Cause: why.Cause, Reason: why.Reason})
		d := s.dispatcher
		d.inbox.post(func(ctx context.Context) { d.emit(ctx, PeerDownCalled{Peer: name.(string)}) })
	})
}

// runUrgent calls OnPeerDown, apart from the dispatcher, which may be waiting
// for a slow reader.
func (s *Speaker) runUrgent(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.urgent.bell:
			s.urgent.work(ctx)
		}
	}
}

// watch passes GoBGP's reports to the dispatcher, one at a time and in order.
func (s *Speaker) watch() error {
	send := func(r report) {
		select {
		case s.dispatcher.reports <- r:
		case <-s.ctx.Done():
		}
	}
	callbacks := server.WatchEventMessageCallbacks{
		OnPathUpdate: func(paths []*apiutil.Path, _ time.Time) { send(report{paths: paths}) },
		OnPathEor:    func(eor *apiutil.Path, _ time.Time) { send(report{eor: eor}) },
		OnPeerUpdate: func(e *apiutil.WatchEventMessage_PeerEvent, _ time.Time) { send(report{peer: e}) },
		OnBestPath:   func(paths []*apiutil.Path, _ time.Time) { send(report{best: paths}) },
	}
	options := []server.WatchOption{server.WatchUpdate(false, "", ""), server.WatchEor(false), server.WatchPeer()}
	if s.config.BestPaths {
		options = append(options, server.WatchBestPath(false))
	}
	if err := s.gobgp.WatchEvent(s.ctx, callbacks, options...); err != nil {
		return errors.Join(errors.New("watching BGP sessions"), err)
	}
	return nil
}

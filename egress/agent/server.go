package agent

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/endpoint"
	"hikyaku/egress/kernel"
	"hikyaku/egress/mptcp"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

// Server is the agent of a content server.
type Server struct {
	*engine
	config  *config.Server
	planner *endpoint.Planner
	speaker serverSpeaker
	applier *kernel.Applier
	host    *host
	prober  *prober
	// endProber ends the prober, which else would set the MTU of devices that are gone.
	endProber func()
	// mtus are those of outer packets to each border, in bytes; the engine's lock guards it.
	mtus map[netip.Addr]uint32
	// notifying is held while MPTCP is notified: the last notification has the newest state.
	notifying sync.Mutex
	subflows  subflows
	// verdicts is guarded by the engine's lock.
	verdicts verdicts
}

type serverSpeaker interface {
	neighbours
	RepeatVPN(srv6.RouteDistinguisher)
}

// RunServer runs the agent of a content server until ctx ends, then removes the state that it
// put into the kernel.
func RunServer(ctx context.Context, c *config.Server, opts Options) error {
	s := &Server{config: c, subflows: noSubflows{}, endProber: func() {}}
	s.engine = newEngine(&c.Common, config.RoleServer, opts, s)
	return s.run(ctx, s)
}

func (s *Server) addresses() (all []netip.Addr) {
	for i := range s.config.Paths {
		all = append(all, s.config.Paths[i].Addresses...)
	}
	return all
}

// check finds out the kernel's features, and the room of packets.
func (s *Server) check(h *host) error {
	if !s.features.Seg6 || !s.features.NexthopObjects {
		return missing(s.features, "Seg6", "NexthopObjects")
	}
	underlay, err := h.devices.mtu("srv6.interface", s.config.SRv6.Interface)
	if err != nil {
		return err
	}
	if s.prober, err = newProber(s.config, underlay, s.log); err != nil {
		return err
	}
	s.host, s.applier, s.mtus = h, h.applier, s.prober.currentMTUs()
	return nil
}

// prepare makes the devices for nexthops.
func (s *Server) prepare(h *host) error {
	for border, mtu := range s.mtus {
		if err := h.anchor(borderAnchor(border), mtu); err != nil {
			return err
		}
	}
	return nil
}

// load makes the planner continue from the kernel's state.
func (s *Server) load(have kernel.State, h *host) error {
	s.planner = endpoint.New(s.config, endpoint.Options{Anchor: borderAnchor, Main: s.main, Dead: s.prober.dead}, have)
	if s.opts.DryRun != nil {
		return nil
	}
	former, err := rememberSource(s.common.State.Dir, have.TunnelSource, s.planner.Want().TunnelSource)
	if err != nil {
		return err
	}
	if former != nil {
		s.leave = func(ctx context.Context) error { return leaveSource(ctx, h, s.config, *former) }
	}
	return nil
}

// speak starts the BGP sessions, and then MPTCP's path management. The latter touches state
// of others, too, and steps that can fail come before it.
func (s *Server) speak(ctx context.Context, _ bool) (bgp, error) {
	c, err := speakerConfig(&s.config.Common, s.log)
	if err != nil {
		return nil, err
	}
	for i, r := range s.config.Reflectors {
		if c.Neighbors[i], err = serverReflector(r, s.config); err != nil {
			return nil, err
		}
	}
	started, err := speaker.Start(ctx, c)
	s.speaker = started
	if err != nil {
		return nil, err
	}
	subflows, err := s.newSubflows(ctx)
	if err != nil {
		go discard(started.Events())
		started.Close()
		return nil, err
	}
	s.subflows = subflows
	s.startProber(ctx)
	return started, nil
}

// serverReflector returns the settings of a content server's session with a reflector.
func serverReflector(r config.Reflector, c *config.Server) (speaker.Neighbor, error) {
	n, err := reflectorNeighbor(r, &c.Common)
	if slices.Contains(c.Plain.Reflectors, r.Name) {
		n.Families = append(n.Families, speaker.IPv6Unicast, speaker.IPv4Unicast)
	}
	return n, err
}

func (s *Server) newSubflows(ctx context.Context) (subflows, error) {
	if s.opts.DryRun != nil {
		return newDrySubflows(s.config, s.opts.DryRun)
	}
	return newSubflows(ctx, s.config, s, s.log)
}

// stop withdraws the addresses announced to clients of MPTCP.
func (s *Server) stop() error {
	s.endProber()
	return s.subflows.close()
}

func (s *Server) handle(event speaker.Event) {
	switch e := event.(type) {
	case speaker.VPNLearned:
		s.planner.Learned(e)
		s.publishPlain()
	case speaker.VPNWithdrawn:
		s.planner.Withdrawn(e)
		s.publishPlain()
	case speaker.VPNSettled:
		s.planner.Settled(e.RD)
	case speaker.PeerUp:
		s.planner.ReflectorUp(e.Peer)
	case speaker.PeerDown:
		s.planner.ReflectorDown(e.Peer)
		s.publishPlain()
	case speaker.EndOfRIB:
		s.planner.ReflectorSent(e.Peer, e.Family)
		s.publishPlain()
	case speaker.ReflectedBest:
		if changed := s.planner.Best(e); len(changed) > 0 {
			s.mainChanged(changed, false)
		}
	}
}

func (s *Server) expire()                     { s.planner.Expire() }
func (s *Server) names() []string             { return s.planner.Names() }
func (s *Server) pending(name string) bool    { return s.planner.Pending(name) }
func (s *Server) want() kernel.State          { return s.planner.Want() }
func (s *Server) fail(name string, err error) { s.planner.Block(name, err) }
func (s *Server) retry(name string)           { s.planner.Block(name, nil) }
func (s *Server) link(kernel.Link)            {}

func (s *Server) setConnection(c api.Connection) error { return s.subflows.setConnection(c) }

func (s *Server) drain(name string, drain bool) error { return s.planner.SetDrain(name, drain) }

// work does the next steps for a path.
func (s *Server) work(ctx context.Context, name string) error {
	var steps []endpoint.Step
	s.locked(func() { steps = s.planner.Flush(name, batchSize) })
	var prefixes []netip.Prefix
	for _, step := range steps {
		if err := s.tables.Apply(ctx, step.Change); err != nil {
			return err
		}
		prefixes = append(prefixes, step.Prefixes...)
	}
	s.publishRoutes(name, prefixes)
	if len(prefixes) > 0 {
		s.subflows.reconsider(prefixes)
	}
	return nil
}

// pathsChanged passes the state of paths and the policies on to MPTCP.
func (s *Server) pathsChanged() {
	s.notifying.Lock()
	defer s.notifying.Unlock()
	var paths []api.Path
	var policies []api.Policy
	s.locked(func() { paths, policies = s.allPaths(), s.settings.Policies })
	if err := s.subflows.update(paths, policies); err != nil {
		s.log.Error("passing paths and policies on to MPTCP", "error", err)
	}
}

func (s *Server) paths() []api.Path {
	var list []api.Path
	for _, name := range s.planner.Names() {
		v, _ := s.planner.View(name)
		path := api.Path{
			Name: name, Number: v.Config.Number, Border: v.Config.Border, Peer: v.Config.Peer,
			Mark: v.Config.Mark, Addresses: v.Config.Addresses, Backup: v.Config.Backup, Table: v.Config.Table,
			SID: v.SID, MTU: s.innerMTU(v.Config.Border), Reason: v.Reason, Routes: api.Routes{IPv6: v.IPv6, IPv4: v.IPv4}, State: api.Up,
			Port: portShown(v.Port),
		}
		if v.Routed {
			path.Probe = s.prober.probe(v.SID)
		}
		if v.IPv4SID != v.SID {
			path.IPv4SID = v.IPv4SID
		}
		switch {
		case !v.Up:
			path.State = api.Down
		case v.Draining:
			path.State = api.Draining
		}
		list = append(list, path)
	}
	return list
}

func (s *Server) lookup(client netip.Prefix) api.Lookup {
	reaches, plain := s.planner.Lookup(client)
	found := api.Lookup{Client: client, Best: plain.Path, BestUnknown: plain.Unknown}
	found.Policies = s.verdicts.of(s.settings.Policies, client, endpoint.OriginAS(reaches, plain.Path))
	for _, r := range reaches {
		a := r.Route.Attributes
		reach := api.Reach{
			Name: r.Path, State: api.Up, Prefix: r.Prefix,
			LocalPref: a.LocalPref, MED: a.MED, ASPath: endpoint.ASes(a.ASPath),
		}
		if r.Draining {
			reach.State = api.Draining
		}
		found.Paths = append(found.Paths, reach)
	}
	return found
}

// Routes implements [mptcp.Router].
func (s *Server) Routes(client netip.Addr) mptcp.Routes {
	s.mu.Lock()
	defer s.mu.Unlock()
	reaches, plain := s.planner.Lookup(netip.PrefixFrom(client, client.BitLen()))
	found := mptcp.Routes{Best: plain.Path, AS: endpoint.OriginAS(reaches, plain.Path)}
	for _, r := range reaches {
		found.Paths = append(found.Paths, r.Path)
	}
	return found
}

// routes are those of all paths together: the routes of several reflectors are merged.
func (s *Server) imports(*api.Session)        {}
func (s *Server) rpkiCaches() []api.RPKICache { return nil }
func (s *Server) routers() []api.Router       { return nil }

func (s *Server) routes(api.Session) api.Routes {
	var sum api.Routes
	for _, name := range s.planner.Names() {
		v, _ := s.planner.View(name)
		sum.IPv6 += v.IPv6
		sum.IPv4 += v.IPv4
	}
	return sum
}

func (s *Server) problems() []string {
	all := append(s.subflows.problems(), s.planner.SharedSIDs()...)
	all = append(all, s.prober.problems()...)
	for _, name := range s.planner.Names() {
		v, _ := s.planner.View(name)
		all = append(all, v.Problems...)
	}
	return all
}

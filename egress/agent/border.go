package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"hikyaku/egress/border"
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/rpki"
	"hikyaku/egress/speaker"
	"hikyaku/egress/speaker/bmp"
	"hikyaku/egress/srv6"
)

// Border is the agent of a border router.
type Border struct {
	*engine
	config  *config.Border
	planner *border.Planner
	speaker borderSpeaker
	// lookups are those of peers, by their names.
	lookups map[string]border.Lookup
	// best has, in a dry run, BGP's preference: a peer for each prefix.
	best  map[netip.Prefix]string
	host  hostWatch
	ports ports
	// later has the loop do something when it has the time.
	later func(func(context.Context))
	// caches have the RPKI's data.
	caches *caches
	// torn are the peers whose sessions max_prefixes has ended.
	torn map[string]*time.Timer
	// devices makes the devices of further peers.
	devices *host
	// byName has the state of peers, for callers that cannot wait for the mutex.
	byName sync.Map
	// shut has the routes of the SIDs that peerDown has shut, by the peer's name.
	shut sync.Map
	// restarting: a former run has left something in the kernel.
	restarting bool
}

type borderSpeaker interface {
	bgp
	neighbours
	WithdrawVPN(srv6.RouteDistinguisher, []netip.Prefix) error
	Bar(peer string, barred, free []netip.Prefix) error
	EndSession(peer, reason string) error
	ResumeSession(peer string) error
	RequestRoutes(peer string) error
	SetMonitor(bmp.Config) error
}

// RunBorder runs the agent of a border router until ctx ends, then withdraws
// everything and removes its state from the kernel.
func RunBorder(ctx context.Context, c *config.Border, opts Options) error {
	b := &Border{config: c, lookups: make(map[string]border.Lookup), best: make(map[netip.Prefix]string), torn: make(map[string]*time.Timer)}
	b.engine = newEngine(&c.Common, config.RoleBorder, opts, b)
	for _, r := range c.AddPath {
		b.sessions.add(r.Name, kindRouter, r.Address, c.ASN, b.started)
	}
	for i := range c.Peers {
		b.sessions.add(c.Peers[i].Name, kindPeer, c.Peers[i].Address, c.Peers[i].ASN, b.started)
	}
	return b.run(ctx, b)
}

func (b *Border) addresses() []netip.Addr { return nil }

// check finds out the kernel's features, and whether the interfaces are there.
func (b *Border) check(h *host) error {
	if !b.features.EndDT6 || !b.features.NexthopObjects {
		return missing(b.features, "EndDT6", "NexthopObjects")
	}
	if b.config.SRv6.VRF == config.ToggleOn && !b.features.EndDT46 {
		return fmt.Errorf("srv6.vrf is \"on\" (\"auto\" does without): %w",
			missing(b.features, "VRF", "EndDT46"))
	}
	b.chooseLookups(b.features)
	for _, name := range b.config.SRv6.Interfaces {
		if _, err := h.devices.mtu("srv6.interfaces", name); err != nil {
			return err
		}
	}
	return nil
}

// load makes the planner continue from the kernel's state.
func (b *Border) load(have kernel.State, h *host) error {
	var err error
	if b.ports, err = newPorts(b.config.Ports, b.config.State.Dir); err != nil {
		return err
	}
	b.planner = border.New(b.config, border.Options{
		Anchor: anchor,
		Lookup: func(p *config.Peer) border.Lookup { return b.lookups[p.Name] },
		Pair:   func(p *config.Peer) (enter, leave string) { return pairNames(p.Table) },
		Resolve: func(p *config.Peer, nextHop netip.Addr) (border.Hop, error) {
			return resolve(h.devices, p, nextHop)
		},
		ResolveInside: func(nextHop netip.Addr) (border.Hop, error) { return resolveInside(h.devices, nextHop) },
		Main:          b.main,
	}, have)
	return nil
}

// speak starts the BGP sessions.
func (b *Border) speak(ctx context.Context, restarting bool) (bgp, error) {
	c, err := speakerConfig(&b.config.Common, b.log)
	if err != nil {
		return nil, err
	}
	c.Originate = b.config.Router.Announce
	c.BestPaths = b.config.Router.BestPaths
	c.Silent = b.opts.DryRun != nil
	c.Monitor = monitor(b.config.BMP)
	c.AnnounceOnly = true // other borders' paths are for servers
	b.restarting = restarting
	for i, r := range b.config.Reflectors {
		if c.Neighbors[i], err = b.reflector(r); err != nil {
			return nil, err
		}
	}
	for i := range b.config.Peers {
		p := &b.config.Peers[i]
		b.remember(p)
		n, err := b.neighbor(p)
		if err != nil {
			return nil, err
		}
		if len(n.Families) == 0 {
			b.log.Warn("a peer gets no session", "peer", p.Name, "reason", noFamily)
			b.sessions.refuse(p.Name, noFamily)
			b.planner.PeerDown(p.Name, noFamily)
			continue
		}
		c.Neighbors = append(c.Neighbors, n)
	}
	for _, r := range b.config.AddPath { // behind the peers whose routes they send
		n, err := b.addPath(r)
		if err != nil {
			return nil, err
		}
		c.Neighbors = append(c.Neighbors, n)
	}
	b.later = func(f func(context.Context)) { go b.post(ctx, f) }
	var s *speaker.Speaker
	started := make(chan struct{})
	if b.opts.DryRun == nil {
		c.OnPeerDown = func(down speaker.PeerDown) {
			select {
			case <-started:
				b.peerDown(ctx, s, down)
			case <-ctx.Done():
			}
		}
	}
	s, err = speaker.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	close(started)
	go b.watchNextHops(ctx)
	if b.opts.DryRun == nil {
		go b.watchHost(ctx)
	}
	go b.watchAddresses(ctx)
	go b.watchPorts(ctx)
	b.speaker = s
	if b.opts.DryRun != nil {
		b.speaker = mute{Speaker: s, out: b.opts.DryRun}
	}
	b.caches = newCaches(ctx, b.log, func(vrps *rpki.Table) {
		b.post(ctx, func(context.Context) { b.locked(func() { b.planner.SetVRPs(vrps) }) })
	})
	b.caches.set(b.config.Caches, b.config.BGP.ConnectRetry)
	return b.speaker, nil
}

func monitor(c config.BMP) bmp.Config {
	return bmp.Config{Listen: c.Listen, Routers: c.Routers, Dead: c.DeadTime}
}

func (b *Border) handle(event speaker.Event) {
	switch e := event.(type) {
	case speaker.PeerUp:
		b.sessionUp(e.Peer)
	case speaker.PeerDown:
		b.planner.PeerDown(e.Peer, b.sessions.reason(e.Peer))
	case speaker.NoSession:
		b.planner.Explain(e.Peer, b.sessions.reason(e.Peer))
	case speaker.PeerDownCalled:
		b.later(func(ctx context.Context) { b.closedEarly(ctx, e.Peer) })
	case speaker.Learned:
		if b.planner.Learned(e) {
			b.tearDownPeer(e.Peer)
		}
	case speaker.Withdrawn:
		b.planner.Withdrawn(e)
	case speaker.EndOfRIB:
		b.planner.EndOfRIB(e.Peer, e.Family)
		if b.sessions.sentAll(e.Peer) {
			b.planner.Complete(e.Peer)
		}
	case speaker.BestPath:
		b.planner.Best(e)
		b.dryBest(e)
	}
}

// sessionUp takes a peer into use. One that was torn down is back where another router's
// session with it is.
func (b *Border) sessionUp(name string) {
	if timer := b.torn[name]; timer != nil {
		timer.Stop()
	}
	delete(b.torn, name)
	b.planner.PeerUp(name)
}

func (b *Border) expire()                  { b.planner.Expire() }
func (b *Border) pending(name string) bool { return b.planner.Pending(name) }
func (b *Border) want() kernel.State       { return b.planner.Want() }
func (b *Border) retry(name string)        { b.planner.Retry(name) }
func (b *Border) pathsChanged()            {}
func (b *Border) stop() error              { return b.dryUnicast() }

func (b *Border) names() []string { return append(b.planner.Names(), border.MainTable, border.Itself) }

func (b *Border) fail(name string, err error) { b.planner.Fail(name, err) }

func (b *Border) drain(name string, drain bool) error { return b.planner.SetDrain(name, drain) }

// link takes peers out of use whose device is gone. The kernel has removed their routes,
// and BGP may need its hold time to find out.
func (b *Border) link(link kernel.Link) {
	for _, name := range b.planner.Names() {
		if !link.Up && slices.Contains(b.planner.Devices(name), link.Device) {
			b.planner.Fail(name, fmt.Errorf("its interface %s is down", link.Device))
		}
	}
}

// work does the next steps for a peer.
func (b *Border) work(ctx context.Context, name string) error {
	var steps []border.Step
	b.locked(func() { steps = b.planner.Flush(name, batchSize) })
	var prefixes []netip.Prefix
	for _, step := range steps {
		if err := b.execute(ctx, step); err != nil {
			return err
		}
		switch {
		case step.Withdraw != nil:
			prefixes = append(prefixes, step.Withdraw.Prefixes...)
		case step.Announce != nil:
			prefixes = append(prefixes, step.Announce.Prefixes...)
		}
	}
	b.publishRoutes(name, prefixes)
	return nil
}

// execute does a step. Its error is a sentence on the peer.
func (b *Border) execute(ctx context.Context, step border.Step) error {
	var err error
	what := "the kernel refuses its routes"
	switch {
	case step.Drop != nil:
		what = "the kernel refuses to close its SID"
		err = b.tables.Drop(ctx, *step.Drop)
	case step.Change != nil:
		err = b.tables.Apply(ctx, *step.Change)
	case step.Bar != nil:
		what = "its refused routes cannot be kept out of best paths"
		err = b.speaker.Bar(step.Bar.Peer, step.Bar.Barred, step.Bar.Free)
	case step.Withdraw != nil:
		what = "its routes cannot be withdrawn from servers"
		err = b.speaker.WithdrawVPN(step.Withdraw.RD, step.Withdraw.Prefixes)
	default:
		what = "its routes cannot be announced to servers"
		err = b.speaker.AnnounceVPN(*step.Announce)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
	"hikyaku/egress/liveness"
)

// startProber begins to watch the ways to the borders, until ctx ends or endProber is called.
func (s *Server) startProber(ctx context.Context) {
	if s.opts.DryRun != nil {
		return
	}
	s.prober.open()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	s.endProber = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		s.prober.run(ctx, s.probeTargets, func(verdicts map[string]error, mtus map[netip.Addr]uint32) {
			s.post(ctx, func(context.Context) { s.probed(verdicts, mtus) })
		})
	}()
}

// probeTargets are the paths that can be in use.
func (s *Server) probeTargets() []probeTarget {
	s.mu.Lock()
	defer s.mu.Unlock()
	var targets []probeTarget
	for _, name := range s.planner.Names() {
		if v, _ := s.planner.View(name); v.SID.IsValid() && v.Routed {
			targets = append(targets, probeTarget{
				Target: liveness.Target{Border: v.Config.Border, SID: v.SID}, path: name, confirmed: v.Confirmed,
			})
		}
	}
	return targets
}

// probed takes new verdicts and path MTUs of the prober.
func (s *Server) probed(verdicts map[string]error, mtus map[netip.Addr]uint32) {
	for border, mtu := range mtus {
		if _, known := s.mtus[border]; !known {
			continue // it has just lost its last path
		}
		if err := s.setMTU(border, mtu); err != nil {
			s.log.Error("setting the MTU of paths", "border", border, "mtu", mtu, "error", err)
			continue
		}
		s.log.Info("path MTU has changed", "border", border, "mtu", mtu)
	}
	s.locked(func() {
		for name, verdict := range verdicts {
			s.planner.SetDead(name, verdict)
		}
	})
}

// setMTU bounds the outer packets to a border.
func (s *Server) setMTU(border netip.Addr, mtu uint32) error {
	if s.opts.DryRun == nil {
		if err := s.applier.EnsureAnchor(context.Background(), borderAnchor(border), mtu); err != nil {
			return err
		}
	}
	s.locked(func() { s.mtus[border] = mtu })
	return nil
}

// innerMTU is the MTU of inner packets to a border, in bytes.
func (s *Server) innerMTU(border netip.Addr) uint32 { return s.mtus[border] - config.EncapOverhead }

// probe returns the liveness of a path's SID, zero without probes.
func (p *prober) probe(sid netip.Addr) api.Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		return api.Probe{}
	}
	v := p.monitor.View(sid)
	return api.Probe{State: v.State.String(), RTT: uint32(v.RTT.Microseconds())}
}

// borderProbes are the numbers of one border.
type borderProbes struct {
	border         netip.Addr
	sent, answered uint64
	failures       uint64
}

func (p *prober) perBorder() []borderProbes {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []borderProbes
	for border, c := range p.counts {
		all = append(all, borderProbes{border, c.sent, c.answered, p.monitor.Deaths(border)})
	}
	slices.SortFunc(all, func(a, b borderProbes) int { return a.border.Compare(b.border) })
	return all
}

// silentTime is how long a border that has never answered is given before that is a problem.
const silentTime = 10 * time.Second

// problems are sentences on the ways to borders.
func (p *prober) problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	if p.linkDown {
		all = append(all, fmt.Sprintf("the interface %s (srv6.interface) is down", p.config.SRv6.Interface))
	}
	if p.noProbes != nil {
		all = append(all, fmt.Sprintf("no border is probed, so that BGP alone notices a dead one: %s", p.noProbes))
	}
	all = append(all, p.silent()...)
	for border, search := range p.mtus {
		if mtu := search.MTU(); mtu < search.Ceiling() && !search.Searching() {
			all = append(all, fmt.Sprintf("border %s: packets of more than %d bytes do not get there, while %s takes %d: "+
				"inner packets are bound to %d bytes; a hop on the way has a smaller MTU",
				border, mtu, p.config.SRv6.Interface, search.Ceiling(), mtu-config.EncapOverhead))
		}
	}
	slices.Sort(all)
	return all
}

// silent names the borders that have never answered.
func (p *prober) silent() []string {
	if p.conn == nil {
		return nil
	}
	answers, silent := make(map[netip.Addr]bool), make(map[netip.Addr]netip.Addr)
	for _, t := range p.targets {
		switch v := p.monitor.View(t.SID); {
		case v.State != liveness.Unknown:
			answers[t.Border] = true
		case v.Unanswered >= silentTime:
			silent[t.Border] = t.SID
		}
	}
	var all []string
	for border, sid := range silent {
		if !answers[border] {
			all = append(all, fmt.Sprintf("border %s: none of its SIDs has answered a probe, such as %s, so that BGP alone "+
				"notices when it is dead; its agent may be older, or its firewall drop ICMPv6 echo", border, sid))
		}
	}
	return all
}

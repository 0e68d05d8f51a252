package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"hikyaku/egress/config"
	"hikyaku/egress/liveness"
	"hikyaku/egress/oam"
	"hikyaku/egress/pathmtu"
)

// do has the prober's goroutine do something, and returns its error.
func (p *prober) do(ctx context.Context, f func() error) error {
	result := make(chan error, 1)
	call := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		result <- f()
	}
	select {
	case p.calls <- call:
		return <-result
	case <-ctx.Done():
		return fmt.Errorf("waiting for the prober: %w", ctx.Err())
	}
}

// configure takes another [probe], or leaves all as it is and fails. The states of SIDs stay
// while there are probes. Without probes they are forgotten. So an operator has SIDs that can
// answer no more, such as those behind VRF devices, judged by BGP again.
func (p *prober) configure(c config.Probe) error {
	switch {
	case c.Interval > 0 && p.conn == nil:
		conn, err := oam.Open(p.config.SRv6.TunnelSource)
		if err != nil {
			return err
		}
		p.conn, p.noProbes, p.canary, p.canaryHas = conn, nil, 0, false
		p.monitor = liveness.New(livenessConfig(c))
	case c.Interval == 0 && p.conn != nil:
		p.conn.Close()
		p.conn = nil
		p.monitor = liveness.New(livenessConfig(c))
	default:
		p.monitor.Configure(livenessConfig(c))
	}
	if c.Interval == 0 {
		p.noProbes = nil
	}
	if c.Interval == 0 || !c.MTU {
		for border := range p.mtus {
			p.mtus[border] = pathmtu.New(floorMTU, p.ceiling(p.linkMTU))
		}
	}
	p.probing = c
	p.ticks = 0 // so that it looks at the paths next
	return nil
}

// probeSteps are those for other probes.
func (s *Server) probeSteps(next config.Probe) []step {
	had := s.config.Probe
	if had == next {
		return nil
	}
	set := func(c config.Probe) func(context.Context) error {
		return func(ctx context.Context) error {
			return s.prober.do(ctx, func() error { return s.prober.configure(c) })
		}
	}
	return []step{{what: "probes have other settings", do: set(next), undo: set(had)}}
}

// borderSteps are those for borders without a path any more, and for those with their first one.
func (s *Server) borderSteps(next *config.Server) (leave, join []step) {
	had, has := bordersOf(s.config), bordersOf(next)
	for _, border := range had {
		if !slices.Contains(has, border) {
			leave = append(leave, step{
				what: fmt.Sprintf("border %s has no path any more", border),
				do:   func(ctx context.Context) error { return s.leaveBorder(ctx, border) },
				undo: func(ctx context.Context) error { return s.joinBorder(ctx, border) },
			})
		}
	}
	for _, border := range has {
		if !slices.Contains(had, border) {
			join = append(join, step{
				what: fmt.Sprintf("border %s has its first path", border),
				do:   func(ctx context.Context) error { return s.joinBorder(ctx, border) },
				undo: func(ctx context.Context) error { return s.leaveBorder(ctx, border) },
			})
		}
	}
	return leave, join
}

func bordersOf(c *config.Server) []netip.Addr {
	borders := make(map[netip.Addr]bool)
	for i := range c.Paths {
		borders[c.Paths[i].Border] = true
	}
	return slices.SortedFunc(maps.Keys(borders), netip.Addr.Compare)
}

// joinBorder makes the device for the paths of a further border, and finds its path MTU.
func (s *Server) joinBorder(ctx context.Context, border netip.Addr) error {
	var mtu uint32
	err := s.prober.do(ctx, func() error {
		s.prober.know(border)
		mtu = s.prober.mtus[border].MTU()
		return nil
	})
	if err != nil {
		return err
	}
	err = s.inLoop(ctx, func(context.Context) error { return s.setMTU(border, mtu) })
	if err != nil {
		return errors.Join(err, s.leaveBorder(context.WithoutCancel(ctx), border))
	}
	return nil
}

// leaveBorder takes back everything of a border that has no path.
func (s *Server) leaveBorder(ctx context.Context, border netip.Addr) error {
	err := s.prober.do(ctx, func() error {
		delete(s.prober.mtus, border)
		delete(s.prober.counts, border)
		return nil
	})
	if err != nil {
		return err
	}
	return s.inLoop(ctx, func(context.Context) error {
		var keep map[string]bool
		s.locked(func() {
			delete(s.mtus, border)
			keep = s.anchors()
		})
		return s.host.devices.remove(keep)
	})
}

// anchors are the devices that the server needs.
func (s *Server) anchors() map[string]bool {
	names := make(map[string]bool)
	for border := range s.mtus {
		name := borderAnchor(border)
		names[name], names[name+"p"] = true, true
	}
	return names
}

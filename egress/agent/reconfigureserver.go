package agent

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
)

func pathName(p *config.Path) string { return p.Name }

func (s *Server) present() *config.File { return &config.File{Server: s.config} }

// reconfiguration returns the steps for other paths and reflectors. A changed path is removed and
// added, unless it is a backup now or none.
func (s *Server) reconfiguration(file *config.File) ([]step, error) {
	next := file.Server
	steps, err := s.reflectorSteps(&next.Common, func(r config.Reflector) (speaker.Neighbor, error) {
		return serverReflector(r, next)
	})
	if err != nil {
		return nil, err
	}
	removed, added, changed := entries(s.config.Paths, next.Paths, pathName)
	var leave, join []step
	for _, name := range removed {
		leave = append(leave, s.leavePath("path "+name+" is removed", entry(s.config.Paths, name, pathName)))
	}
	for _, name := range added {
		join = append(join, s.joinPath("path "+name+" is added", entry(next.Paths, name, pathName)))
	}
	for _, name := range changed {
		had, now := entry(s.config.Paths, name, pathName), entry(next.Paths, name, pathName)
		if sameRoutes(*had, *now) {
			join = append(join, said("path "+name+" has another `backup` or other `next_hops`"))
			continue
		}
		leave = append(leave, s.leavePath("path "+name+" has other settings", had))
		join = append(join, s.joinPath("path "+name+" is made anew", now))
	}
	if len(leave)+len(join) > 0 && !s.features.AddressProtocol {
		// The agent knows its addresses by the configuration that it has started with.
		return nil, errors.New("a restart is needed for a change of `path`, since this kernel keeps no protocol of addresses")
	}
	if !slices.Equal(s.config.SRv6.Locators, next.SRv6.Locators) {
		join = append(join, said("routes are judged by other locators"))
	}
	if s.config.Plain.Border != next.Plain.Border {
		join = append(join, said("plain packets are taken to come to another border first"))
	}
	left, joined := s.borderSteps(next)
	return slices.Concat(steps, leave, left, s.probeSteps(next.Probe), joined, join), nil
}

// sameRoutes reports whether the state in the kernel is the same for both.
func sameRoutes(a, b config.Path) bool {
	a.Backup, a.NextHops = b.Backup, b.NextHops
	_, _, changed := entries([]config.Path{a}, []config.Path{b}, pathName)
	return len(changed) == 0
}

// configured takes the configuration as the present one.
func (s *Server) configured(file *config.File) {
	former := s.config
	s.config, s.common = file.Server, &file.Server.Common
	further := s.planner.Configure(s.config)
	s.subflows.configure(s.config)
	if !slices.Equal(former.SRv6.Locators, s.config.SRv6.Locators) {
		for i := range s.config.Paths {
			further = append(further, s.config.Paths[i].RD)
		}
	}
	for _, rd := range further {
		s.speaker.RepeatVPN(rd)
	}
	if !reflect.DeepEqual(former.Plain, s.config.Plain) || !reflect.DeepEqual(former.Paths, s.config.Paths) {
		s.mainChanged(nil, true)
	}
}

func (s *Server) joinPath(what string, p *config.Path) step {
	return step{
		what: what,
		do:   func(ctx context.Context) error { return s.addPath(ctx, p) },
		undo: func(ctx context.Context) error { return s.removePath(ctx, p) },
	}
}

func (s *Server) leavePath(what string, p *config.Path) step {
	return step{
		what: what,
		do:   func(ctx context.Context) error { return s.removePath(ctx, p) },
		undo: func(ctx context.Context) error { return s.addPath(ctx, p) },
	}
}

// addPath begins with a further path. Reflectors may have sent its routes already.
func (s *Server) addPath(ctx context.Context, p *config.Path) error {
	err := s.inLoop(ctx, func(loop context.Context) error {
		var first kernel.Change
		var drained error
		s.locked(func() {
			first = s.planner.Add(p)
			drained = s.redrain(p.Name)
		})
		return errors.Join(drained, s.tables.Apply(loop, first))
	})
	if err != nil {
		return errors.Join(err, s.removePath(context.WithoutCancel(ctx), p))
	}
	s.speaker.RepeatVPN(p.RD)
	return nil
}

// removePath takes back everything of a path. Clients of MPTCP lose its addresses first.
func (s *Server) removePath(ctx context.Context, p *config.Path) error {
	err := s.inLoop(ctx, func(context.Context) error {
		s.locked(func() { s.planner.Remove(p.Name) })
		s.show()
		return nil
	})
	if err == nil {
		err = s.settled(ctx, p.Name)
	}
	if err != nil {
		return err
	}
	return s.inLoop(ctx, func(loop context.Context) error {
		var left kernel.Change
		s.locked(func() {
			left = s.planner.Forget(p.Name)
			s.dropped(p.Name)
		})
		return s.tables.Apply(loop, left)
	})
}

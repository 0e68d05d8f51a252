package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"hikyaku/egress/border"
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
)

func peerName(p *config.Peer) string { return p.Name }

func (b *Border) present() *config.File { return &config.File{Border: b.config} }

// current returns the configuration to callers outside of the loop.
func (b *Border) current() (c *config.Border) {
	b.locked(func() { c = b.config })
	return c
}

// reconfiguration returns the steps for other peers and reflectors. A changed peer is removed and
// added, unless its session and its state in the kernel stay as they are.
func (b *Border) reconfiguration(file *config.File) ([]step, error) {
	next := file.Border
	steps, err := b.reflectorSteps(&next.Common, b.reflector)
	if err != nil {
		return nil, err
	}
	routers, err := b.routerSteps(routerKind{kindRouter, b.addPath}, b.config.AddPath, next.AddPath)
	if err != nil {
		return nil, err
	}
	leave, join, err := b.peerSteps(next.Peers)
	if err != nil {
		return nil, err
	}
	ports, err := b.portSteps(next.Ports)
	if err != nil {
		return nil, err
	}
	return slices.Concat(steps, routers, leave, b.monitorSteps(next.BMP), join, ports), nil
}

// peerSteps are those for peers: the ones that leave, and the ones that join, which may be the same.
func (b *Border) peerSteps(next []config.Peer) (leave, join []step, err error) {
	removed, added, changed := entries(b.config.Peers, next, peerName)
	for _, name := range removed {
		leave = append(leave, b.leave("peer "+name+" is removed", entry(b.config.Peers, name, peerName)))
	}
	for i := range next {
		p := &next[i]
		former := entry(b.config.Peers, p.Name, peerName)
		switch {
		case slices.Contains(added, p.Name):
			join = append(join, b.join("peer "+p.Name+" is added", p))
		case b.mustReconnect(former, p):
			leave = append(leave, b.leave("peer "+p.Name+" has other settings", former))
			join = append(join, b.join("peer "+p.Name+" is connected anew", p))
		case slices.Contains(changed, p.Name) && b.planner.Exceeds(p) && !b.planner.LeftOut(p.Name):
			join = append(join, said(fmt.Sprintf("peer %s has other settings, its session ends: it sends more than max_prefixes (%d) routes", p.Name, p.MaxPrefixes)))
		case slices.Contains(changed, p.Name):
			join = append(join, said("peer "+p.Name+" has other settings, its session stays"))
		}
	}
	for _, s := range join {
		if s.check == nil {
			continue
		}
		if err := s.check(); err != nil {
			return nil, nil, err
		}
	}
	return leave, join, nil
}

// monitorSteps are those for other routers that report by BMP. Peers that need a station leave
// before, and join after.
func (b *Border) monitorSteps(next config.BMP) []step {
	had := b.config.BMP
	if reflect.DeepEqual(had, next) {
		return nil
	}
	set := func(c config.BMP) func(context.Context) error {
		return func(context.Context) error { return b.speaker.SetMonitor(monitor(c)) }
	}
	return []step{{what: "BMP has other settings", do: set(next), undo: set(had)}}
}

// mustReconnect reports whether a peer can take other settings only by a new session, or by
// other state in the kernel.
func (b *Border) mustReconnect(former, p *config.Peer) bool {
	a, c := fixed(*former), fixed(*p)
	a.Communities = c.Communities
	if _, _, differs := entries([]config.Peer{a}, []config.Peer{c}, peerName); len(differs) > 0 {
		return true
	}
	n, err := b.neighbor(p)
	return err != nil || (len(n.Families) > 0 && !b.speaker.HasNeighbor(n)) // as by another password
}

// configured takes the configuration as the present one.
func (b *Border) configured(file *config.File) {
	b.takeImport(file.Border)
	b.config, b.common = file.Border, &file.Border.Common
	b.planner.Configure(file.Border)
	b.takePorts(file.Border.Ports)
	for i := range file.Border.Peers {
		p := &file.Border.Peers[i]
		b.remember(p)
	}
}

func (b *Border) join(what string, p *config.Peer) step {
	return step{
		what:  what,
		check: func() error { return b.joinable(p) },
		do:    func(ctx context.Context) error { return b.addPeer(ctx, p) },
		undo:  func(ctx context.Context) error { return b.removePeer(ctx, p) },
	}
}

func (b *Border) leave(what string, p *config.Peer) step {
	return step{
		what: what,
		do:   func(ctx context.Context) error { return b.removePeer(ctx, p) },
		undo: func(ctx context.Context) error { return b.addPeer(ctx, p) },
	}
}

// joinable reports why a peer cannot be added.
func (b *Border) joinable(p *config.Peer) error {
	if b.config.SRv6.VRF == config.ToggleOn && b.lookupOf(p, b.features) != border.ByVRF {
		return fmt.Errorf("peer %s: %w", p.Name, missing(b.features, "VRF", "EndDT46"))
	}
	n, err := b.neighbor(p)
	if err == nil && len(n.Families) > 0 {
		err = n.WithDefaults().Validate(b.config.ASN)
	}
	return err
}

// addPeer begins with a further peer.
func (b *Border) addPeer(ctx context.Context, p *config.Peer) error {
	if err := b.equip(ctx, p); err != nil {
		return err
	}
	err := b.inLoop(ctx, func(loop context.Context) error {
		var drained error
		var first kernel.Change
		b.locked(func() {
			first = b.planner.Add(p)
			b.sessions.add(p.Name, kindPeer, p.Address, p.ASN, time.Now())
			drained = b.redrain(p.Name)
		})
		return errors.Join(drained, b.tables.Apply(loop, first))
	})
	if err != nil {
		return err
	}
	n, err := b.neighbor(p)
	if err != nil {
		return err
	}
	if len(n.Families) == 0 {
		b.locked(func() { b.sessions.refuse(p.Name, noFamily) })
		return b.inLoop(ctx, func(context.Context) error {
			b.locked(func() { b.planner.PeerDown(p.Name, noFamily) })
			return nil
		})
	}
	b.remember(p)
	if err := b.speaker.AddNeighbor(n); err != nil {
		return errors.Join(err, b.forgetPeer(context.WithoutCancel(ctx), p))
	}
	return nil
}

// equip makes the devices of a peer, and the sysctls for them.
func (b *Border) equip(ctx context.Context, p *config.Peer) error {
	return b.inLoop(ctx, func(context.Context) error {
		lookup := b.lookupOf(p, b.features)
		b.locked(func() { b.lookups[p.Name] = lookup })
		if lookup == border.ByTable {
			return nil
		}
		wanted := b.sysctls()
		if err := b.devices.sysctls(b.config.Kernel.SetSysctls, wanted); err != nil {
			return err
		}
		b.locked(func() { b.host.sysctls = wanted })
		return b.makeDevices(p)
	})
}

// removePeer takes back everything of a peer: servers leave its path, then its SID, its table and
// its session go.
func (b *Border) removePeer(ctx context.Context, p *config.Peer) error {
	b.byName.Delete(p.Name)
	err := b.inLoop(ctx, func(context.Context) error {
		if timer := b.torn[p.Name]; timer != nil {
			timer.Stop()
		}
		delete(b.torn, p.Name)
		b.locked(func() { b.planner.Remove(p.Name) })
		return nil
	})
	if err != nil {
		return err
	}
	if n, err := b.neighbor(p); err != nil || len(n.Families) > 0 {
		if err := b.speaker.RemoveNeighbor(p.Name); err != nil {
			b.log.Warn("ending the session of a removed peer", "peer", p.Name, "error", err)
		}
	}
	return b.forgetPeer(ctx, p)
}

func (b *Border) forgetPeer(ctx context.Context, p *config.Peer) error {
	b.byName.Delete(p.Name)
	if err := b.settled(ctx, p.Name); err != nil {
		return err
	}
	return b.inLoop(ctx, func(loop context.Context) error {
		var left kernel.Change
		b.locked(func() {
			left = b.planner.Forget(p.Name)
			b.sessions.remove(p.Name)
			b.dropped(p.Name)
		})
		if err := b.tables.Apply(loop, left); err != nil {
			return err
		}
		lookup := b.lookups[p.Name]
		b.locked(func() { delete(b.lookups, p.Name) })
		if lookup == border.ByTable {
			return nil
		}
		enter, leave := pairNames(p.Table)
		for _, name := range []string{vrfName(p.Table), enter, leave} {
			delete(b.devices.made, name)
		}
		return b.devices.devices.remove(b.devices.made)
	})
}

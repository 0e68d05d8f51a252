package agent

import (
	"context"
	"fmt"
	"time"

	"hikyaku/egress/config"
	"hikyaku/egress/speaker"
)

// neighbours adds and removes BGP sessions, see [speaker.Speaker].
type neighbours interface {
	AddNeighbor(speaker.Neighbor) error
	RemoveNeighbor(name string) error
	HasNeighbor(speaker.Neighbor) bool
}

func reflectorName(r *config.Reflector) string { return r.Name }

// routerKind is a kind of routers of the own AS with sessions.
type routerKind struct {
	kind string
	// neighbor returns the settings of a session.
	neighbor func(config.Reflector) (speaker.Neighbor, error)
}

// reflectorSteps are those for other reflectors. neighbor returns the settings of a session.
func (e *engine) reflectorSteps(next *config.Common, neighbor func(config.Reflector) (speaker.Neighbor, error)) ([]step, error) {
	return e.routerSteps(routerKind{kindReflector, neighbor}, e.common.Reflectors, next.Reflectors)
}

// routerSteps are those for other routers of a kind.
func (e *engine) routerSteps(of routerKind, had, next []config.Reflector) ([]step, error) {
	var leave, join []step
	removed, _, _ := entries(had, next, reflectorName)
	for _, name := range removed {
		leave = append(leave, e.leaveRouter(of.kind+" "+name+" is removed", *entry(had, name, reflectorName), of))
	}
	for _, r := range next {
		n, err := of.neighbor(r)
		if err != nil {
			return nil, err
		}
		former := entry(had, r.Name, reflectorName)
		switch {
		case former == nil:
			join = append(join, e.joinRouter(of.kind+" "+r.Name+" is added", r, of))
		case !e.bgp.(neighbours).HasNeighbor(n):
			leave = append(leave, e.leaveRouter(of.kind+" "+r.Name+" has other settings", *former, of))
			join = append(join, e.joinRouter(of.kind+" "+r.Name+" is connected anew", r, of))
		}
	}
	// An address may move from one to another.
	return append(leave, join...), nil
}

func (e *engine) joinRouter(what string, r config.Reflector, of routerKind) step {
	return step{
		what: what,
		do: func(ctx context.Context) error {
			n, err := of.neighbor(r)
			if err != nil {
				return err
			}
			e.locked(func() { e.sessions.add(r.Name, of.kind, r.Address, e.common.ASN, time.Now()) })
			if err := e.bgp.(neighbours).AddNeighbor(n); err != nil {
				e.locked(func() { e.sessions.remove(r.Name) })
				return err
			}
			return nil
		},
		undo: func(ctx context.Context) error { return e.removeRouter(ctx, r.Name) },
	}
}

func (e *engine) leaveRouter(what string, r config.Reflector, of routerKind) step {
	return step{
		what: what,
		do:   func(ctx context.Context) error { return e.removeRouter(ctx, r.Name) },
		undo: e.joinRouter(what, r, of).do,
	}
}

func (e *engine) removeRouter(ctx context.Context, name string) error {
	if err := e.bgp.(neighbours).RemoveNeighbor(name); err != nil {
		return fmt.Errorf("ending the session: %w", err)
	}
	if err := e.settled(ctx, name); err != nil {
		return err
	}
	e.locked(func() { e.sessions.remove(name) })
	return nil
}

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

// reflectorSteps are those for other reflectors. neighbor returns the settings of a session.
func (e *engine) reflectorSteps(next *config.Common, neighbor func(config.Reflector) (speaker.Neighbor, error)) ([]step, error) {
	var leave, join []step
	had := e.common.Reflectors
	removed, _, _ := entries(had, next.Reflectors, reflectorName)
	for _, name := range removed {
		leave = append(leave, e.leaveReflector("reflector "+name+" is removed", *entry(had, name, reflectorName), neighbor))
	}
	for _, r := range next.Reflectors {
		n, err := neighbor(r)
		if err != nil {
			return nil, err
		}
		former := entry(had, r.Name, reflectorName)
		switch {
		case former == nil:
			join = append(join, e.joinReflector("reflector "+r.Name+" is added", r, neighbor))
		case !e.bgp.(neighbours).HasNeighbor(n):
			leave = append(leave, e.leaveReflector("reflector "+r.Name+" has other settings", *former, neighbor))
			join = append(join, e.joinReflector("reflector "+r.Name+" is connected anew", r, neighbor))
		}
	}
	// An address may move from one to another.
	return append(leave, join...), nil
}

func (e *engine) joinReflector(what string, r config.Reflector, neighbor func(config.Reflector) (speaker.Neighbor, error)) step {
	return step{
		what: what,
		do: func(ctx context.Context) error {
			n, err := neighbor(r)
			if err != nil {
				return err
			}
			e.locked(func() { e.sessions.add(r.Name, kindReflector, r.Address, e.common.ASN, time.Now()) })
			if err := e.bgp.(neighbours).AddNeighbor(n); err != nil {
				e.locked(func() { e.sessions.remove(r.Name) })
				return err
			}
			return nil
		},
		undo: func(ctx context.Context) error { return e.removeReflector(ctx, r.Name) },
	}
}

func (e *engine) leaveReflector(what string, r config.Reflector, neighbor func(config.Reflector) (speaker.Neighbor, error)) step {
	return step{
		what: what,
		do:   func(ctx context.Context) error { return e.removeReflector(ctx, r.Name) },
		undo: e.joinReflector(what, r, neighbor).do,
	}
}

func (e *engine) removeReflector(ctx context.Context, name string) error {
	if err := e.bgp.(neighbours).RemoveNeighbor(name); err != nil {
		return fmt.Errorf("ending the session: %w", err)
	}
	if err := e.settled(ctx, name); err != nil {
		return err
	}
	e.locked(func() { e.sessions.remove(name) })
	return nil
}

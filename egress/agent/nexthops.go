package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"hikyaku/egress/border"
	"hikyaku/egress/config"
)

// resolve asks the kernel where a next hop is.
func resolve(d *devices, p *config.Peer, nextHop netip.Addr) (border.Hop, error) {
	if nextHop.Is4In6() {
		return border.Hop{}, fmt.Errorf("next hop %s of peer %s is an IPv4 address, which IPv6 packets cannot be sent to", nextHop, p.Name)
	}
	device, err := d.peerDevice(p)
	if err != nil {
		return border.Hop{}, err
	}
	gateway, by, err := d.route(net.IP(nextHop.AsSlice()), device)
	if nextHop.IsLinkLocalUnicast() && device != "" && !errors.Is(err, errNoNeighbour) {
		return border.Hop{Device: device, Gateway: nextHop.WithZone("")}, nil
	}
	if err == nil && gateway != nil && p.Multihop == 1 {
		// As RFC 4271 §5.1.3 has it. Else a link that is down would turn its
		// peer's packets over to whoever has the default route.
		err = fmt.Errorf("it is behind %s on %s, not on a link with the peer; `multihop` allows that", gateway, by)
	}
	if err != nil {
		return border.Hop{}, fmt.Errorf("finding the way to next hop %s of peer %s: %w", nextHop, p.Name, err)
	}
	return hopBy(by, gateway, nextHop), nil
}

// resolveInside asks the kernel where another border is.
func resolveInside(d *devices, nextHop netip.Addr) (border.Hop, error) {
	gateway, by, err := d.route(net.IP(nextHop.AsSlice()), "")
	if err != nil {
		return border.Hop{}, fmt.Errorf("finding the way to the border %s: %w", nextHop, err)
	}
	return hopBy(by, gateway, nextHop), nil
}

// peerDevice is the device that a peer's next hops must be on, "" for any. A next hop on
// another link would send packets to a router that does not advertise their prefix.
func (d *devices) peerDevice(p *config.Peer) (string, error) {
	switch {
	case p.Interface != "":
		return p.Interface, nil
	case p.Address.Zone() != "":
		return p.Address.Zone(), nil
	case p.Multihop > 1:
		return "", nil
	}
	_, by, err := d.route(net.IP(p.Address.AsSlice()), "")
	if err != nil {
		return "", fmt.Errorf("finding the way to peer %s: %w", p.Name, err)
	}
	return by, nil
}

func hopBy(device string, gateway net.IP, nextHop netip.Addr) border.Hop {
	hop := border.Hop{Device: device, Gateway: nextHop}
	if via, ok := netip.AddrFromSlice(gateway); ok {
		hop.Gateway = via.Unmap()
	}
	return hop
}

// resolveInterval is how often next hops are resolved again.
const resolveInterval = time.Second

// watchNextHops has next hops followed, until ctx ends.
func (b *Border) watchNextHops(ctx context.Context) {
	every(ctx, resolveInterval, func() {
		b.post(ctx, func(context.Context) { b.locked(b.planner.ResolveAgain) })
	})
}

// every calls do after each interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

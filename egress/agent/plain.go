package agent

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"hikyaku/egress/api"
	"hikyaku/egress/kernel"
)

const (
	// mainSettle is how long changes of the main table are gathered. mainShare is the wait
	// until the next ones are looked at, as a multiple of the time that these took.
	mainSettle = 50 * time.Millisecond
	mainShare  = 10
)

// followMain keeps the mirror of the main table, until ctx ends. It returns a channel that is
// closed then.
func (e *engine) followMain(ctx context.Context, applier *kernel.Applier) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			err := applier.WatchMain(ctx, e.main)
			if ctx.Err() == nil {
				e.log.Warn("the main table is watched anew soon", "error", err)
				sleep(ctx, firstRetry)
			}
		}
	}()
	go e.passMainOn(ctx)
	if e.opts.DryRun == nil { // which has the kernel find nobody
		go e.followNeighbours(ctx)
	}
	return done
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// passMainOn notifies the role of changes.
func (e *engine) passMainOn(ctx context.Context) {
	for {
		select {
		case <-e.main.News:
		case <-ctx.Done():
			return
		}
		sleep(ctx, mainSettle)
		took := make(chan time.Duration, 1)
		ok := e.post(ctx, func(context.Context) {
			began := time.Now()
			prefixes, many := e.main.Take()
			e.locked(func() { e.role.mainChanged(prefixes, many) })
			took <- time.Since(began)
		})
		if !ok {
			return
		}
		select {
		case t := <-took:
			sleep(ctx, mainShare*t)
		case <-ctx.Done():
			return
		}
	}
}

// followNeighbours keeps the link-layer addresses of neighbours that the role watches.
func (e *engine) followNeighbours(ctx context.Context) {
	d, err := openDevices()
	if err != nil {
		e.log.Error("watching neighbours", "error", err)
		return
	}
	defer d.close()
	failed := false
	var last map[kernel.MainHop]string
	for ctx.Err() == nil {
		var watched []kernel.MainHop
		e.locked(func() { watched = e.role.watched() })
		macs, err := d.neighbours(watched, last)
		if err != nil && !failed {
			e.log.Warn("reading the table of neighbours, by which plain packets' next hops are recognized", "error", err)
		}
		failed = err != nil
		if err == nil {
			last = macs
			e.post(ctx, func(context.Context) { e.locked(func() { e.role.setNeighbours(macs) }) })
		}
		sleep(ctx, resolveInterval)
	}
}

// neighbours returns the link-layer addresses of the watched neighbours. The kernel is asked
// to find those that it does not know. Meanwhile the last ones hold: it forgets neighbours
// that nothing is sent to.
func (d *devices) neighbours(watched []kernel.MainHop, last map[kernel.MainHop]string) (map[kernel.MainHop]string, error) {
	macs := make(map[kernel.MainHop]string)
	byDevice := make(map[string][]netip.Addr)
	for _, hop := range watched {
		byDevice[hop.Device] = append(byDevice[hop.Device], hop.Gateway)
	}
	for device, addresses := range byDevice {
		link, err := d.handle.LinkByName(device)
		if err != nil || link.Attrs().RawFlags&unix.IFF_NOARP != 0 || link.Attrs().RawFlags&unix.IFF_LOWER_UP == 0 {
			continue // gone or down, and without such addresses
		}
		index := link.Attrs().Index
		known, err := d.handle.NeighList(index, netlink.FAMILY_ALL)
		if err != nil {
			return nil, err
		}
		found := make(map[netip.Addr]string)
		for _, n := range known {
			a, ok := netip.AddrFromSlice(n.IP)
			if ok && len(n.HardwareAddr) > 0 && n.State&(unix.NUD_FAILED|unix.NUD_INCOMPLETE) == 0 {
				found[a.Unmap()] = string(n.HardwareAddr)
			}
		}
		for _, a := range addresses {
			hop := kernel.MainHop{Device: device, Gateway: a}
			if found[a] == "" {
				_ = d.handle.NeighSet(&netlink.Neigh{LinkIndex: index, IP: net.IP(a.AsSlice()), Flags: unix.NTF_USE})
			}
			if mac := cmp.Or(found[a], last[hop]); mac != "" {
				macs[hop] = mac
			}
		}
	}
	return macs, nil
}

func (b *Border) mainChanged(prefixes []netip.Prefix, many bool) {
	b.planner.MainChanged(prefixes, many)
}

// watched are the gateways of peers' routes, and those of the main table on the same devices.
func (b *Border) watched() []kernel.MainHop {
	hops := b.planner.Gateways()
	devices := make(map[string]bool)
	for _, hop := range hops {
		devices[hop.Device] = true
	}
	for device, gateways := range b.main.Neighbours() {
		for _, gateway := range gateways {
			if devices[device] {
				hops = append(hops, kernel.MainHop{Device: device, Gateway: gateway})
			}
		}
	}
	return hops
}

func (b *Border) setNeighbours(macs map[kernel.MainHop]string) {
	b.planner.SetNeighbours(macs)
	b.planner.Recheck()
}

// watchAddresses has servers know the border's addresses, until ctx ends.
func (b *Border) watchAddresses(ctx context.Context) {
	d, err := openDevices()
	if err != nil {
		b.log.Error("watching the border's addresses", "error", err)
		return
	}
	defer d.close()
	for ctx.Err() == nil {
		if b.main.Known(kernel.IPv6) {
			addresses := d.addresses(b.current().SRv6.Interfaces)
			b.post(ctx, func(context.Context) { b.locked(func() { b.planner.SetAddresses(addresses) }) })
		}
		sleep(ctx, resolveInterval)
	}
}

// addresses returns the IPv6 addresses of interfaces that others may know, sorted.
func (d *devices) addresses(interfaces []string) (list []netip.Addr) {
	for _, name := range interfaces {
		link, err := d.handle.LinkByName(name)
		if err != nil {
			continue
		}
		found, err := d.handle.AddrList(link, netlink.FAMILY_V6)
		if err != nil {
			continue
		}
		for _, one := range found {
			if a, ok := netip.AddrFromSlice(one.IP); ok && a.IsGlobalUnicast() && !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

func (s *Server) mainChanged(prefixes []netip.Prefix, many bool) {
	if many || len(prefixes) > maxNamed {
		prefixes = nil
	}
	s.hub.Publish(api.Event{Routes: &api.RouteChange{Prefixes: prefixes}})
	s.subflows.reconsider(prefixes)
}

// watched are the gateways of the main table, and borders' addresses on the same devices.
func (s *Server) watched() (hops []kernel.MainHop) {
	borders := s.planner.BorderAddresses()
	for device, gateways := range s.main.Neighbours() {
		for _, gateway := range gateways {
			hops = append(hops, kernel.MainHop{Device: device, Gateway: gateway})
		}
		for _, a := range borders {
			if s.isOnLink(device, a) {
				hops = append(hops, kernel.MainHop{Device: device, Gateway: a})
			}
		}
	}
	return hops
}

// isOnLink reports whether an address is a neighbour's on a device.
func (s *Server) isOnLink(device string, a netip.Addr) bool {
	_, hops, ok := s.main.Longest(netip.PrefixFrom(a, a.BitLen()))
	return ok && slices.Contains(hops.List, kernel.MainHop{Device: device})
}

func (s *Server) setNeighbours(macs map[kernel.MainHop]string) {
	s.planner.SetNeighbours(macs)
	s.publishPlain()
}

// publishPlain notifies watchers when plain packets may leave otherwise, whoever the client.
func (s *Server) publishPlain() {
	if s.planner.TakePlainChanged() {
		s.mainChanged(nil, true)
	}
}

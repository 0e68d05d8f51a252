package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"hikyaku/egress/kernel/internal/rtnl"
)

// MainHop is where a route of the main table sends packets.
type MainHop struct {
	// Device is the name of the device.
	Device string
	// Gateway is the neighbour on it; not valid where the destination is on the link.
	Gateway netip.Addr
}

// MainRoute is a route of the main table, whoever has made it.
type MainRoute struct {
	Prefix netip.Prefix
	Metric uint32
	// Hops are all next hops of a multipath route. There is none where the route drops
	// packets, or leads to a nexthop object that the kernel does not show.
	Hops []MainHop
}

// MainWatcher takes what [Applier.WatchMain] reads. One goroutine calls it.
type MainWatcher interface {
	// Begin says that all routes of a family follow, until End. Former ones are void.
	Begin(Family)
	End(Family)
	// Put takes a route. Unless it replaces those of its prefix and metric, it stands
	// beside them: the kernel has equal routes of several origins.
	Put(route MainRoute, replaces bool)
	// Delete takes a removed route, or the removed next hops of a route.
	Delete(MainRoute)
}

const (
	// mainSettle is how long after a device went down the table is read again, so that
	// devices that go down together cost one reading.
	mainSettle = 200 * time.Millisecond
	// mainReread is how soon it is read again after a reading that was never whole.
	mainReread = time.Minute
)

// WatchMain calls w for each route of the main table and for each change, until ctx is done.
// Routes with a source prefix or a TOS are left out. When a device goes down, it reads the
// table again: the kernel removes IPv4 routes silently then.
func (a *Applier) WatchMain(ctx context.Context, w MainWatcher) error {
	if err := a.following.Filter(mainFilter()); err != nil {
		return err
	}
	m := mainReader{applier: a, watcher: w}
	groups := []int{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE}
	for {
		round, end := context.WithCancel(ctx)
		m.again = func(after time.Duration) { time.AfterFunc(after, end) }
		err := a.following.Watch(round, groups, m.readAll, m.notice)
		renew := round.Err() != nil || errors.Is(err, rtnl.ErrOverrun)
		end()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !renew {
			return fmt.Errorf("watching the main table: %w", err)
		}
	}
}

// mainReader parses messages on routes of the main table.
type mainReader struct {
	applier *Applier
	watcher MainWatcher
	devices map[uint32]Link
	again   func(after time.Duration) // has the table read again
}

// readAll reads the table.
func (m *mainReader) readAll() (err error) {
	if m.devices, err = m.applier.links(); err != nil {
		return err
	}
	for _, family := range []Family{IPv6, IPv4} {
		var b rtnl.Batch
		b.Begin(unix.RTM_GETROUTE, unix.NLM_F_DUMP, uint8(family), 0, 0, 0, unix.RT_TABLE_MAIN, 0, 0, 0, 0, 0, 0, 0)
		b.End()
		err := m.applier.reading.Query(&b, func() { m.watcher.Begin(family) }, func(_ uint16, body []byte) error {
			if route, ok := m.parse(body); ok {
				m.watcher.Put(route, false)
			}
			return nil
		})
		if errors.Is(err, unix.EAGAIN) {
			// It changes all the time. The notices of that come behind this reading.
			m.again(mainReread)
		} else if err != nil {
			return fmt.Errorf("reading the main table: %w", err)
		}
		m.watcher.End(family)
	}
	return nil
}

// notice takes one message of the kernel.
func (m *mainReader) notice(kind, flags uint16, body []byte) {
	switch kind {
	case unix.RTM_NEWROUTE:
		if route, ok := m.parse(body); ok {
			m.watcher.Put(route, flags&unix.NLM_F_REPLACE != 0)
		}
	case unix.RTM_DELROUTE:
		if route, ok := m.parse(body); ok {
			m.watcher.Delete(route)
		}
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		l := parseLink(body)
		before, known := m.devices[l.index]
		switch {
		case l.ofBridge:
		case kind == unix.RTM_DELLINK || known && before.Up && !l.Up || known && before.Device != l.Device:
			m.again(mainSettle)
			fallthrough
		default:
			m.devices[l.index] = l.Link
		}
	}
}

// parse reads a route; ok is false for those that are left out.
func (m *mainReader) parse(body []byte) (route MainRoute, ok bool) {
	if len(body) < routeHeaderSize || body[4] != unix.RT_TABLE_MAIN {
		return route, false
	}
	const cloned = 1 << 9 // RTM_F_CLONED: a cache entry
	sourceBits, tos, flags := body[2], body[3], rtnl.Uint32(body[8:])
	if sourceBits != 0 || tos != 0 || flags&cloned != 0 {
		return route, false
	}
	family := Family(body[0])
	dst := netip.IPv6Unspecified()
	if family == IPv4 {
		dst = netip.IPv4Unspecified()
	}
	var one MainHop
	for kind, value := range rtnl.Attributes(body[routeHeaderSize:]) {
		switch kind {
		case unix.RTA_DST:
			dst = rtnl.Addr(value)
		case unix.RTA_PRIORITY:
			route.Metric = rtnl.Uint32(value)
		case unix.RTA_OIF:
			one.Device = m.device(rtnl.Uint32(value))
		case unix.RTA_MULTIPATH:
			route.Hops = m.multipath(value)
		default:
			one.take(kind, value)
		}
	}
	if one.Device != "" && len(route.Hops) == 0 && body[7] == unix.RTN_UNICAST {
		route.Hops = []MainHop{one}
	}
	route.Prefix = netip.PrefixFrom(dst, int(body[1]))
	return route, route.Prefix.IsValid()
}

// take reads an attribute that names the gateway.
func (h *MainHop) take(kind uint16, value []byte) {
	switch {
	case kind == unix.RTA_GATEWAY:
		h.Gateway = rtnl.Addr(value)
	case kind == unix.RTA_VIA && len(value) > 2: // a gateway of the other family, behind its number
		h.Gateway = rtnl.Addr(value[2:])
	}
}

// multipath reads the next hops of a route, each with a header of eight bytes (struct
// rtnexthop).
func (m *mainReader) multipath(buf []byte) (hops []MainHop) {
	for len(buf) >= unix.SizeofRtNexthop {
		size := int(binary.NativeEndian.Uint16(buf))
		if size < unix.SizeofRtNexthop || size > len(buf) {
			return hops
		}
		hop := MainHop{Device: m.device(rtnl.Uint32(buf[4:]))}
		for kind, value := range rtnl.Attributes(buf[unix.SizeofRtNexthop:size]) {
			hop.take(kind, value)
		}
		hops = append(hops, hop)
		buf = buf[min((size+3)&^3, len(buf)):]
	}
	return hops
}

// device names a device by its number.
func (m *mainReader) device(index uint32) string {
	if l, known := m.devices[index]; known {
		return l.Device
	}
	return fmt.Sprintf("device %d", index)
}

// mainFilter has the kernel leave out messages on routes of other tables. So a peer's table
// that is loaded never gets to the socket.
func mainFilter() []unix.SockFilter {
	const (
		kindOffset  = 4
		tableOffset = unix.NLMSG_HDRLEN + 4 // rtm_table
		load        = unix.BPF_LD | unix.BPF_ABS
		jumpIfEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		end         = unix.BPF_RET | unix.BPF_K
	)
	return []unix.SockFilter{
		{Code: load | unix.BPF_H, K: kindOffset},
		{Code: jumpIfEqual, Jt: 1, K: inMessages16(unix.RTM_NEWROUTE)},
		{Code: jumpIfEqual, Jf: 2, K: inMessages16(unix.RTM_DELROUTE)},
		{Code: load | unix.BPF_B, K: tableOffset},
		{Code: jumpIfEqual, Jf: 1, K: unix.RT_TABLE_MAIN},
		{Code: end, K: 0xffffffff},
		{Code: end},
	}
}

package kernel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"hikyaku/egress/kernel/internal/rtnl"
)

// Loss is state of ours that others have removed.
type Loss struct {
	// Removed is the state whose removal the kernel has reported.
	Removed State
	// Overrun: it could not report all, since too much was removed at once.
	Overrun bool
	// Until is when the last of it was reported.
	Until time.Time
}

const (
	// lossSettle is how long nothing more must be removed before a loss is reported. To
	// flush a table or restart a daemon removes much at once. lossPatience bounds the wait
	// for that.
	lossSettle   = 100 * time.Millisecond
	lossPatience = time.Second
)

// notice is one message of the kernel, or that some were lost.
type notice struct {
	kind    uint16
	body    []byte
	overrun bool
}

// WatchLosses calls begun once it watches, and then lost, until ctx is done, for each
// removal of state that carries our mark. Removals by this Applier are left out, those by
// the kernel itself, as of a nexthop's routes, are not. While lost does not return nothing
// is read, so that at worst an overrun is reported. A loss is for [Tables.Restore].
func (a *Applier) WatchLosses(ctx context.Context, begun func(), lost func(Loss)) error {
	filter, err := a.lossFilter()
	if err == nil {
		err = a.noticing.Filter(filter)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	notices, ended := make(chan notice, 1024), make(chan error, 1)
	go func() { ended <- a.notice(ctx, begun, notices) }()
	c := lossCollector{reader: reader{protocol: a.protocol, addresses: a.addresses}}
	settled := time.NewTimer(lossPatience)
	settled.Stop()
	for {
		select {
		case err := <-ended:
			cancel()
			return err
		case n := <-notices:
			settled.Reset(c.add(n, time.Now()))
		case <-settled.C:
			loss, err := c.take(a.links)
			if err != nil {
				cancel()
				<-ended
				return err
			}
			lost(loss)
		}
	}
}

// lossGroups are the notifications for everything that a [State] has, but for the tunnel
// source.
var lossGroups = []int{
	unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
	unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_NEXTHOP,
}

// notice passes messages on until ctx is done.
func (a *Applier) notice(ctx context.Context, begun func(), to chan<- notice) error {
	pass := func(n notice) {
		select {
		case to <- n:
		case <-ctx.Done():
		}
	}
	overrun := false
	for {
		err := a.noticing.Watch(ctx, lossGroups, func() error {
			if !overrun {
				begun()
				return nil
			}
			pass(notice{overrun: true}) // a reading from now on misses nothing
			return nil
		}, func(kind, _ uint16, body []byte) { pass(notice{kind: kind, body: bytes.Clone(body)}) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if overrun = errors.Is(err, rtnl.ErrOverrun); !overrun {
			return fmt.Errorf("watching what others remove: %w", err)
		}
	}
}

// lossCollector gathers reported removals until they have settled.
type lossCollector struct {
	reader reader
	// addresses name their devices by numbers.
	addresses [][]byte
	overrun   bool
	first     time.Time // zero while there is nothing
	last      time.Time
}

// add takes a message and returns how long to wait for more.
func (c *lossCollector) add(n notice, now time.Time) time.Duration {
	if c.last = now; c.first.IsZero() {
		c.first = now
	}
	switch {
	case n.overrun:
		c.overrun = true
	case n.kind == unix.RTM_DELADDR:
		c.addresses = append(c.addresses, n.body)
	case n.kind == unix.RTM_DELRULE:
		c.reader.rule(n.body)
	case n.kind == unix.RTM_DELNEXTHOP:
		c.reader.nexthop(n.body)
	case n.kind == unix.RTM_DELROUTE && len(n.body) > 0:
		c.reader.route(Family(n.body[0]))(n.body)
	}
	return max(0, min(lossSettle, c.first.Add(lossPatience).Sub(now)))
}

// take returns the gathered removals, and begins anew.
func (c *lossCollector) take(links func() (map[uint32]Link, error)) (Loss, error) {
	if len(c.addresses) > 0 {
		var err error
		if c.reader.devices, err = links(); err != nil {
			return Loss{}, err
		}
	}
	for _, body := range c.addresses {
		c.reader.address(body)
	}
	loss := Loss{Removed: c.reader.state, Overrun: c.overrun, Until: c.last}
	*c = lossCollector{reader: reader{protocol: c.reader.protocol, addresses: c.reader.addresses}}
	return loss, nil
}

// lossFilter has the kernel leave out messages that are not of removals, not ours, or of
// our own removals. So of a full table that is loaded nothing gets to the socket. The
// instructions read numbers in network byte order.
func (a *Applier) lossFilter() ([]unix.SockFilter, error) {
	const (
		kindOffset     = 4
		senderOffset   = 12
		nexthopOffset  = unix.NLMSG_HDRLEN + 2 // nh_protocol
		routeOffset    = unix.NLMSG_HDRLEN + 5 // rtm_protocol
		ofRoute, ofNH  = 5, 7                  // places below
		bySender       = 9
		load           = unix.BPF_LD | unix.BPF_ABS
		jumpIfEqual    = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		end            = unix.BPF_RET | unix.BPF_K
		everything     = 0xffffffff
		sendersOfOurs  = 2
		accept, reject = bySender + 1 + sendersOfOurs, bySender + 2 + sendersOfOurs
	)
	var program []unix.SockFilter
	read := func(size uint16, offset uint32) {
		program = append(program, unix.SockFilter{Code: load | size, K: offset})
	}
	// jump goes to a place, where 0 is the next one.
	jump := func(value uint32, then, otherwise int) {
		distance := func(place int) uint8 { return uint8(max(0, place-len(program)-1)) }
		program = append(program, unix.SockFilter{Code: jumpIfEqual, Jt: distance(then), Jf: distance(otherwise), K: value})
	}
	read(unix.BPF_H, kindOffset)
	jump(inMessages16(unix.RTM_DELROUTE), ofRoute, 0)
	jump(inMessages16(unix.RTM_DELNEXTHOP), ofNH, 0)
	jump(inMessages16(unix.RTM_DELADDR), bySender, 0)
	jump(inMessages16(unix.RTM_DELRULE), bySender, reject)
	read(unix.BPF_B, routeOffset)
	jump(uint32(a.protocol), bySender, reject)
	read(unix.BPF_B, nexthopOffset)
	jump(uint32(a.protocol), bySender, reject)
	read(unix.BPF_W, senderOffset)
	for _, conn := range [sendersOfOurs]*rtnl.Conn{a.writing, a.urgent} {
		id, err := conn.PortID()
		if err != nil {
			return nil, err
		}
		jump(inMessages32(id), reject, 0)
	}
	return append(program, unix.SockFilter{Code: end, K: everything}, unix.SockFilter{Code: end}), nil
}

// inMessages16 and inMessages32 give a number as it looks in network byte order where
// netlink has written it in the machine's.
func inMessages16(value uint16) uint32 {
	return uint32(binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, value)))
}

func inMessages32(value uint32) uint32 { return binary.BigEndian.Uint32(native(value)) }

package kernel

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"hikyaku/egress/kernel/internal/rtnl"
)

// Link is a network device.
type Link struct {
	Device string
	// Up is set when the device is up and has a carrier: only then does the kernel
	// keep nexthop objects on it.
	Up bool
}

type link struct {
	Link
	index uint32
	group uint32
}

const linkHeaderSize = 16 // struct ifinfomsg

// link asks for one device.
func (a *Applier) link(name string) (link, error) {
	var b rtnl.Batch
	b.Begin(unix.RTM_GETLINK, unix.NLM_F_ACK, make([]byte, linkHeaderSize)...)
	b.String(unix.IFLA_IFNAME, name)
	b.End()
	var found link
	err := a.urgent.Query(&b, func() {}, func(_ uint16, body []byte) error {
		found = parseLink(body)
		return nil
	})
	if err != nil {
		return link{}, fmt.Errorf("finding device %q: %w", name, err)
	}
	return found, nil
}

// links asks for all devices, by their number.
func (a *Applier) links() (map[uint32]string, error) {
	var b rtnl.Batch
	b.Begin(unix.RTM_GETLINK, unix.NLM_F_DUMP, make([]byte, linkHeaderSize)...)
	b.End()
	names := make(map[uint32]string)
	err := a.reading.Query(&b, func() { clear(names) }, func(_ uint16, body []byte) error {
		l := parseLink(body)
		names[l.index] = l.Device
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading devices: %w", err)
	}
	return names, nil
}

func parseLink(body []byte) link {
	if len(body) < linkHeaderSize {
		return link{}
	}
	const running = unix.IFF_UP | unix.IFF_LOWER_UP
	l := link{index: rtnl.Uint32(body[4:])}
	l.Up = rtnl.Uint32(body[8:])&running == running
	for kind, value := range rtnl.Attributes(body[linkHeaderSize:]) {
		switch kind {
		case unix.IFLA_IFNAME:
			l.Device = rtnl.String(value)
		case unix.IFLA_GROUP:
			l.group = rtnl.Uint32(value)
		}
	}
	return l
}

// WatchLinks calls changed for each change of a device, until ctx is done. The kernel
// removes nexthop objects and their routes without a word when their device goes
// down, so who uses real devices calls [Tables.Repair] when one is up again. An error
// that is not the context's means that changes may have been missed.
func (a *Applier) WatchLinks(ctx context.Context, changed func(Link)) error {
	err := a.watching.Watch(ctx, unix.RTNLGRP_LINK, func(kind uint16, body []byte) {
		if kind != unix.RTM_NEWLINK && kind != unix.RTM_DELLINK {
			return
		}
		l := parseLink(body)
		l.Up = l.Up && kind == unix.RTM_NEWLINK
		changed(l.Link)
	})
	if err != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("watching devices: %w", err)
	}
	return err
}

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
	// New: it was not there when [Applier.WatchLinks] began. Gone: it is removed, or has
	// another name now. Both are set by WatchLinks alone.
	New, Gone bool
}

type link struct {
	Link
	index uint32
	group uint32
	// ofBridge: the message is of AF_BRIDGE.
	ofBridge bool
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
func (a *Applier) links() (map[uint32]Link, error) {
	var b rtnl.Batch
	b.Begin(unix.RTM_GETLINK, unix.NLM_F_DUMP, make([]byte, linkHeaderSize)...)
	b.End()
	links := make(map[uint32]Link)
	err := a.reading.Query(&b, func() { clear(links) }, func(_ uint16, body []byte) error {
		l := parseLink(body)
		links[l.index] = l.Link
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading devices: %w", err)
	}
	return links, nil
}

func parseLink(body []byte) link {
	if len(body) < linkHeaderSize {
		return link{}
	}
	const running = unix.IFF_UP | unix.IFF_LOWER_UP
	l := link{index: rtnl.Uint32(body[4:]), ofBridge: body[0] == unix.AF_BRIDGE}
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

// WatchLinks calls changed for each device that there is, and for each that changes, until
// ctx is done. It includes those whose changes the kernel could not report, since too many
// came at once. The kernel removes nexthop objects and their routes silently when their
// device goes down. So callers that use real devices call [Tables.Reset] when one is up
// again.
func (a *Applier) WatchLinks(ctx context.Context, changed func(Link)) error {
	w := linkWatch{known: make(map[uint32]Link), changed: changed}
	readAll := func() error {
		links, err := a.links()
		if err == nil {
			w.replace(links)
		}
		return err
	}
	for {
		err := a.watching.Watch(ctx, []int{unix.RTNLGRP_LINK}, readAll, func(kind, _ uint16, body []byte) {
			l := parseLink(body)
			switch {
			case l.ofBridge: // of a device's place in a bridge, which may end
			case kind == unix.RTM_NEWLINK:
				w.set(l.index, l.Link)
			case kind == unix.RTM_DELLINK:
				w.remove(l.index)
			}
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.Is(err, rtnl.ErrOverrun) {
			return fmt.Errorf("watching devices: %w", err)
		}
	}
}

// linkWatch reports devices as they are now. One that is removed, or gets another name,
// counts as down.
type linkWatch struct {
	known   map[uint32]Link // by number
	changed func(Link)
	begun   bool // the devices that were there first are known
}

func (w *linkWatch) set(index uint32, l Link) {
	before, there := w.known[index]
	if there && before.Device != l.Device {
		w.remove(index)
	}
	w.known[index] = l
	l.New = w.begun && before.Device != l.Device
	w.changed(l)
}

func (w *linkWatch) remove(index uint32) {
	if l, there := w.known[index]; there {
		delete(w.known, index)
		w.changed(Link{Device: l.Device, Gone: true})
	}
}

// replace takes all devices that there are.
func (w *linkWatch) replace(links map[uint32]Link) {
	for index := range w.known {
		if _, there := links[index]; !there {
			w.remove(index)
		}
	}
	for index, l := range links {
		w.set(index, l)
	}
	w.begun = true
}

package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"hikyaku/egress/kernel/internal/rtnl"
)

// Numbers of linux/if_link.h and linux/veth.h that golang.org/x/sys lacks.
const (
	inet6AddrGenMode     = 8
	inet6AddrGenModeNone = 1
	vethInfoPeer         = 1
	vrfTable             = 1
)

// anchorPeerSuffix names the other end of an anchor that is a veth pair.
const anchorPeerSuffix = "p"

// EnsureAnchor makes sure that a device of this name is up whose carrier never goes, to
// hang SRv6 nexthops on. It is a dummy where the kernel has them, else a veth pair whose
// other end is called name+"p". mtu is that of the underlay, in bytes. A device with this
// name that we did not make is an error ([ErrForeign]). Ours are known by their device
// group, which is the protocol number.
func (a *Applier) EnsureAnchor(ctx context.Context, name string, mtu uint32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := a.ensureDevice(name, func(b *rtnl.Batch) {
		b.Uint32(unix.IFLA_MTU, mtu)
		kind(b, "dummy", func() {})
	})
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return a.raise(err, mtu, name)
	}
	peer := name + anchorPeerSuffix
	err = a.ensureDevice(name, func(b *rtnl.Batch) {
		b.Uint32(unix.IFLA_MTU, mtu)
		kind(b, "veth", func() {
			b.Nested(vethInfoPeer, func() {
				b.Raw(make([]byte, linkHeaderSize))
				b.String(unix.IFLA_IFNAME, peer)
				b.Uint32(unix.IFLA_GROUP, uint32(a.protocol))
				b.Uint32(unix.IFLA_MTU, mtu)
			})
		})
	})
	return a.raise(err, mtu, name, peer)
}

// EnsureVRF makes sure that there is a VRF device for the table, and that it is up.
// SRv6 endpoints look up by it only where the sysctl net.vrf.strict_mode is 1.
func (a *Applier) EnsureVRF(ctx context.Context, name string, table uint32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := a.ensureDevice(name, func(b *rtnl.Batch) { describeVRF(b, table) })
	if err != nil {
		return fmt.Errorf("making VRF device %q for table %d: %w", name, table, err)
	}
	return a.setUp(name, 0)
}

func describeVRF(b *rtnl.Batch, table uint32) {
	kind(b, "vrf", func() { b.Uint32(vrfTable, table) })
}

// EnsurePair makes sure that there is a veth pair of this name that is up, with name+"p" as
// its other end. A packet routed to the one comes in by the other. No neighbour is asked for
// its address: both ends have one, made of the given number. Rules can then select packets
// by the device that they come in by.
func (a *Applier) EnsurePair(ctx context.Context, name string, number, mtu uint32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	peer := name + anchorPeerSuffix
	address := binary.BigEndian.AppendUint32([]byte{locallyAdministered, 0}, number)
	err := a.ensureDevice(name, func(b *rtnl.Batch) {
		b.Uint32(unix.IFLA_MTU, mtu)
		b.Bytes(unix.IFLA_ADDRESS, address)
		kind(b, "veth", func() {
			b.Nested(vethInfoPeer, func() {
				b.Raw(make([]byte, linkHeaderSize))
				b.String(unix.IFLA_IFNAME, peer)
				b.Uint32(unix.IFLA_GROUP, uint32(a.protocol))
				b.Uint32(unix.IFLA_MTU, mtu)
				b.Bytes(unix.IFLA_ADDRESS, address)
			})
		})
	})
	for _, end := range []string{name, peer} {
		if err == nil {
			err = a.setUpWith(end, mtu, unix.IFF_NOARP)
		}
	}
	if err != nil {
		return fmt.Errorf("making device pair %q: %w", name, err)
	}
	return nil
}

// locallyAdministered begins link-layer addresses that no maker has given (IEEE 802).
const locallyAdministered = 0x02

// raise sets an anchor's ends up, and gives a MTU to one that was there before.
func (a *Applier) raise(err error, mtu uint32, names ...string) error {
	for _, name := range names {
		if err == nil {
			err = a.setUp(name, mtu)
		}
	}
	if err != nil {
		return fmt.Errorf("making anchor device %q: %w", names[0], err)
	}
	return nil
}

// ensureDevice creates a device unless there is one of ours with this name.
func (a *Applier) ensureDevice(name string, describe func(*rtnl.Batch)) error {
	existing, err := a.link(name)
	if err == nil {
		if existing.group != uint32(a.protocol) {
			return fmt.Errorf("device %q: %w", name, ErrForeign)
		}
		return nil
	}
	if !errors.Is(err, unix.ENODEV) {
		return err
	}
	var b rtnl.Batch
	newDevice(&b, name, a.protocol, describe)
	return only(a.urgent.Do(&b))
}

// newDevice appends the request for a device that is not there yet.
func newDevice(b *rtnl.Batch, name string, protocol uint8, describe func(*rtnl.Batch)) {
	b.Begin(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, make([]byte, linkHeaderSize)...)
	b.String(unix.IFLA_IFNAME, name)
	b.Uint32(unix.IFLA_GROUP, uint32(protocol))
	describe(b)
	b.End()
}

// setUp sets a device up, with no address of its own and the given MTU unless 0.
func (a *Applier) setUp(name string, mtu uint32) error { return a.setUpWith(name, mtu, 0) }

// setUpWith is setUp with further flags of the device.
func (a *Applier) setUpWith(name string, mtu, flags uint32) error {
	l, err := a.link(name)
	if err != nil {
		return err
	}
	header := func(flags uint32) []byte {
		h := append(make([]byte, 4), native(l.index)...)
		return append(append(h, native(flags)...), native(flags)...)
	}
	var b rtnl.Batch
	b.Begin(unix.RTM_SETLINK, 0, header(0)...)
	if mtu != 0 {
		b.Uint32(unix.IFLA_MTU, mtu)
	}
	// Without a link-local address the kernel sends nothing of its own there.
	b.Nested(unix.IFLA_AF_SPEC, func() {
		b.Nested(unix.AF_INET6, func() { b.Uint8(inet6AddrGenMode, inet6AddrGenModeNone) })
	})
	b.End()
	b.Begin(unix.RTM_SETLINK, 0, header(unix.IFF_UP|flags)...)
	b.End()
	if err := only(a.urgent.Do(&b)); err != nil {
		return fmt.Errorf("setting device %q up: %w", name, err)
	}
	return nil
}

func kind(b *rtnl.Batch, name string, data func()) {
	b.Nested(unix.IFLA_LINKINFO, func() {
		b.String(unix.IFLA_INFO_KIND, name)
		b.Nested(unix.IFLA_INFO_DATA, data)
	})
}

// only turns the answer to a batch of which all must succeed into an error.
func only(refused []rtnl.Refusal, err error) error {
	if err == nil && len(refused) > 0 {
		return refused[0].Err
	}
	return err
}

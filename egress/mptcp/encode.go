package mptcp

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Endpoint is an address of the in-kernel path manager, which uses it for
// every connection of the namespace.
type Endpoint struct {
	// ID is the address ID, 1 to 255; 0 lets the kernel choose.
	ID   uint8
	Addr netip.Addr
	Port uint16
	// Interface is the index of the interface to bind subflows to, or 0.
	Interface int
	// Signal announces it, Subflow opens subflows from it, Backup makes them
	// backup, Fullmesh opens one to each known remote address.
	Signal, Subflow, Backup, Fullmesh bool
	// Implicit: the kernel made it by itself; read only.
	Implicit bool
}

func (e Endpoint) flags() uint32 {
	var flags uint32
	for _, f := range []struct {
		set bool
		bit uint32
	}{{e.Signal, flagSignal}, {e.Subflow, flagSubflow}, {e.Backup, flagBackup}, {e.Fullmesh, flagFullmesh}} {
		if f.set {
			flags |= f.bit
		}
	}
	return flags
}

// encodeCommand returns the generic netlink command and its attributes.
func encodeCommand(c Command) (uint8, []byte, error) {
	e := netlink.NewAttributeEncoder()
	e.Uint32(attrToken, uint32(c.Token))
	var number uint8
	switch c.Kind {
	case Announce:
		number = cmdAnnounce
		nestEndpoint(e, attrAddr, Endpoint{ID: c.ID, Addr: c.Addr, Port: c.Port, Signal: true, Backup: c.Backup})
	case Remove:
		number = cmdRemove
		e.Uint8(attrLocID, c.ID)
	case CreateSubflow:
		number = cmdSubflowCreate
		nestEndpoint(e, attrAddr, Endpoint{ID: c.ID, Addr: c.Local.Addr(), Port: c.Local.Port()})
		nestEndpoint(e, attrAddrRemote, Endpoint{Addr: c.Remote.Addr(), Port: c.Remote.Port()})
	case DestroySubflow, SetBackup:
		number = cmdSubflowDestroy
		if c.Kind == SetBackup {
			number = cmdSetFlags
		}
		nestEndpoint(e, attrAddr, Endpoint{Addr: c.Local.Addr(), Port: c.Local.Port(), Backup: c.Backup})
		nestEndpoint(e, attrAddrRemote, Endpoint{Addr: c.Remote.Addr(), Port: c.Remote.Port()})
	default:
		return 0, nil, fmt.Errorf("unknown command kind %d", c.Kind)
	}
	data, err := e.Encode()
	return number, data, err
}

func nestEndpoint(e *netlink.AttributeEncoder, attribute uint16, endpoint Endpoint) {
	e.Nested(attribute, func(n *netlink.AttributeEncoder) error {
		if !endpoint.Addr.IsValid() {
			return fmt.Errorf("an address is missing")
		}
		if endpoint.Addr.Is4() {
			n.Uint16(addrFamily, unix.AF_INET)
			n.Bytes(addrIPv4, endpoint.Addr.AsSlice())
		} else {
			n.Uint16(addrFamily, unix.AF_INET6)
			n.Bytes(addrIPv6, endpoint.Addr.AsSlice())
		}
		if endpoint.ID != 0 {
			n.Uint8(addrID, endpoint.ID)
		}
		if endpoint.Port != 0 {
			n.Uint16(addrPort, endpoint.Port)
		}
		if endpoint.Interface != 0 {
			n.Int32(addrIfIndex, int32(endpoint.Interface))
		}
		if flags := endpoint.flags(); flags != 0 {
			n.Uint32(addrFlags, flags)
		}
		return nil
	})
}

// decodeEndpoint reads one answer to cmdGetAddr.
func decodeEndpoint(data []byte) (Endpoint, error) {
	d, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return Endpoint{}, fmt.Errorf("decoding an endpoint: %w", err)
	}
	var endpoint Endpoint
	for d.Next() {
		if d.Type() == attrAddr {
			d.Nested(endpoint.decode)
		}
	}
	if err := d.Err(); err != nil {
		return Endpoint{}, fmt.Errorf("decoding an endpoint: %w", err)
	}
	if !endpoint.Addr.IsValid() {
		return Endpoint{}, fmt.Errorf("decoding an endpoint: it has no address")
	}
	return endpoint, nil
}

func (e *Endpoint) decode(d *netlink.AttributeDecoder) error {
	for d.Next() {
		switch d.Type() {
		case addrID:
			e.ID = d.Uint8()
		case addrIPv4:
			e.Addr = decodeAddr(d, 4)
		case addrIPv6:
			e.Addr = decodeAddr(d, 16)
		case addrPort:
			e.Port = d.Uint16()
		case addrIfIndex:
			e.Interface = int(d.Int32())
		case addrFlags:
			flags := d.Uint32()
			e.Signal = flags&flagSignal != 0
			e.Subflow = flags&flagSubflow != 0
			e.Backup = flags&flagBackup != 0
			e.Fullmesh = flags&flagFullmesh != 0
			e.Implicit = flags&flagImplicit != 0
		}
	}
	return nil
}

// decodeAddr returns the zero Addr when the length is not that of the family.
func decodeAddr(d *netlink.AttributeDecoder, size int) netip.Addr {
	b := d.Bytes()
	if len(b) != size {
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// decodeBigEndian16 reads a port of an event, which is in network byte order
// there, unlike in commands.
func decodeBigEndian16(d *netlink.AttributeDecoder) uint16 {
	if b := d.Bytes(); len(b) == 2 {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

package preflight

import (
	"fmt"
	"net"

	"hikyaku/egress/config"
)

// Sizes of packets in bytes.
const (
	smallestIPv6 = 1280 // RFC 8200 §5
	usualInner   = 1500
)

// interfaces checks the devices that the configuration names.
func (c *checker) interfaces() {
	if b := c.File.Border; b != nil {
		for _, name := range b.SRv6.Interfaces {
			c.device("srv6.interfaces", name)
			c.room(name, 0)
		}
		for i := range b.Peers {
			if name := b.Peers[i].Interface; name != "" {
				c.device(fmt.Sprintf("peer[%d].interface", i), name)
			}
		}
		return
	}
	s := c.File.Server
	c.device("srv6.interface", s.SRv6.Interface)
	c.room(s.SRv6.Interface, int(s.SRv6.MTU))
	if _, has := c.own(s.SRv6.TunnelSource); !has {
		c.add(checkInterface, Error, fmt.Sprintf("no interface has srv6.tunnel_source %s", s.SRv6.TunnelSource),
			"it is the source of all packets to borders, and errors of the network come back to it",
			"name this server's own default IPv6 address (`ip -6 route get 2001:db8:: ` shows it as `src`)")
	}
	c.epeAddresses(s)
}

// device checks that an interface is there and up.
func (c *checker) device(key, name string) {
	link, there := c.devices[name]
	switch {
	case !there:
		c.add(checkInterface, Error, fmt.Sprintf("there is no interface %s, which `%s` names", name, key),
			"the agent does not start without", "`ip link` shows those that there are")
	case link.Attrs().Flags&net.FlagUp == 0:
		c.add(checkInterface, Error, fmt.Sprintf("interface %s of `%s` is down", name, key),
			"no packet comes in or leaves by it", fmt.Sprintf("ip link set %s up", name))
	}
}

// room checks that SRv6 fits into the packets of an interface; mtu 0 is the interface's own.
func (c *checker) room(name string, mtu int) {
	link, there := c.devices[name]
	if !there {
		return
	}
	has := link.Attrs().MTU
	if mtu > has {
		c.add(checkMTU, Error, fmt.Sprintf("srv6.mtu is %d, and interface %s takes %d bytes", mtu, name, has),
			"larger packets are dropped before they leave", fmt.Sprintf("ip link set %s mtu %d, or a smaller srv6.mtu", name, mtu))
	}
	if mtu == 0 {
		mtu = has
	}
	switch inner := mtu - config.EncapOverhead; {
	case inner < smallestIPv6:
		c.add(checkMTU, Error, fmt.Sprintf("interface %s leaves %d bytes for the packets in SRv6", name, inner),
			fmt.Sprintf("IPv6 needs %d (RFC 8200 §5)", smallestIPv6),
			fmt.Sprintf("ip link set %s mtu %d, and the same on the way to the borders", name, usualInner+config.EncapOverhead))
	case inner < usualInner:
		c.add(checkMTU, Warning, fmt.Sprintf("interface %s leaves %d bytes for the packets in SRv6, which takes %d", name, inner, config.EncapOverhead),
			"segments to clients are smaller by egress routes than by the plain way",
			fmt.Sprintf("ip link set %s mtu %d, and the same on the way to the borders", name, usualInner+config.EncapOverhead))
	}
}

// epeAddresses reports EPE addresses that others have put on an interface, where the kernel
// would choose them for connections of their own.
func (c *checker) epeAddresses(s *config.Server) {
	for i := range s.Paths {
		for _, a := range s.Paths[i].Addresses {
			if has, there := c.own(a); there && !has.deprecated && a.Is6() {
				c.add(checkEPEAddress, Warning, fmt.Sprintf("EPE address %s of path %s is on %s already, as an ordinary address", a, s.Paths[i].Name, has.device),
					"the kernel may take it as the source of plain connections, which then leave by the path",
					fmt.Sprintf("ip addr del %s dev %s, and take it out of the network configuration: the agent adds it", has.Prefix, has.device))
			}
		}
	}
}

package preflight

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
)

// locators checks the routes to SIDs.
func (c *checker) locators() {
	if b := c.File.Border; b != nil {
		c.ownLocator(b.SRv6.Locator)
		for i := range b.Peers {
			c.ownSID(b.Peers[i].Name, b.Peers[i].SID)
		}
		return
	}
	for _, locator := range c.File.Server.SRv6.Locators {
		c.wayTo(locator)
	}
}

// ownLocator reports addresses of this machine within the border's locator.
func (c *checker) ownLocator(locator netip.Prefix) {
	for _, o := range c.owned {
		if locator.Contains(o.Addr()) {
			c.add(checkLocator, Error, fmt.Sprintf("address %s of %s lies in the locator %s", o.Addr(), o.device, locator),
				"the locator is for SIDs alone; the kernel takes packets to this address for its own", "choose another address, or another locator")
		}
	}
}

// ownSID reports a route of others that packets to a SID would take.
func (c *checker) ownSID(peer string, sid netip.Addr) {
	way, err := c.match(sid)
	if err != nil || way.protocol == kernel.Protocol || way.to.Bits() < sid.BitLen() {
		return
	}
	c.add(checkLocator, Error, fmt.Sprintf("the main table has a route to the SID %s of peer %s already, by protocol %d", sid, peer, way.protocol),
		"the agent overwrites nothing of others, so the peer gets no SID", fmt.Sprintf("ip -6 route del %s", way.to))
}

// wayTo checks that packets of a server get to a locator.
func (c *checker) wayTo(locator netip.Prefix) {
	sid := locator.Addr().Next()
	way, err := c.match(sid)
	switch {
	case err != nil || way.kind != unix.RTN_UNICAST:
		c.add(checkLocator, Error, fmt.Sprintf("there is no route to the locator %s", locator),
			"packets of its border's paths go nowhere", "announce the locator in the IGP, or add a static route (docs/egress-deploy.md, step 3)")
	case way.device != c.File.Server.SRv6.Interface:
		c.add(checkLocator, Warning, fmt.Sprintf("the route to the locator %s leaves by %s, and srv6.interface is %s", locator, way.device, c.File.Server.SRv6.Interface),
			"flows are counted and packets are sized by srv6.interface", "name the interface that the route has")
	case way.mtu != 0 && way.mtu < c.needed():
		c.add(checkMTU, Warning, fmt.Sprintf("packets to the locator %s may have %d bytes, and those of paths have up to %d", locator, way.mtu, c.needed()),
			"larger packets of paths are lost where nobody reports it", fmt.Sprintf("raise the MTU on the way, or set srv6.mtu to %d", way.mtu))
	}
}

// needed is the size of the largest packet that the agent lets into SRv6.
func (c *checker) needed() int {
	s := c.File.Server.SRv6
	if s.MTU != 0 {
		return int(s.MTU)
	}
	if link, there := c.devices[s.Interface]; there {
		return link.Attrs().MTU
	}
	return usualInner + config.EncapOverhead
}

// entry is the route that the kernel takes for an address.
type entry struct {
	to       netip.Prefix
	protocol uint8
	kind     int
	device   string
	mtu      int
}

// match looks an address up.
func (c *checker) match(to netip.Addr) (entry, error) {
	way, err := c.route(to, netlink.RouteGetOptions{})
	if err != nil {
		return entry{}, err
	}
	of, err := c.route(to, netlink.RouteGetOptions{FIBMatch: true})
	if err != nil {
		return entry{}, err
	}
	found := entry{protocol: uint8(of.Protocol), kind: way.Type, mtu: way.MTU}
	if of.Dst != nil {
		length, _ := of.Dst.Mask.Size()
		found.to = netip.PrefixFrom(to, length).Masked()
	}
	for name, link := range c.devices {
		if link.Attrs().Index == way.LinkIndex {
			found.device = name
		}
	}
	return found, nil
}

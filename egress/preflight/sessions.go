package preflight

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"hikyaku/egress/config"
)

// sessions checks the addresses that the agent's sessions begin at.
func (c *checker) sessions() {
	for i := range c.common.Reflectors {
		c.localAddress(&c.common.Reflectors[i].Session)
	}
	if c.File.Border == nil {
		return
	}
	for i := range c.File.Border.AddPath {
		c.localAddress(&c.File.Border.AddPath[i].Session)
	}
	for i := range c.File.Border.Peers {
		if c.File.Border.Peers[i].Routes != config.RoutesBySession {
			continue
		}
		p := &c.File.Border.Peers[i].Session
		if c.localAddress(p) {
			c.secondAddress(p)
		}
		c.taken(p)
	}
}

// localAddress reports whether the session has one, and checks that it is there.
func (c *checker) localAddress(s *config.Session) bool {
	if !s.LocalAddress.IsValid() {
		return false
	}
	if _, has := c.own(s.LocalAddress); !has {
		c.add(checkSource, Error, fmt.Sprintf("no interface has the local_address %s of session %s", s.LocalAddress, s.Name),
			"the session cannot begin", fmt.Sprintf("ip addr add %s/LENGTH dev INTERFACE%s", s.LocalAddress, keptBack(s.LocalAddress)))
		return false
	}
	return true
}

// keptBack is the option of ip(8) by which the kernel does not choose an address.
func keptBack(a netip.Addr) string {
	if a.Is6() {
		return " preferred_lft 0"
	}
	return ""
}

// secondAddress reports a session's own address that the kernel prefers to the one that
// another daemon's session with the same neighbour has.
func (c *checker) secondAddress(s *config.Session) {
	mine, _ := c.own(s.LocalAddress)
	if mine.deprecated || !c.hasCompanion(mine) {
		return
	}
	way, err := c.route(s.Address.WithZone(""), netlink.RouteGetOptions{Oif: mine.device})
	if err != nil {
		return
	}
	source, _ := netip.AddrFromSlice(way.Src)
	if source.Unmap() != s.LocalAddress {
		return
	}
	c.add(checkSource, Error,
		fmt.Sprintf("the kernel chooses %s, the local_address of session %s, as the source towards %s", s.LocalAddress, s.Name, s.Address),
		"the next session that the present daemon opens to this neighbour has it, and is the neighbour's second session",
		fmt.Sprintf("ip addr change %s dev %s preferred_lft 0", mine.Prefix, mine.device))
}

// hasCompanion reports whether an interface has another address of the same subnet.
func (c *checker) hasCompanion(a ownAddress) bool {
	for _, other := range c.owned {
		if other.device == a.device && other.Addr() != a.Addr() && !other.deprecated && other.Masked() == a.Masked() {
			return true
		}
	}
	return false
}

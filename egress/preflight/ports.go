package preflight

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"hikyaku/egress/config"
)

// States of a TCP socket, as the kernel numbers them (net/tcp_states.h).
const (
	tcpEstablished = 1
	tcpListen      = 10
)

// ports checks that nobody has the addresses of bgp.listen.
func (c *checker) ports() {
	for _, address := range c.common.BGP.Listen {
		at := netip.AddrPortFrom(address, c.common.BGP.Port)
		if holder, has := c.listener(at); has && !isAgent(holder) {
			c.add(checkPort, Error, fmt.Sprintf("%s listens on %s, which `bgp.listen` names", holder, at),
				"the agent does not start", "bind the other daemon to its own addresses (FRR: `-l`, BIRD: `strict bind`), or leave `bgp.listen` empty: the agent connects by itself")
		}
	}
}

// taken reports what another daemon does with the session of an egress peer.
func (c *checker) taken(s *config.Session) {
	if !s.LocalAddress.IsValid() {
		return
	}
	for _, socket := range c.sockets(s.LocalAddress) {
		remote, _ := netip.AddrFromSlice(socket.ID.Destination)
		local, _ := netip.AddrFromSlice(socket.ID.Source)
		bgp := socket.ID.DestinationPort == s.Port || socket.ID.SourcePort == s.Port
		if socket.State != tcpEstablished || !bgp || remote.Unmap() != s.Address.WithZone("") || local.Unmap() != s.LocalAddress {
			continue
		}
		if holder := owner(socket.INode); !isAgent(holder) {
			c.add(checkSession, Error, fmt.Sprintf("%s has the session of %s: it speaks with %s from %s", holder, s.Name, s.Address, s.LocalAddress),
				"the neighbour takes one session from this address, so that the agent gets none",
				fmt.Sprintf("give the daemon its own address for this neighbour (FRR: `neighbor %s update-source ADDRESS`, BIRD: `local ADDRESS as %d;`), and reset its session",
					s.Address, c.common.ASN))
		}
	}
	if !s.Passive && s.Address.WithZone("") != s.LocalAddress {
		c.answered(s)
	}
}

// answered reports a daemon that takes connections to the agent's address.
func (c *checker) answered(s *config.Session) {
	at := netip.AddrPortFrom(s.LocalAddress, c.common.BGP.Port)
	holder, has := c.listener(at)
	if !has || isAgent(holder) || !connects(c.ctx, netip.AddrPortFrom(s.LocalAddress, 0), at) {
		return
	}
	family := "ip6"
	if s.LocalAddress.Is4() {
		family = "ip"
	}
	c.add(checkPort, Error, fmt.Sprintf("%s answers on %s", holder, at),
		fmt.Sprintf("when %s connects to the address of the agent's session, the daemon takes that session for its own", s.Address),
		fmt.Sprintf("reject such connections (nft: `%s daddr %s tcp dport %d reject with tcp reset` in an input chain), or bind the daemon to its own addresses (FRR: `-l`, BIRD: `strict bind`)",
			family, s.LocalAddress, c.common.BGP.Port))
}

// connects reports whether somebody accepts a connection.
func connects(ctx context.Context, from, to netip.AddrPort) bool {
	dialer := net.Dialer{Timeout: time.Second, LocalAddr: net.TCPAddrFromAddrPort(from)}
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// listener finds the program that listens on an address and port.
func (c *checker) listener(at netip.AddrPort) (holder string, has bool) {
	for _, socket := range c.sockets(at.Addr()) {
		address, _ := netip.AddrFromSlice(socket.ID.Source)
		if socket.State == tcpListen && socket.ID.SourcePort == at.Port() &&
			(address.IsUnspecified() || address.Unmap() == at.Addr()) {
			return owner(socket.INode), true
		}
	}
	return "", false
}

// sockets lists the TCP sockets that can have an address; IPv4 addresses also those of IPv6.
func (c *checker) sockets(of netip.Addr) []*netlink.Socket {
	families := []uint8{unix.AF_INET6}
	if of.Is4() {
		families = append(families, unix.AF_INET)
	}
	var all []*netlink.Socket
	for _, family := range families {
		found, err := c.handle.SocketDiagTCP(family)
		if err != nil {
			c.unread("the list of TCP sockets", err)
			continue
		}
		all = append(all, found...)
	}
	return all
}

package preflight

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"hikyaku/egress/config"
)

// patience is how long a neighbour has to accept a connection.
const patience = 3 * time.Second

// neighbours connects to reflectors and peers, as sessions do.
func (c *checker) neighbours() {
	for i := range c.common.Reflectors {
		c.neighbour(checkReflector, "reflector", &c.common.Reflectors[i].Session)
	}
	if c.File.Border != nil {
		for i := range c.File.Border.AddPath {
			c.neighbour(checkReflector, "router", &c.File.Border.AddPath[i].Session)
		}
		for i := range c.File.Border.Peers {
			if p := &c.File.Border.Peers[i]; p.Routes == config.RoutesBySession {
				c.neighbour(checkNeighbour, "peer", &p.Session)
			}
		}
	}
}

func (c *checker) neighbour(check, kind string, s *config.Session) {
	if s.Passive || s.PasswordFile != "" {
		return // it connects itself, or answers signed packets alone
	}
	if _, has := c.own(s.LocalAddress); s.LocalAddress.IsValid() && !has {
		return // that is a finding already
	}
	dialer := net.Dialer{Timeout: patience}
	if s.LocalAddress.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.LocalAddress, 0))
	}
	conn, err := dialer.DialContext(c.ctx, "tcp", netip.AddrPortFrom(s.Address, s.Port).String())
	if err == nil {
		conn.Close()
		return
	}
	remedy := "look along the way: routes, filters of port 179, the address that the neighbour has configured for this machine"
	var failed unix.Errno
	if errors.As(err, &failed) && failed == unix.ECONNREFUSED {
		remedy = "start its BGP daemon, or have it listen on this address and port"
	}
	c.add(check, Warning, fmt.Sprintf("%s %s does not take a connection: %s", kind, s.Name, err),
		"there is no session until it does", remedy)
}

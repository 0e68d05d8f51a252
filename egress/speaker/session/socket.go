package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// dial connects to the neighbour.
func (s *Session) dial(ctx context.Context) (*net.TCPConn, error) {
	n := s.config.Neighbor
	dialer := net.Dialer{
		Timeout:   n.ConnectRetry,
		KeepAlive: -1, // BGP has its own
		Control: func(_, _ string, raw syscall.RawConn) error {
			var failed error
			if err := raw.Control(func(fd uintptr) { failed = errors.Join(n.protect(int(fd)), s.limitHops(int(fd)), limitUnsent(int(fd))) }); err != nil {
				return err
			}
			return failed
		},
	}
	if n.LocalAddress.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(n.LocalAddress, 0))
	}
	conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(n.Address, n.Port).String())
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return conn.(*net.TCPConn), nil
}

// protect sets up a socket for a password (RFC 2385) and for TTL security (RFC 5082).
func (n Neighbor) protect(fd int) error {
	if n.Password != "" {
		if len(n.Password) > unix.TCP_MD5SIG_MAXKEYLEN {
			return fmt.Errorf("password has %d bytes, TCP MD5 takes %d", len(n.Password), unix.TCP_MD5SIG_MAXKEYLEN)
		}
		if err := unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, n.signature()); err != nil {
			return fmt.Errorf("setting the password by TCP_MD5SIG: %w", err)
		}
	}
	if !n.TTLSecurity {
		return nil
	}
	level, ttl, minTTL := n.hopOptions()
	if err := errors.Join(unix.SetsockoptInt(fd, level, ttl, 255), unix.SetsockoptInt(fd, level, minTTL, 255)); err != nil {
		return fmt.Errorf("setting TTL security: %w", err)
	}
	return nil
}

// hopOptions are the socket options for the hop limit of sent packets, and for the minimum
// of received ones.
func (n Neighbor) hopOptions() (level, ttl, minTTL int) {
	if n.Address.Is4() {
		return unix.IPPROTO_IP, unix.IP_TTL, unix.IP_MINTTL
	}
	return unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_MINHOPCOUNT
}

// limitHops lets packets go no farther than to the egress peer.
func (s *Session) limitHops(fd int) error {
	n := s.config.Neighbor
	if s.reflects() || n.TTLSecurity {
		return nil
	}
	level, ttl, _ := n.hopOptions()
	if err := unix.SetsockoptInt(fd, level, ttl, max(int(n.MultihopTTL), 1)); err != nil {
		return fmt.Errorf("setting the hop limit: %w", err)
	}
	return nil
}

// limitUnsent keeps data that a slow reflector has no window for out of the kernel.
// Withdrawals could not overtake them there, where the buffer grows to megabytes.
func limitUnsent(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, writeChunk); err != nil {
		return fmt.Errorf("bounding the unsent bytes by TCP_NOTSENT_LOWAT: %w", err)
	}
	return nil
}

func (n Neighbor) signature() *unix.TCPMD5Sig {
	sig := &unix.TCPMD5Sig{Keylen: uint16(len(n.Password))}
	copy(sig.Key[:], n.Password)
	if n.Address.Is4() {
		address := n.Address.As4()
		sig.Addr.Family = unix.AF_INET
		copy(sig.Addr.Data[2:], address[:]) // behind the port
	} else {
		address := n.Address.As16()
		sig.Addr.Family = unix.AF_INET6
		copy(sig.Addr.Data[6:], address[:]) // behind the port and the flow label
	}
	return sig
}

package speaker

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"golang.org/x/sys/unix"
)

// openTime bounds a session's beginning, as the large hold time of RFC 4271
// §8.2.2 does.
const openTime = 30 * time.Second

// asTrans stands for AS numbers of four bytes (RFC 6793 §9).
const asTrans = 23456

// dial connects to the neighbour.
func (v *ownSession) dial(ctx context.Context) (*net.TCPConn, error) {
	n := v.neighbor
	dialer := net.Dialer{
		Timeout:   n.ConnectRetry,
		KeepAlive: -1, // BGP has its own
		Control: func(_, _ string, raw syscall.RawConn) error {
			var failed error
			if err := raw.Control(func(fd uintptr) { failed = errors.Join(n.protect(int(fd)), v.limitHops(int(fd)), limitUnsent(int(fd))) }); err != nil {
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
	level, ttl, least := n.hopOptions()
	if err := errors.Join(unix.SetsockoptInt(fd, level, ttl, 255), unix.SetsockoptInt(fd, level, least, 255)); err != nil {
		return fmt.Errorf("setting TTL security: %w", err)
	}
	return nil
}

// hopOptions are the socket options for the hop limit of packets, to send with and at
// least to come with.
func (n Neighbor) hopOptions() (level, ttl, least int) {
	if n.Address.Is4() {
		return unix.IPPROTO_IP, unix.IP_TTL, unix.IP_MINTTL
	}
	return unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_MINHOPCOUNT
}

// limitHops lets packets go no farther than to the egress peer.
func (v *ownSession) limitHops(fd int) error {
	n := v.neighbor
	if v.reflects() || n.TTLSecurity {
		return nil
	}
	level, ttl, _ := n.hopOptions()
	if err := unix.SetsockoptInt(fd, level, ttl, max(int(n.MultihopTTL), 1)); err != nil {
		return fmt.Errorf("setting the hop limit: %w", err)
	}
	return nil
}

// limitUnsent keeps what a slow reflector has no window for out of the kernel, where
// withdrawals could not overtake it: there the buffer grows to megabytes.
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

// opened is what both sides have agreed on.
type opened struct {
	routerID netip.Addr
	families []Family
	holdTime time.Duration // 0: none
	// longest is the length of an UPDATE that the neighbour takes, in bytes.
	longest int
}

// open exchanges OPEN and KEEPALIVE (RFC 4271 §8.2.2). It answers what it refuses
// by a NOTIFICATION.
func (v *ownSession) open(conn *net.TCPConn, r io.Reader) (opened, error) {
	if err := conn.SetDeadline(time.Now().Add(openTime)); err != nil {
		return opened{}, err
	}
	ours, err := v.openMessage()
	if err == nil {
		_, err = conn.Write(ours)
	}
	if err != nil {
		return opened{}, fmt.Errorf("sending OPEN: %w", err)
	}
	body, err := readMessage(r, bgp.BGP_MSG_OPEN)
	if err != nil {
		return opened{}, fmt.Errorf("waiting for OPEN: %w", err)
	}
	agreed, err := v.agree(body)
	if err != nil {
		return opened{}, fmt.Errorf("refusing OPEN: %w", err)
	}
	if _, err := conn.Write(keepalive); err != nil {
		return opened{}, fmt.Errorf("sending KEEPALIVE: %w", err)
	}
	if _, err := readMessage(r, bgp.BGP_MSG_KEEPALIVE); err != nil {
		return opened{}, fmt.Errorf("waiting for KEEPALIVE: %w", err)
	}
	return agreed, conn.SetDeadline(time.Time{})
}

// longestToUs is the length of a message at most that the neighbour may send, in bytes.
// Extended messages (RFC 8654) are for reflectors: a route of an egress peer needs more
// room within the AS than it came with, and what a peer can make the border keep for each
// of its routes stays bounded by the shorter message.
func (v *ownSession) longestToUs() int {
	if v.reflects() {
		return maxExtended
	}
	return maxMessage
}

// openMessage is our OPEN: multiprotocol, route refresh, four-byte AS numbers, graceful
// restart and, to reflectors, extended messages, as what GoBGP offers on other sessions.
func (v *ownSession) openMessage() ([]byte, error) {
	n, c := v.neighbor, v.speaker.config
	restarting := v.speaker.restarting(n)
	// The kernel's state outlives sessions, too, so that a reflector which keeps
	// the routes of a broken one may go on (RFC 4724 §3).
	forwarding := restarting || v.wasUp
	var kept []*bgp.CapGracefulRestartTuple
	capabilities := []bgp.ParameterCapabilityInterface{bgp.NewCapRouteRefresh(), bgp.NewCapFourOctetASNumber(c.AS)}
	if v.longestToUs() == maxExtended {
		capabilities = append(capabilities, bgp.NewCapExtendedMessage())
	}
	for _, f := range n.Families {
		capabilities = append(capabilities, bgp.NewCapMultiProtocol(f.gobgp()))
		if n.GracefulRestart > 0 {
			kept = append(kept, bgp.NewCapGracefulRestartTuple(f.gobgp(), forwarding))
		}
	}
	capabilities = append(capabilities, bgp.NewCapGracefulRestart(restarting, false, uint16(seconds(n.GracefulRestart)), kept))
	as := uint16(asTrans)
	if c.AS < 1<<16 {
		as = uint16(c.AS)
	}
	m, err := bgp.NewBGPOpenMessage(as, uint16(seconds(n.HoldTime)), c.RouterID,
		[]bgp.OptionParameterInterface{bgp.NewOptionParameterCapability(capabilities)})
	if err != nil {
		return nil, err
	}
	return m.Serialize()
}

// agree checks the neighbour's OPEN.
func (v *ownSession) agree(body []byte) (opened, error) {
	var m bgp.BGPOpen
	if err := m.DecodeFromBytes(body); err != nil {
		return opened{}, err
	}
	c := v.speaker.config
	if _, err := bgp.ValidateOpenMsg(&m, v.neighbor.AS, c.AS, c.RouterID); err != nil {
		return opened{}, err
	}
	var capabilities []bgp.ParameterCapabilityInterface
	for _, p := range m.OptParams {
		if p, ok := p.(*bgp.OptionParameterCapability); ok {
			capabilities = append(capabilities, p.Capability...)
		}
	}
	wide := offers(capabilities, bgp.BGP_CAP_FOUR_OCTET_AS_NUMBER)
	agreed := opened{routerID: m.ID, families: sharedFamilies(v.neighbor.Families, capabilities), longest: maxMessage}
	if v.reflects() && offers(capabilities, bgp.BGP_CAP_EXTENDED_MESSAGE) {
		agreed.longest = maxExtended
	}
	if !wide || len(agreed.families) == 0 {
		return opened{}, bgp.NewMessageError(bgp.BGP_ERROR_OPEN_MESSAGE_ERROR, bgp.BGP_ERROR_SUB_UNSUPPORTED_CAPABILITY, nil,
			fmt.Sprintf("it has no family of ours (%v), or no AS numbers of four bytes", v.neighbor.Families))
	}
	agreed.holdTime = min(v.neighbor.HoldTime, time.Duration(m.HoldTime)*time.Second)
	return agreed, nil
}

func offers(capabilities []bgp.ParameterCapabilityInterface, code bgp.BGPCapabilityCode) bool {
	return slices.ContainsFunc(capabilities, func(c bgp.ParameterCapabilityInterface) bool { return c.Code() == code })
}

// readMessage reads a message that must be of one type.
func readMessage(r io.Reader, want byte) ([]byte, error) {
	kind, body, err := nextMessage(r, make([]byte, maxMessage))
	if err != nil {
		return nil, err
	}
	if kind == bgp.BGP_MSG_NOTIFICATION {
		return nil, notified(body)
	}
	if kind != want {
		return nil, bgp.NewMessageError(bgp.BGP_ERROR_FSM_ERROR, 0, nil, fmt.Sprintf("message of type %d instead of %d", kind, want))
	}
	return body, nil
}

// nextMessage reads a message into buffer, which is as long as one may be. KEEPALIVE has
// a header alone, and OPEN never comes where more than maxMessage bytes may (RFC 8654 §4).
func nextMessage(r io.Reader, buffer []byte) (kind byte, body []byte, err error) {
	header := buffer[:headerLength]
	if _, err := io.ReadFull(r, header); err != nil {
		return 0, nil, err
	}
	for _, b := range header[:16] {
		if b != 0xff {
			return 0, nil, bgp.NewMessageError(bgp.BGP_ERROR_MESSAGE_HEADER_ERROR, bgp.BGP_ERROR_SUB_CONNECTION_NOT_SYNCHRONIZED, nil,
				"a message does not begin with 16 bytes of ones")
		}
	}
	n := int(binary.BigEndian.Uint16(header[16:]))
	kind = header[18]
	if n < headerLength || n > len(buffer) || kind == bgp.BGP_MSG_KEEPALIVE && n > headerLength {
		return 0, nil, bgp.NewMessageError(bgp.BGP_ERROR_MESSAGE_HEADER_ERROR, bgp.BGP_ERROR_SUB_BAD_MESSAGE_LENGTH, header[16:18],
			fmt.Sprintf("a message of %d bytes", n))
	}
	if _, err := io.ReadFull(r, buffer[headerLength:n]); err != nil {
		return 0, nil, err
	}
	return kind, buffer[headerLength:n], nil
}

// hasMessage tells whether the next message can be read without waiting.
func hasMessage(r *bufio.Reader) bool {
	if r.Buffered() < headerLength {
		return false
	}
	header, err := r.Peek(headerLength)
	return err == nil && r.Buffered() >= int(binary.BigEndian.Uint16(header[16:]))
}

// notified is the neighbour's reason to end the session.
func notified(body []byte) error {
	if len(body) < 2 {
		return errNotified
	}
	return fmt.Errorf("%w: %s", errNotified, bgp.NewNotificationErrorCode(body[0], body[1]))
}

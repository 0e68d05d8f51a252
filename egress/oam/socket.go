package oam

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Conn has the sockets for probes, in the network namespace where it was opened. It is not
// safe for concurrent use.
type Conn struct {
	source     netip.Addr
	send, recv int
	packet     []byte
	buffer     []byte
	control    []byte
}

// Message is an answer: exactly one of Reply and TooBig is set.
type Message struct {
	Reply  *Token
	TooBig *TooBig
	// At is when the kernel took it from the wire.
	At time.Time
}

// Open opens the sockets for probes with this source address. It needs CAP_NET_RAW.
func Open(source netip.Addr) (_ *Conn, err error) {
	c := &Conn{source: source, send: -1, recv: -1, buffer: make([]byte, maxPacketSize), control: make([]byte, 128)}
	defer func() {
		if err != nil {
			c.Close()
			err = fmt.Errorf("opening sockets for probes (needs CAP_NET_RAW): %w", err)
		}
	}()
	const kind = unix.SOCK_RAW | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	if c.send, err = unix.Socket(unix.AF_INET6, kind, unix.IPPROTO_RAW); err != nil {
		return nil, err
	}
	// The MTU of the first link bounds probes, and no path MTU that the kernel remembers.
	if err = unix.SetsockoptInt(c.send, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE); err != nil {
		return nil, err
	}
	if c.recv, err = unix.Socket(unix.AF_INET6, kind, unix.IPPROTO_ICMPV6); err != nil {
		return nil, err
	}
	if err = setFilter(c.recv); err != nil {
		return nil, err
	}
	if err = unix.SetsockoptInt(c.recv, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return nil, err
	}
	// Answers wait here while this process does not run.
	_ = unix.SetsockoptInt(c.recv, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer)
	return c, nil
}

const receiveBuffer = 4 << 20

// setFilter lets echo replies and Packet Too Big through (RFC 3542 §3.2).
func setFilter(fd int) error {
	var filter unix.ICMPv6Filter
	for i := range filter.Data {
		filter.Data[i] = ^uint32(0)
	}
	for _, kind := range []int{echoReply, packetTooBig} {
		filter.Data[kind>>5] &^= 1 << (kind & 31)
	}
	return unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &filter)
}

// Close closes the sockets.
func (c *Conn) Close() {
	for _, fd := range []int{c.send, c.recv} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// Send sends a probe through a SID. ErrNoRoute is wrapped where the kernel has no route.
func (c *Conn) Send(sid netip.Addr, t Token) error {
	c.packet = AppendProbe(c.packet[:0], c.source, sid, t)
	return c.write(sid)
}

// SendToSelf sends an echo request to this machine, whose way is all inside.
func (c *Conn) SendToSelf(t Token) error {
	c.packet = appendEcho(c.packet[:0], c.source, c.source, ipv6Size+echoSize+tokenSize, t)
	return c.write(c.source)
}

// ErrNoRoute says that the kernel has no route to a SID.
var ErrNoRoute = errors.New("no route")

func (c *Conn) write(to netip.Addr) error {
	err := unix.Sendto(c.send, c.packet, 0, &unix.SockaddrInet6{Addr: to.As16()})
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETDOWN),
		errors.Is(err, unix.EACCES), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EADDRNOTAVAIL):
		// The answers of routes of type unreachable, prohibit and blackhole, too.
		return fmt.Errorf("%w: %w", ErrNoRoute, err)
	}
	return err
}

// Receive returns a message that has come, and false where none has.
func (c *Conn) Receive() (Message, bool) {
	for {
		n, controls, _, _, err := unix.Recvmsg(c.recv, c.buffer, c.control, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return Message{}, false
		}
		m := Message{At: stamp(c.control[:controls])}
		if t, ok := ParseReply(c.buffer[:n]); ok {
			m.Reply = &t
			return m, true
		}
		if b, ok := ParseTooBig(c.buffer[:n]); ok && b.Source == c.source {
			m.TooBig = &b
			return m, true
		}
	}
}

// stamp reads the kernel's time, and the present one where there is none.
func stamp(control []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Now()
	}
	for _, m := range messages {
		if m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 { // struct timespec of 64 bits
			seconds, nanoseconds := binary.NativeEndian.Uint64(m.Data), binary.NativeEndian.Uint64(m.Data[8:])
			return time.Unix(int64(seconds), int64(nanoseconds))
		}
	}
	return time.Now()
}

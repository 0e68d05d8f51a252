package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sendBuffer bounds a batch in bytes, and receiveBuffer the answers to it: an
	// answer occupies about a kilobyte of the kernel's account, whatever its length.
	sendBuffer    = 1 << 20
	receiveBuffer = 8 << 20
	// The kernel answers while we send, so only an answer that was lost keeps us waiting.
	answerTimeout = 30 * time.Second
	datagramSize  = 256 << 10
	queryAttempts = 10
)

// Error is the kernel's refusal of one message.
type Error struct {
	Errno unix.Errno
	// Message is the kernel's explanation, often empty.
	Message string
}

// Error gives the explanation, if any, and the error number's text.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Errno.Error()
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.Errno.Error())
}

// Unwrap gives the error number to errors.Is.
func (e *Error) Unwrap() error { return e.Errno }

// Refusal is one message of a batch that the kernel refused.
type Refusal struct {
	// Index is the message's place in its batch.
	Index int
	Err   *Error
}

// Conn is a netlink socket. One exchange at a time holds it.
type Conn struct {
	mu       sync.Mutex
	fd       int
	seq      uint32
	datagram []byte
}

// Dial opens a socket of a netlink protocol, such as unix.NETLINK_ROUTE, in the
// calling thread's network namespace.
func Dial(protocol int) (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	c := &Conn{fd: fd, datagram: make([]byte, datagramSize)}
	if err := c.configure(); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return c, nil
}

func (c *Conn) configure() error {
	if err := unix.Bind(c.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("binding a netlink socket: %w", err)
	}
	options := []struct {
		name          string
		level, option int
		value         int
		required      bool
	}{
		{"NETLINK_EXT_ACK", unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1, false},
		{"NETLINK_CAP_ACK", unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1, false},
		// Lets the kernel filter a dump of routes by protocol.
		{"NETLINK_GET_STRICT_CHK", unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1, false},
		{"SO_SNDBUFFORCE", unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer, true},
		{"SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer, true},
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(c.fd, o.level, o.option, o.value); err != nil && o.required {
			return fmt.Errorf("setting %s on a netlink socket (needs CAP_NET_ADMIN): %w", o.name, err)
		}
	}
	timeout := unix.NsecToTimeval(answerTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return fmt.Errorf("setting SO_RCVTIMEO on a netlink socket: %w", err)
	}
	return nil
}

// Close closes the socket.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return os.NewSyscallError("close", unix.Close(c.fd))
}

// Do sends the batch and returns the kernel's refusals, in order. The kernel tries
// every message. An error means that an answer is missing: which messages were done
// is then unknown.
func (c *Conn) Do(b *Batch) ([]Refusal, error) {
	if b.Len() == 0 {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.seq + 1
	last := c.seq + uint32(b.Len())
	c.seq = last
	b.seal(first)
	if err := c.send(b.buf); err != nil {
		return nil, err
	}
	var refused []Refusal
	for {
		messages, err := c.receive()
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			if m.kind != unix.NLMSG_ERROR || m.seq-first > last-first {
				continue // late answer to an exchange that was given up
			}
			if refusal := parseError(m); refusal != nil {
				refused = append(refused, Refusal{Index: int(m.seq - first), Err: refusal})
			}
			if m.seq == last {
				return refused, nil
			}
		}
	}
}

// Query sends the one request in b, which must ask for a dump or an acknowledgement, and
// calls each for every message of the answer. The bytes are valid during the call alone. It
// calls restart first, and again when the kernel reports that its tables changed while they
// were read. Each time the caller must forget what it has collected.
func (c *Conn) Query(b *Batch, restart func(), each func(kind uint16, body []byte) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range queryAttempts {
		restart()
		interrupted, err := c.query(b, each)
		if err != nil {
			return err
		}
		if !interrupted {
			return nil
		}
	}
	return fmt.Errorf("reading the kernel's tables: they changed during each of %d attempts: %w",
		queryAttempts, unix.EAGAIN)
}

func (c *Conn) query(b *Batch, each func(kind uint16, body []byte) error) (interrupted bool, err error) {
	c.seq++
	binary.NativeEndian.PutUint32(b.buf[8:], c.seq)
	if err := c.send(b.buf); err != nil {
		return false, err
	}
	var failed error // of each: the answer is read to its end, or the next dump could not start
	for {
		messages, err := c.receive()
		if err != nil {
			return false, err
		}
		for _, m := range messages {
			if m.seq != c.seq {
				continue
			}
			interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
			switch {
			case m.kind == unix.NLMSG_ERROR || m.kind == unix.NLMSG_DONE:
				if refusal := parseError(m); refusal != nil {
					return false, errors.Join(failed, refusal)
				}
				return interrupted, failed
			case failed == nil:
				failed = each(m.kind, m.body)
			}
		}
	}
}

func (c *Conn) send(buf []byte) error {
	err := unix.Sendto(c.fd, buf, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	return os.NewSyscallError("sending to netlink", err)
}

type message struct {
	kind, flags uint16
	seq         uint32
	body        []byte
}

// receive returns the messages of one datagram; they are valid until the next call.
func (c *Conn) receive() ([]message, error) {
	var n int
	var err error
	for {
		n, _, err = unix.Recvfrom(c.fd, c.datagram, unix.MSG_TRUNC)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return nil, os.NewSyscallError("receiving from netlink", err)
	}
	if n > len(c.datagram) {
		return nil, fmt.Errorf("receiving from netlink: a datagram of %d bytes: %w", n, unix.EMSGSIZE)
	}
	return split(c.datagram[:n])
}

func split(buf []byte) ([]message, error) {
	var messages []message
	for len(buf) >= unix.NLMSG_HDRLEN {
		size := int(binary.NativeEndian.Uint32(buf))
		if size < unix.NLMSG_HDRLEN || size > len(buf) {
			return nil, fmt.Errorf("reading a netlink message of %d bytes in %d: %w", size, len(buf), unix.EBADMSG)
		}
		messages = append(messages, message{
			kind:  binary.NativeEndian.Uint16(buf[4:]),
			flags: binary.NativeEndian.Uint16(buf[6:]),
			seq:   binary.NativeEndian.Uint32(buf[8:]),
			body:  buf[unix.NLMSG_HDRLEN:size],
		})
		buf = buf[min(align(size), len(buf)):]
	}
	return messages, nil
}

// parseError returns the refusal in an NLMSG_ERROR or NLMSG_DONE, nil for success.
func parseError(m message) *Error {
	if len(m.body) < 4 {
		return nil
	}
	number := int32(binary.NativeEndian.Uint32(m.body))
	if number >= 0 {
		return nil
	}
	refusal := &Error{Errno: unix.Errno(-number)}
	attributes := m.body[4:]
	if m.kind == unix.NLMSG_ERROR {
		// The request's header follows; its payload does not (NETLINK_CAP_ACK).
		if m.flags&unix.NLM_F_ACK_TLVS == 0 || len(attributes) < unix.NLMSG_HDRLEN {
			return refusal
		}
		attributes = attributes[unix.NLMSG_HDRLEN:]
	}
	for kind, value := range Attributes(attributes) {
		if kind == unix.NLMSGERR_ATTR_MSG {
			refusal.Message = strings.TrimRight(string(value), "\x00")
		}
	}
	return refusal
}

func align(n int) int { return (n + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }

package rtnl

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrOverrun says that notifications were lost: the watched state must be read again.
var ErrOverrun = errors.New("the kernel's notifications came faster than they were read")

// PortID is the number that the kernel names the socket by, also as the sender in
// notifications to others.
func (c *Conn) PortID() (uint32, error) {
	addr, err := unix.Getsockname(c.fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	own, ok := addr.(*unix.SockaddrNetlink)
	if !ok {
		return 0, fmt.Errorf("asking for a netlink socket's number: it has %T", addr)
	}
	return own.Pid, nil
}

// Filter has the kernel keep messages from the socket for which the program returns 0.
func (c *Conn) Filter(program []unix.SockFilter) error {
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.SetsockoptSockFprog(c.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &fprog); err != nil {
		return fmt.Errorf("setting a filter on a netlink socket: %w", err)
	}
	return nil
}

// Watch joins multicast groups, calls joined, and then each for every message, until
// ctx is done or something fails. It holds the socket. What joined reads from another
// socket is as new as the first message, or newer.
func (c *Conn) Watch(ctx context.Context, groups []int, joined func() error, each func(kind, flags uint16, body []byte)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.drain(); err != nil {
		return err
	}
	for _, group := range groups {
		if err := unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group); err != nil {
			return fmt.Errorf("joining netlink group %d: %w", group, err)
		}
		defer unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, unix.NETLINK_DROP_MEMBERSHIP, group)
	}
	wake, release, err := wakeOnDone(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := joined(); err != nil {
		return err
	}
	for {
		if err := wait(c.fd, wake); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		messages, err := c.receive()
		if errors.Is(err, unix.ENOBUFS) {
			return ErrOverrun
		}
		if err != nil {
			return err
		}
		for _, m := range messages {
			each(m.kind, m.flags, m.body)
		}
	}
}

// drain discards notifications that a former watch has not read: they are older than the
// state that is read now.
func (c *Conn) drain() error {
	for {
		_, _, err := unix.Recvfrom(c.fd, c.datagram, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOBUFS):
			return os.NewSyscallError("receiving from netlink", err)
		}
	}
}

// wakeOnDone returns a descriptor that can be read when ctx is done.
func wakeOnDone(ctx context.Context) (wake int, release func(), err error) {
	wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return 0, nil, os.NewSyscallError("eventfd", err)
	}
	written := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(written)
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // cannot fail: the counter is 0
	})
	return wake, func() {
		if !stop() {
			<-written // the number must not be reused before
		}
		unix.Close(wake)
	}, nil
}

// wait blocks until either descriptor can be read.
func wait(fds ...int) error {
	polled := make([]unix.PollFd, len(fds))
	for i, fd := range fds {
		polled[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	for {
		_, err := unix.Poll(polled, -1)
		if err != unix.EINTR {
			return os.NewSyscallError("poll", err)
		}
	}
}

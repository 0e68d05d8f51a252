package mptcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ErrOverrun: events were lost because they were not read fast enough. The state of the
// kernel must be read anew, see [ReadConnections].
var ErrOverrun = errors.New("the kernel dropped MPTCP events for want of buffer space")

// ErrUndecodable: the kernel said something that is not understood. The other
// events hold.
var ErrUndecodable = errors.New("undecodable MPTCP events")

// Listener receives the events of the namespace in which it was opened.
type Listener struct {
	conn *genetlink.Conn
}

// Listen subscribes to the events of the calling thread's network namespace.
// It needs CAP_NET_ADMIN. As long as a Listener is open the user-space path
// manager accepts joins, so open it only where somebody acts on the events.
func Listen() (*Listener, error) {
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return nil, fmt.Errorf("opening generic netlink: %w", err)
	}
	if err := subscribe(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Listener{conn: conn}, nil
}

func subscribe(conn *genetlink.Conn) error {
	family, err := conn.GetFamily(familyName)
	if errors.Is(err, unix.ENOENT) {
		err = ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("looking up netlink family %s: %w", familyName, err)
	}
	i := slices.IndexFunc(family.Groups, func(g genetlink.MulticastGroup) bool { return g.Name == eventsGroup })
	if i < 0 {
		return fmt.Errorf("looking up multicast group %s: %w", eventsGroup, ErrUnsupported)
	}
	// Each event takes about 1 kB of the buffer in the kernel's accounting. The
	// option needs CAP_NET_ADMIN; the group does, too.
	if err := forceReadBuffer(conn, eventBuffer); err != nil {
		return fmt.Errorf("growing the event buffer to %d bytes: %w", eventBuffer, err)
	}
	if err := conn.JoinGroup(family.Groups[i].ID); err != nil {
		return fmt.Errorf("joining multicast group %s: %w", eventsGroup, err)
	}
	return nil
}

// eventBuffer holds the events of some 5,000 new connections.
const eventBuffer = 16 << 20

func forceReadBuffer(conn *genetlink.Conn, bytes int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes)
	})
	return errors.Join(err, set)
}

// Close ends the subscription and any Receive.
func (l *Listener) Close() error { return l.conn.Close() }

// Receive waits for events, in the kernel's order. It returns [ErrOverrun]
// after a loss, [ErrUndecodable] beside those that are understood, and the
// context's error when that ends.
func (l *Listener) Receive(ctx context.Context) ([]Event, error) {
	if err := l.conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("receiving MPTCP events: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	messages, _, err := l.conn.Receive()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.Is(err, unix.ENOBUFS) {
		if err := l.drain(); err != nil {
			return nil, fmt.Errorf("emptying the buffer of MPTCP events: %w", err)
		}
		return nil, ErrOverrun
	}
	if err != nil {
		return nil, fmt.Errorf("receiving MPTCP events: %w", err)
	}
	return parseEvents(messages)
}

// drain throws away the contents of the buffer. The kernel reports a loss before that, and
// goes on dropping events, without another report, until the buffer is empty. State read
// from the kernel before then would soon be out of date unnoticed.
func (l *Listener) drain() error {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		var one [1]byte // the rest of a message goes with it
		for {
			_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_DONTWAIT)
			switch {
			case err == nil, errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.EAGAIN):
				return
			default:
				failed = err
				return
			}
		}
	})
	return errors.Join(err, failed)
}

func parseEvents(messages []genetlink.Message) ([]Event, error) {
	events := make([]Event, 0, len(messages))
	var failed error
	for _, m := range messages {
		e, err := parseEvent(m.Header.Command, m.Data)
		if err != nil {
			failed = fmt.Errorf("%w: %w", ErrUndecodable, err)
			continue
		}
		events = append(events, e)
	}
	return events, failed
}

// parseEvent decodes one message of the events group. Attributes which it does
// not know are skipped: kernels add some.
func parseEvent(command uint8, data []byte) (Event, error) {
	e := Event{Kind: EventKind(command)}
	d, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return e, fmt.Errorf("decoding event %s: %w", e.Kind, err)
	}
	var local, remote netip.Addr
	var localPort, remotePort uint16
	for d.Next() {
		switch d.Type() {
		case evSaddr4:
			local = decodeAddr(d, 4)
		case evSaddr6:
			local = decodeAddr(d, 16)
		case evDaddr4:
			remote = decodeAddr(d, 4)
		case evDaddr6:
			remote = decodeAddr(d, 16)
		case evSport:
			localPort = decodeBigEndian16(d)
		case evDport:
			remotePort = decodeBigEndian16(d)
		default:
			e.decode(d)
		}
	}
	if err := d.Err(); err != nil {
		return e, fmt.Errorf("decoding event %s: %w", e.Kind, err)
	}
	e.Local = netip.AddrPortFrom(local, localPort)
	e.Remote = netip.AddrPortFrom(remote, remotePort)
	return e, e.check()
}

func (e *Event) decode(d *netlink.AttributeDecoder) {
	switch d.Type() {
	case evToken:
		e.Token = Token(d.Uint32())
	case evLocID:
		e.LocalID = d.Uint8()
	case evRemID:
		e.RemoteID = d.Uint8()
	case evBackup:
		e.Backup = d.Uint8() != 0
	case evError:
		e.Error = syscall.Errno(d.Uint8())
	case evFlags:
		e.ServerSide = e.ServerSide || d.Uint16()&evFlagServerSide != 0
	case evServerSide:
		e.ServerSide = e.ServerSide || d.Uint8() != 0
	case evIfIndex:
		e.Interface = int(d.Int32())
	case evResetReason:
		e.ResetReason = d.Uint32()
	}
}

// check refuses events which would put nonsense into the state.
func (e *Event) check() error {
	switch e.Kind {
	case EventCreated, EventEstablished, EventSubEstablished, EventSubClosed, EventSubPriority:
		if !e.Local.IsValid() || !e.Remote.IsValid() || e.Local.Addr().BitLen() != e.Remote.Addr().BitLen() {
			return fmt.Errorf("decoding event %s of %s: addresses missing or of unlike families", e.Kind, e.Token)
		}
	}
	return nil
}

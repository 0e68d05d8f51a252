package mptcp

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ErrUnsupported: the kernel has no MPTCP path manager over generic netlink.
var ErrUnsupported = errors.New("this kernel has no MPTCP path manager (CONFIG_MPTCP=y and net.mptcp.enabled=1 are needed)")

// Client sends commands to the path managers of one network namespace. It is
// safe for concurrent use; the commands go one after the other. All of them
// need CAP_NET_ADMIN.
type Client struct {
	mu     sync.Mutex
	conn   *genetlink.Conn
	family genetlink.Family
	// readsAnnounced: the kernel knows connections in cmdGetAddr. One that does
	// not would ignore the token and answer with its endpoints.
	readsAnnounced bool
}

// Dial opens a Client for the calling thread's network namespace.
func Dial() (*Client, error) {
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return nil, fmt.Errorf("opening generic netlink: %w", err)
	}
	// The text of an error is in the acknowledgement; without this option the
	// kernel says little more than EINVAL.
	if err := conn.SetOption(netlink.ExtendedAcknowledge, true); err != nil {
		return nil, errors.Join(fmt.Errorf("asking generic netlink for error texts: %w", err), conn.Close())
	}
	family, err := conn.GetFamily(familyName)
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			err = ErrUnsupported
		}
		return nil, errors.Join(fmt.Errorf("looking up netlink family %s: %w", familyName, err), conn.Close())
	}
	c := &Client{conn: conn, family: family}
	_, err = c.dumpAddresses(0) // no connection has token 0
	c.readsAnnounced = err != nil
	return c, nil
}

// Close releases the socket.
func (c *Client) Close() error { return c.conn.Close() }

// Do executes one command of the user-space path manager. The error of a
// connection that is gone satisfies [IsGone].
func (c *Client) Do(cmd Command) error {
	number, data, err := encodeCommand(cmd)
	if err == nil {
		_, err = c.execute(number, data, netlink.Acknowledge)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	return nil
}

// Announced reads the local addresses which a connection under the user-space
// path manager has announced. Kernels before 6.10 cannot report
// them: the error is then [ErrUnsupported].
func (c *Client) Announced(token Token) ([]Announcement, error) {
	if !c.readsAnnounced {
		return nil, fmt.Errorf("reading addresses of connection %s: %w", token, ErrUnsupported)
	}
	messages, err := c.dumpAddresses(token)
	if err != nil {
		return nil, fmt.Errorf("reading addresses of connection %s: %w", token, err)
	}
	found := []Announcement{}
	for _, m := range messages {
		endpoint, err := decodeEndpoint(m.Data)
		if err != nil {
			return nil, fmt.Errorf("reading addresses of connection %s: %w", token, err)
		}
		if endpoint.ID == 0 || !endpoint.Signal {
			continue // of a subflow, never announced
		}
		found = append(found, Announcement{
			ID: endpoint.ID, Addr: endpoint.Addr.Unmap(), Port: endpoint.Port, Backup: endpoint.Backup,
		})
	}
	return found, nil
}

func (c *Client) dumpAddresses(token Token) ([]genetlink.Message, error) {
	e := netlink.NewAttributeEncoder()
	e.Uint32(attrToken, uint32(token))
	data, err := e.Encode()
	if err != nil {
		return nil, err
	}
	return c.execute(cmdGetAddr, data, netlink.Dump)
}

func (c *Client) execute(command uint8, data []byte, flags netlink.HeaderFlags) ([]genetlink.Message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn.Execute(genetlink.Message{
		Header: genetlink.Header{Command: command, Version: c.family.Version},
		Data:   data,
	}, c.family.ID, netlink.Request|flags)
}

// IsGone reports whether an error of [Client.Do] means that the connection, the
// subflow or the announcement does not exist any more.
func IsGone(err error) bool {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOTCONN) {
		return true
	}
	// Other refusals share EINVAL: only the text distinguishes them.
	switch text := refusal(err); {
	case text == "invalid token", text == "subflow not found":
		return true
	default: // "with specified id" before 6.15, "with id 77" since
		return strings.HasPrefix(text, "address with ") && strings.HasSuffix(text, " not found")
	}
}

// isUnmanaged reports whether the connection belongs to the in-kernel path
// manager, because it began before pm_type was set.
func isUnmanaged(err error) bool { return strings.Contains(refusal(err), "userspace PM not selected") }

func refusal(err error) string {
	var op *netlink.OpError
	if errors.As(err, &op) {
		return op.Message
	}
	return ""
}

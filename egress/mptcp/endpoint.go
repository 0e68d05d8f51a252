package mptcp

import (
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
)

// Limits are those of the in-kernel path manager, for each connection, 0 to 8.
type Limits struct {
	// AddAddrAccepted is how many announced addresses a client joins. Linux has
	// 0 by default, so announcements reach few clients.
	AddAddrAccepted uint32
	// Subflows is how many there may be beyond the initial one, both opened and
	// accepted.
	Subflows uint32
}

// Limits reads the namespace's limits.
func (c *Client) Limits() (Limits, error) {
	messages, err := c.execute(cmdGetLimits, nil, 0)
	if err != nil {
		return Limits{}, fmt.Errorf("reading MPTCP limits: %w", err)
	}
	var limits Limits
	for _, m := range messages {
		d, err := netlink.NewAttributeDecoder(m.Data)
		if err != nil {
			return Limits{}, fmt.Errorf("reading MPTCP limits: %w", err)
		}
		for d.Next() {
			switch d.Type() {
			case attrRcvAddAddrs:
				limits.AddAddrAccepted = d.Uint32()
			case attrSubflows:
				limits.Subflows = d.Uint32()
			}
		}
		if err := d.Err(); err != nil {
			return Limits{}, fmt.Errorf("reading MPTCP limits: %w", err)
		}
	}
	return limits, nil
}

// SetLimits changes them, for existing connections, too.
func (c *Client) SetLimits(l Limits) error {
	e := netlink.NewAttributeEncoder()
	e.Uint32(attrRcvAddAddrs, l.AddAddrAccepted)
	e.Uint32(attrSubflows, l.Subflows)
	data, err := e.Encode()
	if err == nil {
		_, err = c.execute(cmdSetLimits, data, netlink.Acknowledge)
	}
	if err != nil {
		return fmt.Errorf("setting MPTCP limits to %d announced addresses, %d subflows: %w",
			l.AddAddrAccepted, l.Subflows, err)
	}
	return nil
}

// Endpoints reads the namespace's endpoints.
func (c *Client) Endpoints() ([]Endpoint, error) {
	messages, err := c.execute(cmdGetAddr, nil, netlink.Dump)
	if err != nil {
		return nil, fmt.Errorf("reading MPTCP endpoints: %w", err)
	}
	endpoints := make([]Endpoint, 0, len(messages))
	for _, m := range messages {
		endpoint, err := decodeEndpoint(m.Data)
		if err != nil {
			return nil, fmt.Errorf("reading MPTCP endpoints: %w", err)
		}
		endpoints = append(endpoints, endpoint)
	}
	return endpoints, nil
}

// AddEndpoint adds an endpoint; the kernel takes eight of them. Established
// connections announce it, too.
func (c *Client) AddEndpoint(e Endpoint) error {
	if err := c.endpointCommand(cmdAddAddr, e); err != nil {
		return fmt.Errorf("adding MPTCP endpoint %s: %w", e.Addr, err)
	}
	return nil
}

// DeleteEndpoint deletes the endpoint of that ID. All connections take the
// address back and close the subflows which use it.
func (c *Client) DeleteEndpoint(e Endpoint) error {
	if err := c.endpointCommand(cmdDelAddr, e); err != nil {
		return fmt.Errorf("deleting MPTCP endpoint %s id %d: %w", e.Addr, e.ID, err)
	}
	return nil
}

// SetEndpointBackup changes the priority of the endpoint's subflows, existing
// and future.
func (c *Client) SetEndpointBackup(addr netip.Addr, backup bool) error {
	if err := c.endpointCommand(cmdSetFlags, Endpoint{Addr: addr, Backup: backup}); err != nil {
		return fmt.Errorf("setting MPTCP endpoint %s to backup %t: %w", addr, backup, err)
	}
	return nil
}

func (c *Client) endpointCommand(command uint8, e Endpoint) error {
	encoder := netlink.NewAttributeEncoder()
	nestEndpoint(encoder, attrAddr, e)
	data, err := encoder.Encode()
	if err == nil {
		_, err = c.execute(command, data, netlink.Acknowledge)
	}
	return err
}

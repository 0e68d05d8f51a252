package mptcp

import (
	"fmt"
	"net/netip"
)

// CommandKind is one of the user-space path manager's operations.
type CommandKind uint8

const (
	// Announce announces a local address to the peer (ADD_ADDR).
	Announce CommandKind = iota + 1
	// Remove takes that back (RM_ADDR); the peer closes subflows to it.
	Remove
	// CreateSubflow opens a subflow from here. Clients rarely accept one:
	// Linux listens only where an application does.
	CreateSubflow
	// DestroySubflow closes a subflow; unacknowledged data move to others.
	DestroySubflow
	// SetBackup changes a subflow's priority and signals that to the peer (MP_PRIO).
	SetBackup
)

// Command is one operation on one connection, as data.
type Command struct {
	Kind  CommandKind
	Token Token
	// ID is the address ID of Announce, Remove and CreateSubflow.
	ID uint8
	// Addr and Port are those to announce; port 0 means the initial one.
	Addr netip.Addr
	Port uint16
	// Local and Remote name the subflow of CreateSubflow (local port 0),
	// DestroySubflow and SetBackup.
	Local, Remote netip.AddrPort
	// Backup is the flag of Announce and SetBackup.
	Backup bool
}

// String prints the command in the way of the kernel's selftest tool
// pm_nl_ctl, for logs and dry runs.
func (c Command) String() string {
	switch c.Kind {
	case Announce:
		s := fmt.Sprintf("announce %s id %d token %s", c.Addr, c.ID, c.Token)
		if c.Port != 0 {
			s += fmt.Sprintf(" port %d", c.Port)
		}
		if c.Backup {
			s += " backup"
		}
		return s
	case Remove:
		return fmt.Sprintf("remove id %d token %s", c.ID, c.Token)
	case CreateSubflow:
		return fmt.Sprintf("create subflow %s id %d to %s token %s", c.Local.Addr(), c.ID, c.Remote, c.Token)
	case DestroySubflow:
		return fmt.Sprintf("destroy subflow %s to %s token %s", c.Local, c.Remote, c.Token)
	case SetBackup:
		if c.Backup {
			return fmt.Sprintf("set subflow %s to %s backup token %s", c.Local, c.Remote, c.Token)
		}
		return fmt.Sprintf("set subflow %s to %s active token %s", c.Local, c.Remote, c.Token)
	}
	return fmt.Sprintf("command(%d)", c.Kind)
}

package mptcp

import (
	"net/netip"
	"slices"
)

// Plan returns the commands that bring a connection to its decision: first commands that
// add capacity, then those that take it away. prefer gives the address ID to use for an
// address, where it is free in the connection.
//
// A connection's last subflow is never destroyed, wherever it leads. While it is there the
// connection can outlive the path's failure. Without it the client would see a reset.
func Plan(c *Connection, d Decision, prefer map[netip.Addr]uint8) []Command {
	var plan []Command
	wanted := slices.Concat(d.Announce, d.Keep)
	plan = append(plan, planPriorities(c, d, wanted, false)...)
	if c.Established {
		plan = append(plan, planAnnouncements(c, d.Announce, prefer)...)
	}
	plan = append(plan, planPriorities(c, d, wanted, true)...)
	return append(plan, planRemovals(c, d, wanted, prefer)...)
}

// planPriorities sets subflows to backup, or to active, where they are not.
func planPriorities(c *Connection, d Decision, wanted []Use, backup bool) []Command {
	var plan []Command
	first := firstOfOrder(c, d, wanted)
	for i, s := range c.Subflows {
		want, managed := wantedBackup(c, s, d, wanted)
		want = want || (first >= 0 && i != first)
		if !managed || want != backup {
			continue
		}
		if s.LocalBackup == want && (s.confirmed || !want) {
			continue
		}
		plan = append(plan, Command{Kind: SetBackup, Token: c.Token, Local: s.Local, Remote: s.Remote, Backup: want})
	}
	return plan
}

// firstOfOrder returns the place of the subflow that alone is to be regular by [Hint.Order],
// or -1 for none. A subflow that the peer has asked to use last cannot be it.
func firstOfOrder(c *Connection, d Decision, wanted []Use) int {
	for _, ends := range c.Hint.Order {
		i := slices.IndexFunc(c.Subflows, ends.are)
		if i < 0 || c.Subflows[i].PeerBackup {
			continue
		}
		if backup, managed := wantedBackup(c, c.Subflows[i], d, wanted); managed && !backup {
			return i
		}
	}
	return -1
}

func wantedBackup(c *Connection, s Subflow, d Decision, wanted []Use) (backup, managed bool) {
	for _, use := range wanted {
		if use.Addr == s.Local.Addr().Unmap() {
			return use.Backup, true
		}
	}
	if s.Local.Addr() != c.Local.Addr() {
		return false, false
	}
	// While nothing else is active the kernel would use the initial subflow
	// all the same; the client need not be notified.
	return d.InitialBackup && hasActive(c, s, wanted), true
}

func hasActive(c *Connection, except Subflow, wanted []Use) bool {
	for _, s := range c.Subflows {
		if s.Local == except.Local && s.Remote == except.Remote {
			continue
		}
		for _, use := range wanted {
			if use.Addr == s.Local.Addr().Unmap() && !use.Backup {
				return true
			}
		}
	}
	return false
}

func planAnnouncements(c *Connection, announce []Use, prefer map[netip.Addr]uint8) []Command {
	var plan []Command
	var taken [256]bool
	for _, a := range c.Announced {
		taken[a.ID] = true
	}
	for _, s := range c.Subflows {
		taken[s.LocalID] = true
	}
	for _, id := range c.known {
		taken[id] = true
	}
	for _, use := range announce {
		if c.announced(use.Addr) {
			continue
		}
		id := chooseID(c, use.Addr, prefer, &taken)
		if id == 0 {
			break // 255 addresses are in use
		}
		taken[id] = true
		plan = append(plan, Command{Kind: Announce, Token: c.Token, ID: id, Addr: use.Addr, Backup: use.Backup})
	}
	return plan
}

func chooseID(c *Connection, addr netip.Addr, prefer map[netip.Addr]uint8, taken *[256]bool) uint8 {
	if id, ok := c.known[addr]; ok {
		return id
	}
	// An address can be in use without having been announced: by a subflow
	// from before a restart, on a kernel which does not report announcements.
	for _, s := range c.Subflows {
		if s.Local.Addr().Unmap() == addr && s.LocalID != 0 {
			return s.LocalID
		}
	}
	if id := prefer[addr]; id != 0 && !taken[id] {
		return id
	}
	for id := 1; id < len(taken); id++ {
		if !taken[id] {
			return uint8(id)
		}
	}
	return 0
}

func (c *Connection) announced(addr netip.Addr) bool {
	return slices.ContainsFunc(c.Announced, func(a Announcement) bool { return a.Addr == addr })
}

// planRemovals takes back addresses before it destroys their subflows. By then the kernel
// would have forgotten their IDs, and RM_ADDR makes a client behind a dead path close its
// end. Subflows to addresses that were never ours to announce are left alone.
func planRemovals(c *Connection, d Decision, wanted []Use, prefer map[netip.Addr]uint8) []Command {
	var plan []Command
	unwanted := func(addr netip.Addr) bool {
		return !slices.ContainsFunc(wanted, func(u Use) bool { return u.Addr == addr })
	}
	for _, a := range c.Announced {
		if unwanted(a.Addr) {
			plan = append(plan, Command{Kind: Remove, Token: c.Token, ID: a.ID})
		}
	}
	left := len(c.Subflows)
	for _, s := range c.Subflows {
		addr := s.Local.Addr().Unmap()
		goes := unwanted(addr) && (c.known[addr] != 0 || prefer[addr] != 0)
		if s.LocalID == 0 && s.Local.Addr() == c.Local.Addr() {
			goes = d.InitialDown
		}
		if !goes || left == 1 {
			continue
		}
		left--
		if s.LocalID == 0 {
			plan = append(plan, Command{Kind: Remove, Token: c.Token}) // never announced, but known to the client
		}
		plan = append(plan, Command{Kind: DestroySubflow, Token: c.Token, Local: s.Local, Remote: s.Remote})
	}
	return plan
}

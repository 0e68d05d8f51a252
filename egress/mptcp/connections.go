package mptcp

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// connections is the state of all connections, from events and from what
// commands did. It does no I/O and has no clock.
type connections struct {
	byToken map[Token]*Connection
	byTuple map[tuple]Token
	byArea  areas
}

// tuple names a connection by its initial subflow, never IPv4-mapped.
type tuple struct{ local, remote netip.AddrPort }

func tupleOf(local, remote netip.AddrPort) tuple {
	return tuple{unmap(local), unmap(remote)}
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

func newConnections() *connections {
	return &connections{byToken: make(map[Token]*Connection), byTuple: make(map[tuple]Token), byArea: make(areas)}
}

// apply takes an event in and returns the connection that it changed, or nil.
// A closed connection is returned with closed set, and is gone.
func (cs *connections) apply(e Event, now time.Time) (c *Connection, closed bool) {
	c = cs.byToken[e.Token]
	switch e.Kind {
	case EventCreated, EventEstablished:
		return cs.open(c, e, now), false
	case EventClosed:
		if c != nil {
			cs.remove(c)
		}
		return c, true
	}
	if c == nil {
		return nil, false
	}
	switch e.Kind {
	case EventSubEstablished:
		c.addSubflow(e, now)
	case EventSubClosed:
		if s := c.subflow(e.Local, e.Remote); s != nil {
			gone := *s
			c.dropSubflow(e.Local, e.Remote)
			c.closed(gone, e, now)
		}
	case EventSubPriority:
		if s := c.subflow(e.Local, e.Remote); s != nil {
			s.PeerBackup = e.Backup
		}
	default:
		return nil, false
	}
	return c, false
}

func (cs *connections) open(c *Connection, e Event, now time.Time) *Connection {
	// A token can be given again after a CLOSED event that was lost.
	if c != nil && (c.Local != e.Local || c.Remote != e.Remote) {
		cs.remove(c)
		c = nil
	}
	if c == nil {
		c = &Connection{
			Token: e.Token, Local: e.Local, Remote: e.Remote, ServerSide: e.ServerSide, Since: now,
			Subflows: []Subflow{{Local: e.Local, Remote: e.Remote, Since: now, confirmed: true}},
		}
		cs.insert(c)
	}
	if e.Kind == EventEstablished {
		c.Established = true
	}
	return c
}

func (cs *connections) insert(c *Connection) {
	cs.byToken[c.Token] = c
	cs.byTuple[tupleOf(c.Local, c.Remote)] = c.Token
	cs.byArea.insert(c)
}

func (cs *connections) remove(c *Connection) {
	delete(cs.byToken, c.Token)
	cs.byArea.remove(c)
	if key := tupleOf(c.Local, c.Remote); cs.byTuple[key] == c.Token {
		delete(cs.byTuple, key)
	}
}

func (c *Connection) addSubflow(e Event, now time.Time) {
	if s := c.subflow(e.Local, e.Remote); s != nil {
		s.LocalID, s.RemoteID, s.PeerBackup = e.LocalID, e.RemoteID, e.Backup
		return
	}
	s := Subflow{
		Local: e.Local, Remote: e.Remote, LocalID: e.LocalID, RemoteID: e.RemoteID,
		PeerBackup: e.Backup, Since: now,
	}
	for _, a := range c.Announced {
		if a.Addr == s.Local.Addr().Unmap() {
			s.LocalBackup = a.Backup
		}
	}
	c.Subflows = append(c.Subflows, s)
}

func (c *Connection) subflow(local, remote netip.AddrPort) *Subflow {
	for i := range c.Subflows {
		if c.Subflows[i].Local == local && c.Subflows[i].Remote == remote {
			return &c.Subflows[i]
		}
	}
	return nil
}

func (c *Connection) dropSubflow(local, remote netip.AddrPort) {
	c.Subflows = slices.DeleteFunc(c.Subflows, func(s Subflow) bool {
		return s.Local == local && s.Remote == remote
	})
}

// hasInitial reports whether a subflow to the address that the client connected
// to remains.
func (c *Connection) hasInitial() bool {
	return slices.ContainsFunc(c.Subflows, func(s Subflow) bool { return s.Local.Addr() == c.Local.Addr() })
}

// keepsInitial reports whether the initial subflow is one to count on.
func (c *Connection) keepsInitial() bool { return c.hasInitial() && !c.initial.lost }

// hasSubflow reports whether a subflow leaves from an address of ours, never
// IPv4-mapped.
func (c *Connection) hasSubflow(addr netip.Addr) bool {
	return slices.ContainsFunc(c.Subflows, func(s Subflow) bool { return s.Local.Addr().Unmap() == addr })
}

// done notes the effect of a successful command. A destroyed subflow is removed
// here, not at its SUB_CLOSED, so that a plan made in between does not name it.
func (c *Connection) done(cmd Command) {
	switch cmd.Kind {
	case Announce:
		c.remember(cmd.Addr, cmd.ID)
		if !c.announced(cmd.Addr) {
			c.Announced = append(c.Announced, Announcement{ID: cmd.ID, Addr: cmd.Addr, Port: cmd.Port, Backup: cmd.Backup})
		}
	case Remove:
		c.Announced = slices.DeleteFunc(c.Announced, func(a Announcement) bool { return a.ID == cmd.ID })
	case DestroySubflow:
		c.dropSubflow(cmd.Local, cmd.Remote)
	case SetBackup:
		if s := c.subflow(cmd.Local, cmd.Remote); s != nil {
			s.LocalBackup, s.confirmed = cmd.Backup, true
		}
		// The kernel keeps the flag with the address, for later joins.
		for i := range c.Announced {
			if c.Announced[i].Addr == cmd.Local.Addr().Unmap() {
				c.Announced[i].Backup = cmd.Backup
			}
		}
	}
}

func (c *Connection) remember(addr netip.Addr, id uint8) {
	if c.known == nil {
		c.known = make(map[netip.Addr]uint8)
	}
	c.known[addr] = id
}

// inferAnnounced takes subflows' addresses for announced, where the kernel does not report
// announcements. One that was never joined stays unknown.
func (c *Connection) inferAnnounced() {
	for _, s := range c.Subflows {
		addr := s.Local.Addr().Unmap()
		if s.LocalID != 0 && !c.announced(addr) {
			c.Announced = append(c.Announced, Announcement{ID: s.LocalID, Addr: addr, Backup: s.LocalBackup})
		}
	}
}

// clone returns a copy which shares nothing with the state.
func (c *Connection) clone() Connection {
	copied := *c
	copied.Subflows = slices.Clone(c.Subflows)
	copied.Announced = slices.Clone(c.Announced)
	copied.known, copied.renewals = maps.Clone(c.known), nil
	return copied
}

// knownFirst sorts connections that were read so that those known before come first.
func (cs *connections) knownFirst(read []Connection) []Connection {
	unknown := func(c Connection) bool { return cs.byToken[c.Token] == nil }
	known := slices.DeleteFunc(slices.Clone(read), unknown)
	return append(known, slices.DeleteFunc(read, func(c Connection) bool { return !unknown(c) })...)
}

// replace takes over the connections read from the kernel. Of connections known before it
// keeps the values that the kernel does not report.
func (cs *connections) replace(read []Connection, now time.Time) {
	old := cs.byToken
	cs.byToken = make(map[Token]*Connection, len(read))
	cs.byTuple = make(map[tuple]Token, len(read))
	cs.byArea = make(areas)
	for _, c := range read {
		c.Since, c.Adopted = now, true
		before := old[c.Token]
		if before != nil && before.Local == c.Local && before.Remote == c.Remote {
			c.Since, c.Adopted = before.Since, before.Adopted
			c.Hint, c.hinted = before.Hint, before.hinted
			c.initial, c.commands, c.renewals = before.initial, before.commands, before.renewals
			c.Established = c.Established || before.Established
			for addr, id := range before.known {
				c.remember(addr, id)
			}
			if c.Announced == nil {
				c.Announced = before.Announced
			}
		}
		for _, a := range c.Announced {
			c.remember(a.Addr, a.ID)
		}
		for i := range c.Subflows {
			s := &c.Subflows[i]
			s.Since = now
			if before != nil {
				if known := before.subflow(s.Local, s.Remote); known != nil {
					s.Since = known.Since
				}
			}
		}
		if before != nil {
			c.lostUnseen(before, now)
		}
		cs.insert(&c)
	}
}

// lostUnseen has the addresses renewed whose subflows closed without an event.
func (c *Connection) lostUnseen(before *Connection, now time.Time) {
	if before.Local != c.Local || before.Remote != c.Remote {
		return
	}
	for _, s := range before.Subflows {
		if c.subflow(s.Local, s.Remote) == nil {
			c.closed(s, Event{}, now)
		}
	}
}

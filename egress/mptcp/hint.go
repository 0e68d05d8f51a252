package mptcp

import (
	"fmt"
	"net/netip"
	"time"
)

// hints holds what was told of connections whose events have not been seen yet: the
// edge server may accept and read a request before the Manager is scheduled.
type hints[K comparable] map[K]hint

type hint struct {
	told  Told
	until time.Time
}

const (
	hintLife = 10 * time.Second
	// maxHints bounds them: the edge server may tell of plain TCP connections, and
	// of those that have ended, for which no event will ever come.
	maxHints = 4096
)

// keep reports whether there is room.
func (h hints[K]) keep(key K, told Told, now time.Time) bool {
	if len(h) >= maxHints {
		for key, old := range h {
			if !now.Before(old.until) {
				delete(h, key)
			}
		}
	}
	if len(h) >= maxHints {
		return false
	}
	h[key] = hint{told, now.Add(hintLife)}
	return true
}

func (h hints[K]) take(key K, now time.Time) (Told, bool) {
	hint, ok := h[key]
	delete(h, key)
	return hint.told, ok && now.Before(hint.until)
}

// Tell takes what holds for a connection from now on. It also holds for one that is
// not known yet and appears within ten seconds.
func (m *Manager) Tell(token Token, told Told) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if c := m.conns.byToken[token]; c != nil {
		m.tell(c, told, now)
		return nil
	}
	if !m.byToken.keep(token, told, now) {
		return fmt.Errorf("taking %+v of connection %s: %w", told, token, ErrUnknownConnection)
	}
	return nil
}

// TellByAddress is [Manager.Tell] for who knows the addresses of the initial
// subflow, not the token.
func (m *Manager) TellByAddress(local, remote netip.AddrPort, told Told) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	key := tupleOf(local, remote)
	if token, ok := m.conns.byTuple[key]; ok {
		m.tell(m.conns.byToken[token], told, now)
		return nil
	}
	if !m.byAddress.keep(key, told, now) {
		return fmt.Errorf("taking %+v of connection %s from %s: %w", told, local, remote, ErrUnknownConnection)
	}
	return nil
}

func (m *Manager) tell(c *Connection, told Told, now time.Time) {
	if c.isTold && c.Told.equal(told) {
		return
	}
	c.take(told)
	m.settle(c, now)
}

func (m *Manager) takeHint(c *Connection, now time.Time) {
	if told, ok := m.byAddress.take(tupleOf(c.Local, c.Remote), now); ok {
		c.take(told)
	}
	if told, ok := m.byToken.take(c.Token, now); ok {
		c.take(told)
	}
}

func (c *Connection) take(told Told) { c.Told, c.isTold, c.Adopted = told, true, false }

// wordWait is how long a new connection waits for what the server program decides of
// it, where that is left to it. A path that is announced and taken back at once has
// carried something if the client was quick, and MPTCP then sends all that is under
// way again: it does so when a subflow is closed that has data in flight.
const wordWait = 100 * time.Millisecond

// awaitsWord returns until when nothing is to be done for the connection; zero: not
// any more.
func (c *Connection) awaitsWord(d Decision, now time.Time) time.Time {
	until := c.Since.Add(wordWait)
	if !d.Open || c.isTold || c.Adopted || !now.Before(until) {
		return time.Time{}
	}
	return until
}

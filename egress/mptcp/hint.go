package mptcp

import (
	"net/netip"
	"time"
)

// hints holds what was told of connections whose events have not been seen yet: the
// edge server may accept and read a request before the Manager is scheduled. It may
// also tell of plain TCP connections, and of those that have ended, for which no event
// will ever come: once fresh is full or hintLife old, what is in old is forgotten.
type hints[K comparable] struct {
	fresh, old map[K]hint
	// since is when fresh was begun.
	since time.Time
}

type hint struct {
	told  Told
	until time.Time
}

const (
	hintLife = 10 * time.Second
	maxHints = 4096
)

func (h *hints[K]) keep(key K, told Told, now time.Time) {
	if h.fresh == nil || len(h.fresh) >= maxHints || now.Sub(h.since) >= hintLife {
		h.old, h.fresh, h.since = h.fresh, make(map[K]hint), now
	}
	h.fresh[key] = hint{told, now.Add(hintLife)}
}

func (h *hints[K]) take(key K, now time.Time) (Told, bool) {
	last, ok := h.fresh[key]
	if !ok {
		last, ok = h.old[key]
	}
	delete(h.fresh, key)
	delete(h.old, key)
	return last.told, ok && now.Before(last.until)
}

// Tell takes what holds for a connection from now on. It also holds for one that is
// not known yet and appears within ten seconds, unless thousands are told of before.
func (m *Manager) Tell(token Token, told Told) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if c := m.conns.byToken[token]; c != nil {
		m.tell(c, told, now)
		return
	}
	m.byToken.keep(token, told, now)
}

// TellByAddress is [Manager.Tell] for who knows the addresses of the initial
// subflow, not the token.
func (m *Manager) TellByAddress(local, remote netip.AddrPort, told Told) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	key := tupleOf(local, remote)
	if token, ok := m.conns.byTuple[key]; ok {
		m.tell(m.conns.byToken[token], told, now)
		return
	}
	m.byAddress.keep(key, told, now)
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

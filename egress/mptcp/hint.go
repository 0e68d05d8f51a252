package mptcp

import (
	"net/netip"
	"time"
)

// hints holds hints for connections whose events have not been seen yet. The edge server
// may accept and read a request before the Manager is scheduled. Hints may also be for
// plain TCP connections, and for those that have ended, whose events will never come. The
// hints in old are forgotten once fresh is full or hintLife old.
type hints[K comparable] struct {
	fresh, old map[K]pendingHint
	// since is when fresh was begun.
	since time.Time
}

type pendingHint struct {
	hint  Hint
	until time.Time
}

const (
	hintLife = 10 * time.Second
	maxHints = 4096
)

func (h *hints[K]) keep(key K, hint Hint, now time.Time) {
	if h.fresh == nil || len(h.fresh) >= maxHints || now.Sub(h.since) >= hintLife {
		h.old, h.fresh, h.since = h.fresh, make(map[K]pendingHint), now
	}
	h.fresh[key] = pendingHint{hint, now.Add(hintLife)}
}

func (h *hints[K]) take(key K, now time.Time) (Hint, bool) {
	last, ok := h.fresh[key]
	if !ok {
		last, ok = h.old[key]
	}
	delete(h.fresh, key)
	delete(h.old, key)
	return last.hint, ok && now.Before(last.until)
}

// SetHint sets the hint that holds for a connection from now on. It also holds for one that is not
// known yet and appears within ten seconds, unless thousands of other hints come before.
func (m *Manager) SetHint(token Token, hint Hint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if c := m.conns.byToken[token]; c != nil {
		m.setHint(c, hint, now)
		return
	}
	m.byToken.keep(token, hint, now)
}

// SetHintByAddress does as [Manager.SetHint] for a caller that knows the addresses of the
// initial subflow, not the token.
func (m *Manager) SetHintByAddress(local, remote netip.AddrPort, hint Hint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	key := tupleOf(local, remote)
	if token, ok := m.conns.byTuple[key]; ok {
		m.setHint(m.conns.byToken[token], hint, now)
		return
	}
	m.byAddress.keep(key, hint, now)
}

func (m *Manager) setHint(c *Connection, hint Hint, now time.Time) {
	if c.hinted && c.Hint.equal(hint) {
		return
	}
	c.take(hint)
	m.settle(c, now)
}

func (m *Manager) takeHint(c *Connection, now time.Time) {
	if hint, ok := m.byAddress.take(tupleOf(c.Local, c.Remote), now); ok {
		c.take(hint)
	}
	if hint, ok := m.byToken.take(c.Token, now); ok {
		c.take(hint)
	}
}

func (c *Connection) take(hint Hint) { c.Hint, c.hinted, c.Adopted = hint, true, false }

// hintWait is how long a new connection waits for its hint, where the rule leaves the mode
// to the server program. A path that is announced and withdrawn at once has carried
// something if the client was quick. MPTCP then sends all data in flight again: it does so
// when a subflow with data in flight is closed.
const hintWait = 100 * time.Millisecond

// awaitsHint returns until when nothing is to be done for the connection; zero: not any
// more.
func (c *Connection) awaitsHint(d Decision, now time.Time) time.Time {
	until := c.Since.Add(hintWait)
	if !d.Open || c.hinted || c.Adopted || !now.Before(until) {
		return time.Time{}
	}
	return until
}

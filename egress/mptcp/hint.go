package mptcp

import (
	"fmt"
	"net/netip"
	"time"
)

// hint is a class told for a connection whose event has not been seen yet: the
// edge server may accept and read a request before the Manager is scheduled.
type hint struct {
	class string
	until time.Time
}

const (
	hintLife = 10 * time.Second
	// maxHints bounds them: the edge server may tell of plain TCP connections,
	// for which no event will ever come.
	maxHints = 4096
)

// SetClassByAddress is [Manager.SetClass] for who knows the addresses of the
// initial subflow, not the token. A connection that is not known yet gets the
// class if it appears within ten seconds.
func (m *Manager) SetClassByAddress(local, remote netip.AddrPort, class string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	key := tupleOf(local, remote)
	if token, ok := m.conns.byTuple[key]; ok {
		m.setClass(m.conns.byToken[token], class, now)
		return nil
	}
	if len(m.hints) >= maxHints {
		m.dropHints(now)
	}
	if len(m.hints) >= maxHints {
		return fmt.Errorf("setting class %q of connection %s from %s: %w", class, local, remote, ErrUnknownConnection)
	}
	m.hints[key] = hint{class, now.Add(hintLife)}
	return nil
}

func (m *Manager) takeHint(c *Connection, now time.Time) {
	key := tupleOf(c.Local, c.Remote)
	if h, ok := m.hints[key]; ok {
		delete(m.hints, key)
		if now.Before(h.until) {
			c.Class = h.class
		}
	}
}

func (m *Manager) dropHints(now time.Time) {
	for key, h := range m.hints {
		if !now.Before(h.until) {
			delete(m.hints, key)
		}
	}
}

package mptcp

import (
	"fmt"
	"net/netip"
	"time"
)

// hint is what was told of a connection whose event has not been seen yet: the
// edge server may accept and read a request before the Manager is scheduled.
type hint struct {
	told  Told
	until time.Time
}

const (
	hintLife = 10 * time.Second
	// maxHints bounds them: the edge server may tell of plain TCP connections,
	// for which no event will ever come.
	maxHints = 4096
)

// TellByAddress is [Manager.Tell] for who knows the addresses of the initial
// subflow, not the token. It also holds for a connection that is not known yet
// and appears within ten seconds.
func (m *Manager) TellByAddress(local, remote netip.AddrPort, told Told) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	key := tupleOf(local, remote)
	if token, ok := m.conns.byTuple[key]; ok {
		m.tell(m.conns.byToken[token], told, now)
		return nil
	}
	if len(m.hints) >= maxHints {
		m.dropHints(now)
	}
	if len(m.hints) >= maxHints {
		return fmt.Errorf("taking %+v of connection %s from %s: %w", told, local, remote, ErrUnknownConnection)
	}
	m.hints[key] = hint{told, now.Add(hintLife)}
	return nil
}

func (m *Manager) takeHint(c *Connection, now time.Time) {
	key := tupleOf(c.Local, c.Remote)
	if h, ok := m.hints[key]; ok {
		delete(m.hints, key)
		if now.Before(h.until) {
			c.Told = h.told
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

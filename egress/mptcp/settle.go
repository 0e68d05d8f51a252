package mptcp

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"hikyaku/egress/prefixmap"
)

// This file is the Manager's hands: all of it runs with m.mu held.

func (m *Manager) decide(c *Connection, routes Routes) Decision {
	if m.policy == nil {
		return Decision{Reason: "no policy"}
	}
	routes.Avoid = slices.Concat(routes.Avoid, c.Hint.Avoid)
	routes.Full = c.Hint.Full
	return m.cfg.Bounds.announce(c, m.policy.Decide(c, m.paths, routes))
}

func (m *Manager) routes(client netip.Addr) Routes {
	if m.cfg.Router != nil {
		return m.cfg.Router.Routes(client)
	}
	var all Routes
	for _, path := range m.paths {
		all.Paths = append(all.Paths, path.Name)
	}
	return all
}

// settle brings one connection to its decision.
func (m *Manager) settle(c *Connection, now time.Time) {
	if m.kernel == nil || c.unmanaged || !c.ServerSide {
		return
	}
	routes := m.routes(c.Client())
	c.initial.follow(routes.Best, m.paths, now)
	d := m.decide(c, routes)
	if until := c.awaitsHint(d, now); !until.IsZero() {
		c.commands.due = until
		m.noteDue(c)
		return
	}
	plan := append(Plan(c, d, m.ids), planRenewals(c, d, now)...)
	plan = append(plan, m.cfg.Bounds.planExcess(c, plan)...)
	failed := false
	for _, cmd := range plan {
		err := m.kernel.Do(cmd)
		if m.cfg.OnCommand != nil {
			m.cfg.OnCommand(cmd, err)
		}
		switch {
		case err == nil, IsGone(err) && (cmd.Kind == Remove || cmd.Kind == DestroySubflow):
			c.done(cmd)
		case IsGone(err):
			return // its closing event is on the way
		case isUnmanaged(err):
			c.unmanaged = true
			return
		default:
			failed = true
			m.logFailure(cmd, c, err, now)
		}
	}
	c.noteOutcome(failed, now)
	m.noteDue(c)
}

// logFailure logs one failure in a second: a command that fails for one connection may fail for
// thousands.
func (m *Manager) logFailure(cmd Command, c *Connection, err error, now time.Time) {
	if now.Sub(m.failureLogged) < time.Second {
		m.unlogged++
		return
	}
	m.log.Warn("MPTCP command failed", "command", cmd.String(), "client", c.Remote, "error", err, "unlogged", m.unlogged)
	m.failureLogged, m.unlogged = now, 0
}

// settleAll settles all connections, or those whose client is in the set.
func (m *Manager) settleAll(clients *prefixmap.Map[struct{}]) {
	now := time.Now()
	which := maps.Values(m.conns.byToken)
	if clients != nil {
		which = m.conns.byArea.within(clients)
	}
	for c := range which {
		m.settle(c, now)
	}
}

// resync reads everything from the kernel and settles it.
func (m *Manager) resync() error {
	read, err := m.kernel.Connections()
	if err != nil {
		return fmt.Errorf("reading MPTCP connections: %w", err)
	}
	if bound := m.cfg.Bounds.Connections; bound > 0 && len(read) > bound {
		m.refused(len(read) - bound)
		read = m.conns.knownFirst(read)[:bound]
	}
	for i := range read {
		if err := m.readAnnounced(&read[i]); err != nil {
			m.log.Warn("announcements of an MPTCP connection are unknown", "client", read[i].Remote, "error", err)
		}
	}
	m.conns.replace(read, time.Now())
	m.settleAll(nil)
	return nil
}

func (m *Manager) readAnnounced(c *Connection) error {
	announced, err := m.kernel.Announced(c.Token)
	switch {
	case err == nil:
		c.Announced = announced
	case errors.Is(err, ErrUnsupported):
		c.inferAnnounced()
	case isUnmanaged(err):
		c.unmanaged = true
	case !IsGone(err):
		return err
	}
	return nil
}

// retryApart is the time between checks of connections with something due.
// Where thousands close in a second, each has its own time, and all are walked.
const retryApart = 50 * time.Millisecond

// noteDue remembers a connection for which something is to be tried again, and
// makes the loop look at its timer.
func (m *Manager) noteDue(c *Connection) {
	due := c.due()
	if due.IsZero() {
		return
	}
	m.pending[c.Token] = struct{}{}
	if m.nextDue.IsZero() || due.Before(m.nextDue) {
		m.nextDue = due
		m.wakeUp()
	}
}

func (m *Manager) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// untilDue returns how long nothing has to be tried again.
func (m *Manager) untilDue() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	wait := m.again.wait()
	if !m.nextDue.IsZero() {
		wait = min(wait, max(time.Until(m.nextDue), time.Until(m.retried.Add(retryApart))))
	}
	return max(wait, 0)
}

func (m *Manager) retry(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nextDue.IsZero() || m.nextDue.After(now) {
		return
	}
	m.nextDue, m.retried = time.Time{}, now
	var due []*Connection
	for token := range m.pending {
		c := m.conns.byToken[token]
		switch {
		case c == nil || c.due().IsZero():
			delete(m.pending, token)
		case c.due().After(now):
			m.noteDue(c)
		default:
			delete(m.pending, token)
			due = append(due, c)
		}
	}
	for _, c := range due {
		c.commands.due = time.Time{}
		m.settle(c, now)
	}
}

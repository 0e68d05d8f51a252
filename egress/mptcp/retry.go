package mptcp

import (
	"net/netip"
	"slices"
	"time"
)

// How often and how soon something is tried again. Doubling from 1 s, five
// attempts take half a minute; a longer failure is settled by the next
// change of policy, paths or subflows.
const (
	retryFirst    = time.Second
	retryAttempts = 5
	// A subflow that lived this long was sound: its address starts afresh.
	retryForget = 30 * time.Second
)

// retryState counts attempts; the zero value waits for nothing.
type retryState struct {
	attempts int
	due      time.Time // zero: not waiting
}

func (r *retryState) again(now time.Time) {
	r.due = time.Time{}
	if r.attempts < retryAttempts {
		r.due = now.Add(retryFirst << r.attempts)
		r.attempts++
	}
}

// soon makes it due without counting an attempt.
func (r *retryState) soon(now time.Time) {
	if r.due.IsZero() {
		r.due = now.Add(retryFirst)
	}
}

// Reasons of MP_TCPRST (RFC 8684 §3.6) after which another attempt is useless.
const (
	resetProhibited = 3
	resetMiddlebox  = 6
)

// closed notes that the last subflow of an announced address went away, so that the address
// is renewed. A client whose subflow died does not come back on its own account.
func (c *Connection) closed(s Subflow, e Event, now time.Time) {
	addr := s.Local.Addr().Unmap()
	if !c.announced(addr) || e.ResetReason == resetProhibited || e.ResetReason == resetMiddlebox {
		return
	}
	if slices.ContainsFunc(c.Subflows, func(s Subflow) bool { return s.Local.Addr().Unmap() == addr }) {
		return
	}
	if c.renewals == nil {
		c.renewals = make(map[netip.Addr]*retryState)
	}
	r := c.renewals[addr]
	if r == nil || now.Sub(s.Since) >= retryForget {
		r = &retryState{}
		c.renewals[addr] = r
	}
	r.again(now)
}

// planRenewals takes due addresses back and announces them again.
func planRenewals(c *Connection, d Decision, now time.Time) []Command {
	var plan []Command
	for addr, r := range c.renewals {
		if r.due.IsZero() || r.due.After(now) {
			continue
		}
		r.due = time.Time{}
		i := slices.IndexFunc(c.Announced, func(a Announcement) bool { return a.Addr == addr })
		wanted := slices.ContainsFunc(d.Announce, func(u Use) bool { return u.Addr == addr })
		joined := slices.ContainsFunc(c.Subflows, func(s Subflow) bool { return s.Local.Addr().Unmap() == addr })
		if i < 0 || !wanted || joined {
			continue
		}
		a := c.Announced[i]
		plan = append(plan,
			Command{Kind: Remove, Token: c.Token, ID: a.ID},
			Command{Kind: Announce, Token: c.Token, ID: a.ID, Addr: a.Addr, Port: a.Port, Backup: a.Backup})
	}
	return plan
}

func (c *Connection) noteOutcome(failed bool, now time.Time) {
	if failed {
		c.commands.again(now)
		return
	}
	c.commands = retryState{}
}

// due is when something is to be tried again, or zero.
func (c *Connection) due() time.Time {
	due := c.commands.due
	for _, r := range c.renewals {
		if !r.due.IsZero() && (due.IsZero() || r.due.Before(due)) {
			due = r.due
		}
	}
	return due
}

package mptcp

import (
	"cmp"
	"fmt"
	"slices"
)

// Bounds hold whatever the policy says; 0 is no bound.
type Bounds struct {
	// Addresses that are announced to a client at a time, those of draining paths
	// aside.
	Addresses int
	// Subflows of a connection besides its first: further ones are closed, and
	// no more addresses announced than could be joined.
	Subflows int
	// Connections that are known at a time. No address is announced to clients of further
	// ones, as long as those live.
	Connections int
}

// announce bounds a decision. Active paths come before backup ones, and addresses
// that the client knows before others: an exchange would cost a subflow.
func (b Bounds) announce(c *Connection, d Decision) Decision {
	limit := len(d.Announce)
	for _, bound := range []int{b.Addresses, b.Subflows} {
		if bound > 0 {
			limit = min(limit, bound)
		}
	}
	if limit == len(d.Announce) {
		return d
	}
	d.Reason += fmt.Sprintf(", %d of %d addresses as bounded", limit, len(d.Announce))
	rank := func(u Use) int {
		switch {
		case u.Backup:
			return 2
		case c.announced(u.Addr):
			return 0
		}
		return 1
	}
	d.Announce = slices.Clone(d.Announce)
	slices.SortStableFunc(d.Announce, func(x, y Use) int { return cmp.Compare(rank(x), rank(y)) })
	d.Announce = d.Announce[:limit]
	return d
}

// planExcess closes subflows beyond the bound which a plan leaves, backup ones
// first, then the newest.
func (b Bounds) planExcess(c *Connection, plan []Command) []Command {
	if b.Subflows == 0 || len(c.Subflows)-1 <= b.Subflows {
		return nil
	}
	var further []Subflow
	left := len(c.Subflows)
	for _, s := range c.Subflows {
		goes := func(cmd Command) bool {
			return cmd.Kind == DestroySubflow && cmd.Local == s.Local && cmd.Remote == s.Remote
		}
		switch {
		case slices.ContainsFunc(plan, goes):
			left--
		case s.Local != c.Local || s.Remote != c.Remote:
			further = append(further, s)
		}
	}
	backup := func(s Subflow) int {
		if s.LocalBackup || s.PeerBackup {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(further, func(x, y Subflow) int {
		return cmp.Or(cmp.Compare(backup(x), backup(y)), y.Since.Compare(x.Since))
	})
	var excess []Command
	for _, s := range further[:min(len(further), max(left-1-b.Subflows, 0))] {
		excess = append(excess, Command{Kind: DestroySubflow, Token: c.Token, Local: s.Local, Remote: s.Remote})
	}
	return excess
}

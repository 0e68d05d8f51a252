package mptcp

import (
	"cmp"
	"net/netip"
	"slices"
)

// Explained is a connection with its decision.
type Explained struct {
	Connection
	Decision Decision
	// First is the subflow that alone is to carry data by [Hint.Order]; nil for all that the
	// decision lets.
	First *Subflow
	// Paths has the path of each subflow's address, "" where that is no EPE address.
	Paths []string
}

// Explained returns up to limit connections, oldest first, and how many there are. They are
// those of clients within a prefix; all where it is not valid.
func (m *Manager) Explained(within netip.Prefix, limit int) (explained []Explained, total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var some []*Connection
	for _, c := range m.conns.byToken {
		if !within.IsValid() || within.Contains(c.Client()) {
			some = append(some, c)
		}
	}
	slices.SortFunc(some, func(a, b *Connection) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Token, b.Token))
	})
	for _, c := range some[:min(limit, len(some))] {
		explained = append(explained, m.explained(c))
	}
	return explained, len(some)
}

func (m *Manager) explained(c *Connection) Explained {
	e := Explained{Connection: c.clone(), Decision: m.decide(c, m.routes(c.Client()))}
	if first := firstOfOrder(c, e.Decision, slices.Concat(e.Decision.Announce, e.Decision.Keep)); first >= 0 {
		e.First = &e.Subflows[first]
	}
	for _, s := range e.Subflows {
		e.Paths = append(e.Paths, m.pathOf(s.Local.Addr().Unmap()))
	}
	return e
}

func (m *Manager) pathOf(addr netip.Addr) string {
	for _, path := range m.paths {
		if slices.Contains(path.Addresses, addr) {
			return path.Name
		}
	}
	return ""
}

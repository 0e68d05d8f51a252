package mptcp

import (
	"fmt"
	"sync"
)

// troubles are the tasks that a Manager cannot do at present. They have a lock of their own:
// a caller may hold a lock that the [Router] needs, while the Manager asks the Router.
type troubles struct {
	mu sync.Mutex
	// full: connections were refused for the bound, and there has not been room since.
	full    bool
	bound   int
	refused uint64
	// lost is why connections are not managed, or nil.
	lost error
}

// lose notes why connections are not managed, or, with nil, that they are again.
func (t *troubles) lose(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = cause
}

// refuse notes a connection beyond the bound, and reports whether it is the first.
func (t *troubles) refuse(bound, connections int) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first = !t.full
	if first {
		t.refused = 0
	}
	t.full, t.bound = true, bound
	t.refused += uint64(connections)
	return first
}

// room notes how many connections there are.
func (t *troubles) room(connections int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Some room, so that the end of each connection is not the end of the trouble.
	if t.full && connections < t.bound-t.bound/10 {
		t.full = false
	}
}

// Problems describes the tasks that the Manager cannot do at present. Unlike other
// methods it may be called with a lock held that the Router takes.
func (m *Manager) Problems() []string {
	t := &m.troubles
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	if t.lost != nil {
		all = append(all, fmt.Sprintf("connections are left as they are until the kernel can be asked again: %s", t.lost))
	}
	if t.full {
		all = append(all, fmt.Sprintf("%d connections are managed, which is the bound; %d more had to do with their first subflow alone",
			t.bound, t.refused))
	}
	return all
}

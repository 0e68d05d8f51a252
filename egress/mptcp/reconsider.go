package mptcp

import (
	"net/netip"
	"sync"
	"time"

	"hikyaku/egress/prefixmap"
)

// reconsidering has the clients for which the Router's answers have changed. It has a lock
// of its own, so that its callers never wait for the Manager.
type reconsidering struct {
	mu       sync.Mutex
	prefixes []netip.Prefix
	all      bool
	// notBefore is when connections may be decided anew again.
	notBefore time.Time
}

const (
	// reconsiderShare is the wait before the next time as a multiple of the time that the
	// last one took. A table of 200,000 routes comes in hundreds of batches, each of which
	// may concern all connections.
	reconsiderShare = 4
	// maxReconsidered bounds the prefixes that wait; more are taken for all.
	maxReconsidered = 1 << 16
)

// Reconsider has it decided anew soon for clients in the prefixes, after the Router's
// answers for them changed; without prefixes for all. It does not wait for that.
func (m *Manager) Reconsider(prefixes ...netip.Prefix) {
	r := &m.again
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(prefixes) == 0 || len(r.prefixes)+len(prefixes) > maxReconsidered {
		r.all, r.prefixes = true, nil
	} else if !r.all {
		r.prefixes = append(r.prefixes, prefixes...)
	}
	m.wakeUp()
}

// wait returns how long nothing has to be reconsidered.
func (r *reconsidering) wait() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.all && len(r.prefixes) == 0 {
		return time.Hour
	}
	return time.Until(r.notBefore)
}

// take returns the clients to be reconsidered, with a nil set for all.
func (r *reconsidering) take() (clients *prefixmap.Map[struct{}], due bool) {
	if r.wait() > 0 {
		return nil, false
	}
	r.mu.Lock()
	prefixes, all := r.prefixes, r.all
	r.prefixes, r.all = nil, false
	r.mu.Unlock()
	if !all {
		clients = prefixmap.NewSet(prefixes)
	}
	return clients, true
}

// reconsider does the due reconsideration.
func (m *Manager) reconsider() {
	clients, due := m.again.take()
	if !due {
		return
	}
	m.mu.Lock()
	began := time.Now()
	m.settleAll(clients)
	ended := time.Now()
	m.mu.Unlock()
	m.again.mu.Lock()
	m.again.notBefore = ended.Add(reconsiderShare * ended.Sub(began))
	m.again.mu.Unlock()
}

package addpath

import (
	"net/netip"
	"sync"
)

// Routes counts paths by family.
type Routes struct{ IPv6, IPv4 int }

// Counts are numbers of the paths of a router.
type Counts struct {
	// Peers counts those of each peer that there are some of, by its name.
	Peers map[string]Routes
	// Unclaimed counts the announcements of paths of no peer: in the present session, and since
	// the router was configured.
	Unclaimed, UnclaimedTotal int
}

// tally counts the paths of a [Table], for readers in any goroutine.
type tally struct {
	mu     sync.Mutex
	paths  map[source]Routes
	paused map[string]bool
	// strange are the announcements of paths of no peer, by the routers' names.
	strange map[string]strange
}

// source are the names of a router and of the peer that its paths are of.
type source struct{ router, peer string }

type strange struct{ now, total int }

func newTally() *tally {
	return &tally{
		paths: make(map[source]Routes), paused: make(map[string]bool), strange: make(map[string]strange),
	}
}

// Counts are those of a router. Any goroutine may call it.
func (t *Table) Counts(router string) Counts {
	t.tally.mu.Lock()
	defer t.tally.mu.Unlock()
	of := t.tally.strange[router]
	c := Counts{Peers: make(map[string]Routes), Unclaimed: of.now, UnclaimedTotal: of.total}
	for from, n := range t.tally.paths {
		if from.router == router {
			c.Peers[from.peer] = n
		}
	}
	return c
}

// Paused reports whether a peer's paths are left out. Any goroutine may call it.
func (t *Table) Paused(peer string) bool {
	t.tally.mu.Lock()
	defer t.tally.mu.Unlock()
	return t.tally.paused[peer]
}

// add counts a path that is stored, or with -1 one that is removed.
func (t *tally) add(p path, prefix netip.Prefix, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := source{p.router.name, p.peer.Name}
	now := t.paths[of]
	if prefix.Addr().Is4() {
		now.IPv4 += n
	} else {
		now.IPv6 += n
	}
	if now == (Routes{}) {
		delete(t.paths, of)
		return
	}
	t.paths[of] = now
}

func (t *tally) unclaimed(router string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.strange[router]
	of.now, of.total = of.now+n, of.total+n
	t.strange[router] = of
}

// begin starts the counts of a router's session.
func (t *tally) begin(router string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.strange[router] = strange{total: t.strange[router].total}
}

func (t *tally) forget(router string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.strange, router)
}

func (t *tally) pause(peer string, paused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if paused {
		t.paused[peer] = true
	} else {
		delete(t.paused, peer)
	}
}

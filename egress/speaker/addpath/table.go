// Package addpath keeps the routes of egress peers that routers and route reflectors of the
// own AS send, several for each prefix (ADD-PATH, RFC 7911). It finds the peer that each path
// is of, by its next hop or a community.
package addpath

import (
	"net/netip"
	"slices"

	"hikyaku/egress/speaker/session"
	"hikyaku/egress/speaker/wire"
)

// Peer is an egress peer whose routes come from routers of the own AS.
type Peer struct {
	Name string
	// Address identifies it, and replaces next hops of routers that put themselves.
	Address  netip.Addr
	Families []wire.Family
	Match    session.Match
}

// Table has the paths of all routers. It is not safe for concurrent use.
type Table struct {
	peers map[string]*peer
	// byHop has the peers that are known by their next hops, marked those by communities.
	byHop   map[netip.Addr]*peer
	marked  []*peer
	routers map[string]*router
	paths   map[netip.Prefix][]path
	own     func(netip.Addr) bool
	tally   *tally
}

type peer struct {
	Peer
	// routes counts the prefixes that there is a path for.
	routes int
	// paused: the peer's paths are left out.
	paused bool
	// refused: routers have sent paths of it that are not usable.
	refused bool
}

// path is one for a prefix.
type path struct {
	router     *router
	peer       *peer
	attributes *wire.Attributes
	// id is the path identifier, which means something on the router's session alone.
	id uint32
	// stale: it is of the router's former session, whose identifiers mean nothing any more.
	stale bool
}

// Change is the new state of a peer's routes for some prefixes of one family.
type Change struct {
	// Peer is its address.
	Peer     netip.Addr
	Prefixes []netip.Prefix
	// Attributes are those of the route, nil where there is none left.
	Attributes *wire.Attributes
	// Refused: there is one, but it is not usable.
	Refused bool
}

// NewTable returns an empty table. own reports whether an address is one of this machine.
func NewTable(own func(netip.Addr) bool) *Table {
	return &Table{
		peers: make(map[string]*peer), byHop: make(map[netip.Addr]*peer), routers: make(map[string]*router),
		paths: make(map[netip.Prefix][]path), own: own, tally: newTally(),
	}
}

// AddPeer takes a peer. Routers must then send their routes again: those of nobody are not kept.
func (t *Table) AddPeer(p Peer) {
	added := &peer{Peer: p}
	t.peers[p.Name] = added
	if p.Match.ByCommunity() {
		t.marked = append(t.marked, added)
		return
	}
	for _, hop := range p.Match.NextHops {
		t.byHop[hop.WithZone("")] = added
	}
}

// RemovePeer forgets a peer and its paths.
func (t *Table) RemovePeer(name string) {
	removed := t.peers[name]
	if removed == nil {
		return
	}
	delete(t.peers, name)
	t.tally.pause(name, false)
	t.marked = slices.DeleteFunc(t.marked, func(p *peer) bool { return p == removed })
	for hop, p := range t.byHop {
		if p == removed {
			delete(t.byHop, hop)
		}
	}
	t.drop(func(_ netip.Prefix, p path) bool { return p.peer == removed })
}

// Pause leaves a peer's paths out, until resumed.
func (t *Table) Pause(name string) []Change {
	p := t.peers[name]
	if p == nil {
		return nil
	}
	p.paused = true
	t.tally.pause(name, true)
	return t.drop(func(_ netip.Prefix, of path) bool { return of.peer == p })
}

// Resume takes a peer's paths again. Routers must then send their routes again.
func (t *Table) Resume(name string) {
	if p := t.peers[name]; p != nil {
		p.paused = false
		t.tally.pause(name, false)
	}
}

// Replay are the routes of a peer, as if they had just come.
func (t *Table) Replay(name string) (all []Change) {
	p := t.peers[name]
	if p == nil {
		return nil
	}
	type group struct {
		attributes *wire.Attributes
		family     wire.Family
	}
	alike := make(map[group][]netip.Prefix)
	for prefix, list := range t.paths {
		if a := best(list, p); a != nil {
			of := group{a, familyOf(prefix)}
			alike[of] = append(alike[of], prefix)
		}
	}
	for of, prefixes := range alike {
		for part := range slices.Chunk(prefixes, replayed) {
			all = append(all, Change{Peer: p.Address, Prefixes: part, Attributes: of.attributes})
		}
	}
	return all
}

// replayed is how many prefixes a change of a replay has at most.
const replayed = 1024

// Routes counts the prefixes that there is a path of a peer for.
func (t *Table) Routes(name string) int {
	if p := t.peers[name]; p != nil {
		return p.routes
	}
	return 0
}

// Receive takes an UPDATE of a router. a are its attributes but the next hop. Where they are
// not usable, the paths count as withdrawn.
func (t *Table) Receive(name string, u *wire.Update, a wire.Attributes, usable bool) []Change {
	r := t.routers[name]
	if r == nil || !r.up {
		return nil
	}
	var changes changes
	for _, n := range u.Unreach {
		t.put(&changes, n, path{router: r})
	}
	for _, part := range []struct {
		paths   []wire.NLRI
		nextHop netip.Addr
	}{{u.Reach, u.NextHop}, {u.Plain, u.PlainHop}} {
		if len(part.paths) == 0 {
			continue
		}
		of := a
		of.NextHop = part.nextHop
		p := t.peerOf(r, &of, part.paths[0].Prefix)
		if p == nil {
			r.unclaimed.add(part.nextHop, wire.Originator(u.Attributes), t.isSelf(r, part.nextHop))
			t.tally.unclaimed(name, len(part.paths))
		}
		if p != nil && !usable {
			p.refused = true
		}
		for _, n := range part.paths {
			now := path{router: r, id: n.PathID}
			if usable && p != nil && !p.paused {
				now.peer, now.attributes = p, &of
			}
			t.put(&changes, n, now)
			if !usable && p != nil && !p.paused && best(t.paths[n.Prefix], p) == nil {
				changes.add(Change{Peer: p.Address, Refused: true}, n.Prefix)
			}
		}
	}
	return changes
}

// peerOf is the peer that a path of a router is of, nil for none. A next hop that the router
// has put itself for is replaced by the peer's.
func (t *Table) peerOf(r *router, a *wire.Attributes, example netip.Prefix) *peer {
	found := t.byHop[a.NextHop.WithZone("")]
	for _, p := range t.marked {
		if p.Match.Marks(*a) {
			found = p
			if t.isSelf(r, a.NextHop) {
				a.NextHop = p.nextHop(example.Addr().Is4())
			}
			break
		}
	}
	if found == nil || !slices.Contains(found.Families, familyOf(example)) {
		return nil
	}
	return found
}

// nextHop is the peer's for routes of a family.
func (p *peer) nextHop(is4 bool) netip.Addr {
	for _, hop := range p.Match.NextHops {
		if hop.Is4() == is4 {
			return hop
		}
	}
	return p.Address
}

// isSelf reports whether a next hop is no peer's: the router that sends it, or this machine.
func (t *Table) isSelf(r *router, hop netip.Addr) bool { return hop == r.address || t.own(hop) }

// put gives a path of a router its place. It replaces the one with the same identifier
// (RFC 7911 §2), and the stale ones that it stands for. Without a peer it is withdrawn.
func (t *Table) put(changes *changes, n wire.NLRI, now path) {
	list := t.paths[n.Prefix]
	if len(list) == 0 && now.peer == nil {
		return
	}
	at := slices.IndexFunc(list, func(p path) bool { return p.router == now.router && p.id == n.PathID && !p.stale })
	var former *peer
	if at >= 0 {
		former = list[at].peer
	}
	before, beforeNow := best(list, former), best(list, now.peer)
	next := slices.DeleteFunc(list, func(p path) bool {
		replaced := p.router == now.router && (!p.stale && p.id == n.PathID || p.stale && p.peer == now.peer)
		if replaced {
			t.tally.add(p, n.Prefix, -1)
		}
		return replaced
	})
	if now.peer != nil {
		next = append(next, now)
		t.tally.add(now, n.Prefix, +1)
	}
	t.store(n.Prefix, next)
	if former != now.peer {
		changes.note(former, n.Prefix, before, best(next, former))
	}
	changes.note(now.peer, n.Prefix, beforeNow, best(next, now.peer))
}

func (t *Table) store(prefix netip.Prefix, list []path) {
	if len(list) == 0 {
		delete(t.paths, prefix)
		return
	}
	t.paths[prefix] = list
}

// best are the attributes of a peer's path in a list: the first one that is not stale, or else
// the first one.
func best(list []path, p *peer) (found *wire.Attributes) {
	if p == nil {
		return nil
	}
	for _, one := range list {
		switch {
		case one.peer != p:
		case !one.stale:
			return one.attributes
		case found == nil:
			found = one.attributes
		}
	}
	return found
}

// drop removes the paths that gone is true for.
func (t *Table) drop(gone func(netip.Prefix, path) bool) []Change {
	return t.rework(func(prefix netip.Prefix, p path) (path, bool) { return p, !gone(prefix, p) })
}

// rework replaces each path by what change makes of it, and removes those that it does not keep.
func (t *Table) rework(change func(netip.Prefix, path) (now path, keep bool)) []Change {
	var changes changes
	for prefix, list := range t.paths {
		next := make([]path, 0, len(list))
		for _, p := range list {
			if now, keep := change(prefix, p); keep {
				next = append(next, now)
			} else {
				t.tally.add(p, prefix, -1)
			}
		}
		if slices.Equal(list, next) {
			continue
		}
		t.store(prefix, next)
		var seen []*peer
		for _, p := range list {
			if !slices.Contains(seen, p.peer) {
				seen = append(seen, p.peer)
				changes.note(p.peer, prefix, best(list, p.peer), best(next, p.peer))
			}
		}
	}
	return changes
}

// changes joins what follows each other and is alike.
type changes []Change

// note adds the change of a peer's route, if it is one, and counts the route.
func (c *changes) note(p *peer, prefix netip.Prefix, before, after *wire.Attributes) {
	if p == nil || before == after || before != nil && after != nil && *before == *after {
		return
	}
	switch {
	case before == nil:
		p.routes++
	case after == nil:
		p.routes--
	}
	c.add(Change{Peer: p.Address, Attributes: after}, prefix)
}

func (c *changes) add(of Change, prefix netip.Prefix) {
	if n := len(*c); n > 0 {
		last := &(*c)[n-1]
		if last.Peer == of.Peer && last.Attributes == of.Attributes && last.Refused == of.Refused &&
			last.Prefixes[0].Addr().Is4() == prefix.Addr().Is4() {
			last.Prefixes = append(last.Prefixes, prefix)
			return
		}
	}
	of.Prefixes = []netip.Prefix{prefix}
	*c = append(*c, of)
}

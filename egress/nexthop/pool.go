// Package nexthop numbers the nexthop objects that a planner wants, and knows when
// nobody uses one any more.
package nexthop

import (
	"cmp"
	"slices"

	"hikyaku/egress/kernel"
)

// Pool gives equal nexthops one object, counts its users, and keeps the numbers of
// objects that are in the kernel already. It is not safe for concurrent use.
type Pool struct {
	byContent map[kernel.Nexthop]kernel.NexthopID // keys have no ID
	byID      map[kernel.NexthopID]*entry
	last      kernel.NexthopID
}

type entry struct {
	nexthop kernel.Nexthop
	users   int
	// placed is set once the caller has been asked to put it into the kernel.
	placed bool
}

// NewPool returns a pool that knows the objects in the kernel. They have no users
// yet; see [Pool.Use] and [Pool.Prune].
func NewPool(have []kernel.Nexthop) *Pool {
	p := &Pool{
		byContent: make(map[kernel.Nexthop]kernel.NexthopID),
		byID:      make(map[kernel.NexthopID]*entry),
		last:      kernel.FirstNexthopID,
	}
	for _, n := range have {
		p.byID[n.ID] = &entry{nexthop: n, placed: true}
		p.byContent[content(n)] = n.ID
		p.last = max(p.last, n.ID)
	}
	return p
}

func content(n kernel.Nexthop) kernel.Nexthop {
	n.ID = 0
	return n
}

// Acquire adds a user to the object with this content, whatever its ID, and returns
// it with its number. placed is false when it is not in the kernel: put it there.
func (p *Pool) Acquire(n kernel.Nexthop) (object kernel.Nexthop, placed bool) {
	id, ok := p.byContent[content(n)]
	if !ok {
		id = p.free()
		n.ID = id
		p.byContent[content(n)] = id
		p.byID[id] = &entry{nexthop: n}
	}
	e := p.byID[id]
	e.users++
	placed, e.placed = e.placed, true
	return e.nexthop, placed
}

// Find returns the number of the object with this content, 0 when there is none.
func (p *Pool) Find(n kernel.Nexthop) kernel.NexthopID { return p.byContent[content(n)] }

// Use adds a user to a known object, and reports whether it is one.
func (p *Pool) Use(id kernel.NexthopID) bool {
	e, ok := p.byID[id]
	if ok {
		e.users++
	}
	return ok
}

// Release takes a user away. When it was the last one the object is forgotten, and
// gone asks for its removal from the kernel.
func (p *Pool) Release(id kernel.NexthopID) (n kernel.Nexthop, gone bool) {
	e, ok := p.byID[id]
	if !ok {
		return n, false
	}
	e.users--
	if e.users > 0 {
		return e.nexthop, false
	}
	p.forget(e.nexthop)
	return e.nexthop, true
}

// Prune forgets all objects without users.
func (p *Pool) Prune() {
	for _, e := range p.byID {
		if e.users == 0 {
			p.forget(e.nexthop)
		}
	}
}

// List returns all objects by number.
func (p *Pool) List() []kernel.Nexthop {
	list := make([]kernel.Nexthop, 0, len(p.byID))
	for _, e := range p.byID {
		list = append(list, e.nexthop)
	}
	slices.SortFunc(list, func(a, b kernel.Nexthop) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func (p *Pool) forget(n kernel.Nexthop) {
	delete(p.byID, n.ID)
	if p.byContent[content(n)] == n.ID {
		delete(p.byContent, content(n))
	}
}

// free returns a number that was not in use lately: the removal of its last owner
// may still be on the way.
func (p *Pool) free() kernel.NexthopID {
	for {
		p.last++
		if p.last < kernel.FirstNexthopID || p.last >= kernel.FirstNexthopID+1<<24 {
			p.last = kernel.FirstNexthopID + 1
		}
		if _, taken := p.byID[p.last]; !taken {
			return p.last
		}
	}
}

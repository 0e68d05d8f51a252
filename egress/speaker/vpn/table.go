package vpn

import (
	"net/netip"
	"slices"
	"unique"

	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

// Table merges the VPN routes that several reflectors announce.
//
// A route lives as long as one reflector has it. The routes of a lost reflector are kept as
// stale (RFC 4724 §4.2), unless another one has been in sync for long ([Table.Mature]).
//
// A reflector that has restarted sends its End-of-RIB when some borders have not come back
// to it yet. So End-of-RIB ends nothing by itself. The stale routes of a distinguisher go
// when it has come back and is complete ([Table.Settle]), all others by [Table.Expire].
type Table struct {
	reflectors []*adjRIBIn
}

// adjRIBIn are the VPN routes that one reflector announced (RFC 4271 §3.2).
type adjRIBIn struct {
	name string
	up   bool
	// synced is set from End-of-RIB to the session's end, mature by [Table.Mature].
	synced, mature bool
	// session numbers sessions; a record of an earlier one is stale.
	session uint32
	stale   int
	routes  map[srv6.RouteDistinguisher]map[routeKey]record
	// back are the distinguishers with a route of this session, and unsettled counts those
	// that may be incomplete.
	back      map[srv6.RouteDistinguisher]progress
	unsettled int
}

// progress is how complete the routes of a distinguisher are in a session.
type progress uint8

const (
	arriving progress = iota // some have come since the last [Table.Settle]
	quiet                    // none has
	settled
)

// routeKey is a netip.Prefix in 24 bytes without a pointer: the table of a
// border with four full peers has 800,000 of them.
type routeKey struct {
	addr [16]byte
	bits int16
	is4  bool
}

type record struct {
	route   unique.Handle[wire.VPNRoute]
	session uint32
}

// Change is one change of the merged view. Route is zero for a withdrawal.
type Change struct {
	wire.NLRI
	Route unique.Handle[wire.VPNRoute]
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{} }

func compact(p netip.Prefix) routeKey {
	return routeKey{addr: p.Addr().As16(), bits: int16(p.Bits()), is4: p.Addr().Is4()}
}

func (p routeKey) prefix() netip.Prefix {
	addr := netip.AddrFrom16(p.addr)
	if p.is4 {
		addr = addr.Unmap()
	}
	return netip.PrefixFrom(addr, int(p.bits))
}

func (t *Table) reflector(name string) *adjRIBIn {
	for _, r := range t.reflectors {
		if r.name == name {
			return r
		}
	}
	r := &adjRIBIn{name: name, routes: make(map[srv6.RouteDistinguisher]map[routeKey]record)}
	r.back = make(map[srv6.RouteDistinguisher]progress)
	t.reflectors = append(t.reflectors, r)
	return r
}

// Up begins a session, and returns its number: the routes of the last one stay, as stale.
func (t *Table) Up(name string) (session uint32) {
	r := t.reflector(name)
	r.up, r.synced, r.mature = true, false, false
	r.session++
	r.stale = r.count()
	clear(r.back)
	r.unsettled = 0
	return r.session
}

// Mature says that a session has lasted for the stale time. All borders that live have come
// back to the reflector by then, so that it knows of every route.
func (t *Table) Mature(name string, session uint32) {
	if r := t.reflector(name); r.up && r.session == session {
		r.mature = true
	}
}

// Set takes one route of a reflector, and appends the changes that follow from it. usable
// is false for a withdrawal, and for a route that packets cannot be sent by. Such a route
// replaces the former one of its key, which must not stay.
func (t *Table) Set(changes []Change, name string, n wire.NLRI, route unique.Handle[wire.VPNRoute], usable bool) []Change {
	change, changed := Change{}, false
	if usable {
		change, changed = t.learn(name, n, route)
	} else {
		change, changed = t.withdraw(name, n)
	}
	if changed {
		changes = append(changes, change)
	}
	return changes
}

// learn records an announcement, and returns the merged view and whether it changed.
func (t *Table) learn(name string, n wire.NLRI, route unique.Handle[wire.VPNRoute]) (Change, bool) {
	r, key := t.reflector(name), compact(n.Prefix)
	before, had := t.lookup(n.RD, key)
	table := r.routes[n.RD]
	if table == nil {
		table = make(map[routeKey]record)
		r.routes[n.RD] = table
	}
	if old, ok := table[key]; ok && old.session != r.session {
		r.stale--
	}
	table[key] = record{route: route, session: r.session}
	r.arrived(n.RD)
	after, _ := t.lookup(n.RD, key)
	return Change{n, after}, !had || before != after
}

// withdraw removes an announcement, and stale ones of the same route: a withdrawal in this
// session is newer than a session that ended. It returns the merged view and whether it
// changed.
func (t *Table) withdraw(name string, n wire.NLRI) (Change, bool) {
	key := compact(n.Prefix)
	before, had := t.lookup(n.RD, key)
	for _, r := range t.reflectors {
		if rec, found := r.routes[n.RD][key]; found && (r.name == name || r.isStale(rec)) {
			r.remove(n.RD, key, rec)
		}
	}
	after, has := t.lookup(n.RD, key)
	return Change{n, after}, had && (!has || before != after)
}

// arrived notes a route of this session.
func (r *adjRIBIn) arrived(rd srv6.RouteDistinguisher) {
	switch was, known := r.back[rd]; {
	case !known:
		r.unsettled++
		r.back[rd] = arriving
	case was == quiet:
		r.back[rd] = arriving
	}
}

// Down ends a session. With another reflector that knows of every route its routes go at
// once; the changes of the merged view are returned.
func (t *Table) Down(name string) []Change {
	changes := t.demote(t.reflector(name))
	for _, other := range t.reflectors {
		if other.synced && other.mature {
			return append(changes, t.Expire()...)
		}
	}
	return changes
}

// demote makes all routes of a reflector stale. Where another reflector has another route
// for the same prefix, that one now counts.
func (t *Table) demote(r *adjRIBIn) []Change {
	var changes []Change
	if slices.ContainsFunc(t.reflectors, func(other *adjRIBIn) bool { return other != r && other.up }) {
		for rd, table := range r.routes {
			for key := range table {
				before, _ := t.lookup(rd, key)
				up := r.up
				r.up = false
				after, _ := t.lookup(rd, key)
				r.up = up
				if before != after {
					changes = append(changes, Change{NLRI: wire.NLRI{RD: rd, Prefix: key.prefix()}, Route: after})
				}
			}
		}
	}
	r.up, r.synced, r.mature = false, false, false
	r.stale = r.count()
	return changes
}

// Synced says that a reflector has sent all the routes that it has.
func (t *Table) Synced(name string) { t.reflector(name).synced = true }

// Unsettled reports whether [Table.Settle] is to be called some time from now.
func (t *Table) Unsettled() bool {
	return slices.ContainsFunc(t.reflectors, func(r *adjRIBIn) bool { return r.synced && r.unsettled > 0 })
}

// Settle finds the distinguishers of reflectors in sync of which no route has come since
// the last but one call. Their routes are complete: those still stale are removed. The
// distinguishers are returned as well, each once for each session.
func (t *Table) Settle() (changes []Change, complete []srv6.RouteDistinguisher) {
	for _, r := range t.reflectors {
		if !r.synced || r.unsettled == 0 {
			continue
		}
		for rd, p := range r.back {
			switch p {
			case arriving:
				r.back[rd] = quiet
			case quiet:
				r.back[rd] = settled
				r.unsettled--
				complete = append(complete, rd)
			}
		}
	}
	for _, rd := range complete {
		for _, r := range t.reflectors {
			if r.stale > 0 {
				changes = t.purgeOne(changes, r, rd)
			}
		}
	}
	return changes, complete
}

// Expire removes everything stale.
func (t *Table) Expire() []Change {
	var changes []Change
	for _, r := range t.reflectors {
		if r.stale > 0 {
			changes = t.purge(changes, r)
		}
	}
	return changes
}

// Routes returns the merged view of the routes with a distinguisher.
func (t *Table) Routes(rd srv6.RouteDistinguisher) []Change {
	var all []Change
	seen := make(map[routeKey]bool)
	for _, r := range t.reflectors {
		for key := range r.routes[rd] {
			if route, ok := t.lookup(rd, key); ok && !seen[key] {
				seen[key] = true
				all = append(all, Change{NLRI: wire.NLRI{RD: rd, Prefix: key.prefix()}, Route: route})
			}
		}
	}
	return all
}

// purge removes the stale routes of one reflector, and appends the changes that follow from
// it.
func (t *Table) purge(changes []Change, r *adjRIBIn) []Change {
	for rd := range r.routes {
		changes = t.purgeOne(changes, r, rd)
	}
	return changes
}

// purgeOne is purge for one distinguisher.
func (t *Table) purgeOne(changes []Change, r *adjRIBIn, rd srv6.RouteDistinguisher) []Change {
	for key, rec := range r.routes[rd] {
		if !r.isStale(rec) {
			continue
		}
		before, _ := t.lookup(rd, key)
		r.remove(rd, key, rec)
		change := Change{NLRI: wire.NLRI{RD: rd, Prefix: key.prefix()}}
		if after, has := t.lookup(rd, key); !has {
			changes = append(changes, change)
		} else if after != before {
			change.Route = after
			changes = append(changes, change)
		}
	}
	return changes
}

// HasStale reports whether there is anything for [Table.Expire].
func (t *Table) HasStale() bool {
	for _, r := range t.reflectors {
		if r.stale > 0 {
			return true
		}
	}
	return false
}

// lookup returns the merged view of one route: the first reflector's that is
// fresh, else the first that is stale.
func (t *Table) lookup(rd srv6.RouteDistinguisher, key routeKey) (route unique.Handle[wire.VPNRoute], ok bool) {
	for _, r := range t.reflectors {
		rec, found := r.routes[rd][key]
		if found && !r.isStale(rec) {
			return rec.route, true
		}
		if found && !ok {
			route, ok = rec.route, true
		}
	}
	return route, ok
}

func (r *adjRIBIn) isStale(rec record) bool { return !r.up || rec.session != r.session }

func (r *adjRIBIn) remove(rd srv6.RouteDistinguisher, key routeKey, rec record) {
	if r.isStale(rec) {
		r.stale--
	}
	delete(r.routes[rd], key)
	if len(r.routes[rd]) == 0 {
		delete(r.routes, rd)
	}
}

func (r *adjRIBIn) count() int {
	n := 0
	for _, table := range r.routes {
		n += len(table)
	}
	return n
}

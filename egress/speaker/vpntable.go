package speaker

import (
	"net/netip"
	"slices"
	"unique"

	"hikyaku/egress/srv6"
)

// vpnTable merges what several reflectors say of the same VPN routes.
//
// A route lives as long as one reflector has it. What a lost reflector said is
// kept as stale while no other is in sync (RFC 4724 §4.2), and goes when one is,
// or when the caller's patience ends.
type vpnTable struct {
	reflectors []*reflector
}

// reflector is the VPN adj-RIB-in of one neighbour.
type reflector struct {
	name string
	up   bool
	// synced is set from End-of-RIB to the session's end.
	synced bool
	// session numbers sessions; a record of an earlier one is stale.
	session uint32
	stale   int
	routes  map[srv6.RouteDistinguisher]map[vpnPrefix]vpnRecord
}

// vpnPrefix is a netip.Prefix in 24 bytes without a pointer: the table of a
// border with four full peers has 800,000 of them.
type vpnPrefix struct {
	addr [16]byte
	bits int16
	is4  bool
}

type vpnRecord struct {
	route   unique.Handle[VPNRoute]
	session uint32
}

// vpnChange is one change of the merged view; route is zero for a withdrawal.
type vpnChange struct {
	rd     srv6.RouteDistinguisher
	prefix netip.Prefix
	route  unique.Handle[VPNRoute]
}

func newVPNTable() *vpnTable { return &vpnTable{} }

func compact(p netip.Prefix) vpnPrefix {
	return vpnPrefix{addr: p.Addr().As16(), bits: int16(p.Bits()), is4: p.Addr().Is4()}
}

func (p vpnPrefix) prefix() netip.Prefix {
	addr := netip.AddrFrom16(p.addr)
	if p.is4 {
		addr = addr.Unmap()
	}
	return netip.PrefixFrom(addr, int(p.bits))
}

func (t *vpnTable) reflector(name string) *reflector {
	for _, r := range t.reflectors {
		if r.name == name {
			return r
		}
	}
	r := &reflector{name: name, routes: make(map[srv6.RouteDistinguisher]map[vpnPrefix]vpnRecord)}
	t.reflectors = append(t.reflectors, r)
	return r
}

// up begins a session: what is there of the last one stays, as stale.
func (t *vpnTable) up(name string) {
	r := t.reflector(name)
	r.up, r.synced = true, false
	r.session++
	r.stale = r.count()
}

// learn records an announcement and tells whether the merged view changed.
func (t *vpnTable) learn(name string, rd srv6.RouteDistinguisher, prefix netip.Prefix, route unique.Handle[VPNRoute]) bool {
	r, key := t.reflector(name), compact(prefix)
	before, had := t.lookup(rd, key)
	table := r.routes[rd]
	if table == nil {
		table = make(map[vpnPrefix]vpnRecord)
		r.routes[rd] = table
	}
	if old, ok := table[key]; ok && old.session != r.session {
		r.stale--
	}
	table[key] = vpnRecord{route: route, session: r.session}
	after, _ := t.lookup(rd, key)
	return !had || before != after
}

// withdraw removes an announcement, and what is stale of the same route: who
// withdraws it in this session knows better than a session that ended. ok tells
// whether the merged view changed, and route what it is now.
func (t *vpnTable) withdraw(name string, rd srv6.RouteDistinguisher, prefix netip.Prefix) (change vpnChange, ok bool) {
	key := compact(prefix)
	before, had := t.lookup(rd, key)
	for _, r := range t.reflectors {
		if rec, found := r.routes[rd][key]; found && (r.name == name || r.isStale(rec)) {
			r.remove(rd, key, rec)
		}
	}
	after, has := t.lookup(rd, key)
	change = vpnChange{rd: rd, prefix: prefix}
	if has {
		change.route = after
	}
	return change, had && (!has || before != after)
}

// down ends a session. With another reflector in sync its routes go at once;
// the changes of the merged view are returned.
func (t *vpnTable) down(name string) []vpnChange {
	changes := t.demote(t.reflector(name))
	for _, other := range t.reflectors {
		if other.synced {
			return append(changes, t.expire()...)
		}
	}
	return changes
}

// demote makes all that a reflector said stale. Where another one says otherwise
// that counts now.
func (t *vpnTable) demote(r *reflector) []vpnChange {
	var changes []vpnChange
	if slices.ContainsFunc(t.reflectors, func(other *reflector) bool { return other != r && other.up }) {
		for rd, table := range r.routes {
			for key := range table {
				before, _ := t.lookup(rd, key)
				up := r.up
				r.up = false
				after, _ := t.lookup(rd, key)
				r.up = up
				if before != after {
					changes = append(changes, vpnChange{rd: rd, prefix: key.prefix(), route: after})
				}
			}
		}
	}
	r.up, r.synced = false, false
	r.stale = r.count()
	return changes
}

// synced says that a reflector has sent all: what is still stale is gone.
func (t *vpnTable) synced(name string) []vpnChange {
	t.reflector(name).synced = true
	return t.expire()
}

// expire removes everything stale.
func (t *vpnTable) expire() []vpnChange {
	var changes []vpnChange
	for _, r := range t.reflectors {
		if r.stale > 0 {
			changes = t.purge(changes, r)
		}
	}
	return changes
}

// forget removes a reflector for good.
func (t *vpnTable) forget(name string) []vpnChange {
	r := t.reflector(name)
	changes := t.purge(t.demote(r), r)
	t.reflectors = slices.DeleteFunc(t.reflectors, func(other *reflector) bool { return other == r })
	return changes
}

// purge removes what is stale of one reflector, and appends what thereby changes.
func (t *vpnTable) purge(changes []vpnChange, r *reflector) []vpnChange {
	for rd, table := range r.routes {
		for key, rec := range table {
			if !r.isStale(rec) {
				continue
			}
			before, _ := t.lookup(rd, key)
			r.remove(rd, key, rec)
			change := vpnChange{rd: rd, prefix: key.prefix()}
			if after, has := t.lookup(rd, key); !has {
				changes = append(changes, change)
			} else if after != before {
				change.route = after
				changes = append(changes, change)
			}
		}
	}
	return changes
}

func (t *vpnTable) hasStale() bool {
	for _, r := range t.reflectors {
		if r.stale > 0 {
			return true
		}
	}
	return false
}

// lookup returns the merged view of one route: the first reflector's that is
// fresh, else the first that is stale.
func (t *vpnTable) lookup(rd srv6.RouteDistinguisher, key vpnPrefix) (route unique.Handle[VPNRoute], ok bool) {
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

func (r *reflector) isStale(rec vpnRecord) bool { return !r.up || rec.session != r.session }

func (r *reflector) remove(rd srv6.RouteDistinguisher, key vpnPrefix, rec vpnRecord) {
	if r.isStale(rec) {
		r.stale--
	}
	delete(r.routes[rd], key)
	if len(r.routes[rd]) == 0 {
		delete(r.routes, rd)
	}
}

func (r *reflector) count() int {
	n := 0
	for _, table := range r.routes {
		n += len(table)
	}
	return n
}
